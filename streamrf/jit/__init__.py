"""Compiled loops over arrays, kept in Numba's cache from one run to the next."""

import atexit
import hashlib
import logging
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import numba


def _find_cache() -> Path:
    """Return the folder of what Numba compiles: one of this process where it finds no other.

    It looks for one when a function is declared, and raises where none can be written to.
    """
    try:
        kept = numba.njit(cache=True)(_find_cache)
    except RuntimeError:
        numba.config.CACHE_DIR = tempfile.mkdtemp(prefix="streamrf-numba-")
        atexit.register(shutil.rmtree, numba.config.CACHE_DIR, ignore_errors=True)
        logging.getLogger("streamrf").warning(
            "Numba can write its cache nowhere, so loops are compiled anew in every run; set "
            "NUMBA_CACHE_DIR to a folder that can be written to"
        )
        kept = numba.njit(cache=True)(_find_cache)
    return Path(kept.stats.cache_path)


def _forget_others(folder: Path) -> None:
    """Remove from the cache what was compiled from other sources than those here.

    Numba looks whether the file of a loop has changed, and not those of the loops that it calls.
    """
    sources, stamp = Path(__file__).parent.glob("[!.]*.py"), folder / "streamrf-sources"
    with suppress(OSError):  # of a folder that is written to by others alone
        digest = hashlib.sha256(
            b"".join(source.read_bytes() for source in sorted(sources))
        ).digest()
        if stamp.exists() and stamp.read_bytes() == digest:
            return
        for file in folder.glob("*.nb[ic]"):
            file.unlink(missing_ok=True)
        stamp.write_bytes(digest)


if not numba.config.DISABLE_JIT:
    _forget_others(_find_cache())
