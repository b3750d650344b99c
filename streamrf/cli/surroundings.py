"""What has to be right before anything is imported that computes."""

import os
import sys

WHOLE_NUMBERS = {  # that Numba reads as it is imported: the least, and what to say
    "NUMBA_NUM_THREADS": (1, "number of threads; give 1 or more"),
    "NUMBA_DISABLE_JIT": (0, "switch; give 0 or 1"),
}


def check_surroundings() -> None:
    """End with a sentence where imports would end in a traceback."""
    try:
        os.getcwd()
    except OSError:
        _refuse("the current directory is gone; change to one that is there")
    for name, (least, advice) in WHOLE_NUMBERS.items():
        value = os.environ.get(name)
        if value is not None and not _is_whole(value, least):
            _refuse(f"{name}={value} is no {advice}, or leave it unset")


def _is_whole(text: str, least: int) -> bool:
    try:
        return int(text) >= least
    except ValueError:
        return False


def _refuse(sentence: str) -> None:
    if sys.stderr is not None:
        print(f"streamrf: {sentence}", file=sys.stderr)
    sys.exit(1)
