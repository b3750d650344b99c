"""Compiled loops over arrays, kept in Numba's cache from one run to the next."""

import atexit
import logging
import shutil
import tempfile

import numba


def _find_cache() -> None:
    """Let Numba keep what it compiles in a folder of this process where it finds no other.

    It looks for one when a function is declared, and raises where none can be written to.
    """
    try:
        numba.njit(cache=True)(_find_cache)
    except RuntimeError:
        numba.config.CACHE_DIR = tempfile.mkdtemp(prefix="streamrf-numba-")
        atexit.register(shutil.rmtree, numba.config.CACHE_DIR, ignore_errors=True)
        logging.getLogger("streamrf").warning(
            "Numba can write its cache nowhere, so loops are compiled anew in every run; set "
            "NUMBA_CACHE_DIR to a folder that can be written to"
        )


_find_cache()
