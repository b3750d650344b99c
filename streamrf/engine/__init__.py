"""`fold`: add a source's blocks into a summary, here or on the workers of a Dask cluster."""

from streamrf.engine.cluster import Place, connected
from streamrf.engine.dask import (
    Job,
    Worker,
    as_client,
    cut,
    default_parts,
    map_in_order,
    map_reduce,
    workers,
)
from streamrf.engine.local import fold, stream

__all__ = [
    "Job",
    "Place",
    "Worker",
    "as_client",
    "connected",
    "cut",
    "default_parts",
    "fold",
    "map_in_order",
    "map_reduce",
    "stream",
    "workers",
]
