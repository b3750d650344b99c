"""`fold`: add a source's blocks into a summary, here or on the workers of a Dask cluster."""

from streamrf.engine.base import (
    BLOCK_ROWS,
    Reading,
    Runner,
    SideBySide,
    StateStore,
    Summary,
    Update,
    usual_rows,
    window,
)
from streamrf.engine.checkpoint import Checkpoint, State
from streamrf.engine.cluster import ClusterAddress, connected
from streamrf.engine.folding import fold, map_blocks, runner
from streamrf.engine.options import CHECKPOINT_SECONDS, Outlook, RunOptions, Worker, check_run
from streamrf.engine.samples import state_of
from streamrf.engine.shards import cut, default_parts
from streamrf.engine.spill import ShardFolder, first_file
from streamrf.engine.tasks import map_in_order, map_reduce, workers
from streamrf.engine.worker import ShardTask

__all__ = [
    "BLOCK_ROWS",
    "CHECKPOINT_SECONDS",
    "Checkpoint",
    "ClusterAddress",
    "Outlook",
    "Reading",
    "RunOptions",
    "Runner",
    "ShardFolder",
    "ShardTask",
    "SideBySide",
    "State",
    "StateStore",
    "Summary",
    "Update",
    "Worker",
    "check_run",
    "connected",
    "cut",
    "default_parts",
    "first_file",
    "fold",
    "map_blocks",
    "map_in_order",
    "map_reduce",
    "runner",
    "state_of",
    "usual_rows",
    "window",
    "workers",
]
