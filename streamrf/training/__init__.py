"""One pass over a source: calibrate, add up, choose the penalty, solve."""

from streamrf.training import benchmark
from streamrf.training.memory import INTERPRETER_BYTES, parse_bytes
from streamrf.training.passes import Pass, accumulate, begin, run
from streamrf.training.shards import Outlook
from streamrf.training.warmup import warm_up

__all__ = [
    "INTERPRETER_BYTES",
    "Outlook",
    "Pass",
    "accumulate",
    "begin",
    "benchmark",
    "parse_bytes",
    "run",
    "warm_up",
]
