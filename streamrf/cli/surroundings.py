"""What has to be right before anything is imported that computes."""

import os
import sys


def check_surroundings() -> None:
    """End with a sentence where imports would end in a traceback."""
    try:
        os.getcwd()
    except OSError:
        _refuse("the current directory is gone; change to one that is there")
    n_threads = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    if n_threads.lstrip("-").isdigit() and int(n_threads) < 1:
        _refuse(f"NUMBA_NUM_THREADS={n_threads} is no number of threads; give 1 or more, or none")


def _refuse(sentence: str) -> None:
    if sys.stderr is not None:
        print(f"streamrf: {sentence}", file=sys.stderr)
    sys.exit(1)
