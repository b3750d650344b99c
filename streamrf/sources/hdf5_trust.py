"""What an HDF5 file claims, and where it sends its readers: checked before the rows are read."""

import glob
import math
import os
import re
from collections.abc import Iterator
from typing import Any

import h5py

from streamrf.errors import CorruptFileError

SMALL_BYTES = 1 << 30  # read in seconds, whatever of it is stored
MIN_STORED = 1e-3  # share
MAX_DEPTH = 8  # of datasets made of others
READ_BYTES = 1e9  # a second, to say how long it would take


def check_sparse(dataset: h5py.Dataset, others: list[str], where: str) -> None:
    """Raise CorruptFileError if a large dataset stores less than a thousandth of what it claims.

    Chunks are counted where there are any, as equal rows compress to next to nothing; of datasets
    made of `others`, the bytes of these files.
    """
    n_bytes = dataset.size * dataset.dtype.itemsize
    if n_bytes <= SMALL_BYTES:
        return
    stored = dataset.id.get_storage_size()
    share = stored / n_bytes
    if dataset.external or dataset.is_virtual:
        stored = sum(os.path.getsize(file) for file in others if os.path.exists(file))
        share = stored / n_bytes
    elif dataset.chunks is not None:
        grid = [-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True)]
        share = dataset.id.get_num_chunks() / math.prod(grid)
    if share < MIN_STORED:
        raise not_stored(where, len(dataset), n_bytes, stored)


def not_stored(where: str, n_rows: int, n_bytes: int, stored: int) -> CorruptFileError:
    """Return the error of `n_rows` rows of `n_bytes`, of which `stored` bytes are there."""
    hours = n_bytes / READ_BYTES / 3600
    return CorruptFileError(
        f"{where} claims {n_rows:,} rows, {n_bytes / 1e9:,.0f} GB, and stores {stored:,} "
        f"bytes of them: the others would be read as the fill value, for {hours:,.1f} hours at "
        "1 GB/s; allow_sparse=True (--allow-sparse) reads them"
    )


def origins(dataset: h5py.Dataset, path: str) -> list[str]:
    """Return the other files that the rows of a dataset of the file `path` are really in."""
    found = dict.fromkeys(_origins(dataset, 0))
    found.pop(os.path.realpath(path), None)
    return list(found)


def check_origins(files: list[str], path: str, where: str) -> None:
    """Raise CorruptFileError if rows are in a file outside the folder of the one that was given."""
    folder = os.path.dirname(os.path.realpath(path))
    for file in files:
        if os.path.commonpath((folder, file)) != folder:
            raise CorruptFileError(
                f"{where} is in another file, {file}, outside the folder of the one given; "
                "allow_external=True (--allow-external) follows it"
            )


def _origins(dataset: h5py.Dataset, depth: int) -> Iterator[str]:
    own = os.path.realpath(dataset.file.filename)
    yield own  # of an external link, that of its target
    for name, *_ in dataset.external or ():
        yield os.path.realpath(os.fsdecode(name))  # libhdf5 begins at the working folder
    if dataset.is_virtual:
        for source in dataset.virtual_sources():
            yield from _sources(source, own, depth)


def _sources(source: Any, own: str, depth: int) -> Iterator[str]:
    """Yield the files of a virtual dataset's source, and of what that is made of in turn."""
    if source.file_name == ".":
        names = [own]
    else:
        pattern = os.path.join(os.path.dirname(own), source.file_name)
        names = [pattern]
        if "%b" in source.file_name:  # numbered blocks
            names = sorted(glob.glob(re.sub("%b", "*", glob.escape(pattern)))) or [pattern]
    for name in names:
        yield os.path.realpath(name)
        if depth >= MAX_DEPTH:
            raise CorruptFileError(f"{own} has a dataset made of others over {MAX_DEPTH} deep")
        if name != own or source.dset_name:
            yield from _inside(name, source.dset_name, depth)


def _inside(path: str, name: str, depth: int) -> Iterator[str]:
    try:
        with h5py.File(path, "r") as file:
            dataset = file.get(name)
            if isinstance(dataset, h5py.Dataset):
                yield from _origins(dataset, depth + 1)
    except OSError:  # a missing source reads as fill values
        return
