"""One pass over a source: calibrate, add up, choose the penalty, solve."""

from streamrf.training import benchmark
from streamrf.training.accumulation import accumulate, begin
from streamrf.training.clustering import Clusters, cluster
from streamrf.training.column_moments import load_moments, moments
from streamrf.training.decoding import compared, is_auto_decode, of_loss
from streamrf.training.feature_choice import Selection
from streamrf.training.finishing import finish, foresee_finish
from streamrf.training.foresight import READING, SOLVING
from streamrf.training.holdout import Holdout
from streamrf.training.job import Job
from streamrf.training.loss_pass import HeldRows
from streamrf.training.memory import INTERPRETER_BYTES, bit_bytes, parse_bytes
from streamrf.training.odd_columns import warn_of_far_columns
from streamrf.training.passes import Pass
from streamrf.training.peeking import peek_rows
from streamrf.training.refining import check_job, refine, refine_job
from streamrf.training.selecting import select
from streamrf.training.settings import AUTO, TASKS, WARP_ROUNDS, Settings
from streamrf.training.solve_memory import SolvePlan, check_memory, held_bytes
from streamrf.training.warmup import warm_up

__all__ = [
    "AUTO",
    "INTERPRETER_BYTES",
    "READING",
    "SOLVING",
    "TASKS",
    "WARP_ROUNDS",
    "Clusters",
    "HeldRows",
    "Holdout",
    "Job",
    "Pass",
    "Selection",
    "Settings",
    "SolvePlan",
    "accumulate",
    "begin",
    "benchmark",
    "bit_bytes",
    "check_job",
    "check_memory",
    "cluster",
    "compared",
    "finish",
    "foresee_finish",
    "held_bytes",
    "is_auto_decode",
    "load_moments",
    "moments",
    "of_loss",
    "parse_bytes",
    "peek_rows",
    "refine",
    "refine_job",
    "select",
    "warm_up",
    "warn_of_far_columns",
]
