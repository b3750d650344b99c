"""What an HDF5 file claims, and where it sends its readers: checked before the rows are read."""

import glob
import math
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import h5py
import numpy as np

from streamrf.errors import ChangedFileError, CorruptFileError, warn

SMALL_BYTES = 1 << 30  # read in seconds, whatever of it is stored
MIN_STORED = 1e-3  # share
MISSING = "is not there"
MAX_DEPTH = 8  # of datasets made of others
MAX_CELLS = 1 << 20  # of a grid of boxes, to count what is in any
READ_BYTES = 1e9  # a second, to say how long it would take


def check_sparse(dataset: h5py.Dataset, others: Iterable[str], where: str) -> None:
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


def lacking(dataset: h5py.Dataset, where: str) -> str:
    """Return a sentence if numbers were never written, and are read as the fill value, else "".

    Of a dataset made of others, whether these are enough of them.
    """
    what = ""
    if dataset.is_virtual:
        n_lacking = dataset.size - _n_mapped(dataset)
        if n_lacking > 0:
            what = f"{n_lacking:,} of {dataset.size:,} numbers are of no file"
    elif dataset.chunks is not None:
        grid = zip(dataset.shape, dataset.chunks, strict=True)
        n_chunks = math.prod(-(-n // c) for n, c in grid)
        n_lacking = n_chunks - dataset.id.get_num_chunks()
        if n_lacking > 0:
            what = f"{n_lacking:,} of {n_chunks:,} chunks were never written"
    elif dataset.size and not dataset.external and not dataset.id.get_storage_size():
        what = "all numbers were never written"  # when the first is, HDF5 makes room for all
    if not what:
        return ""
    return (
        f"{where}: {what} and are read as the fill value, {dataset.fillvalue}: the writer left them"
        " out or has not come to its end; allow_sparse=True (--allow-sparse) if they are to be so"
    )


def _n_mapped(dataset: h5py.Dataset) -> int:
    """Return how many numbers of a virtual dataset are those of others, all where none tells.

    Those of two of them count twice, unless all are boxes, in a grid that is not too fine.
    """
    spaces = [source.vspace for source in dataset.virtual_sources()]
    try:
        counts = [space.get_select_npoints() for space in spaces]
        bounds = [space.get_select_bounds() for space, n in zip(spaces, counts, strict=True) if n]
    except (RuntimeError, ValueError):  # a selection without an end
        return dataset.size
    if not bounds:
        return 0
    starts, lasts = np.array(bounds).transpose(1, 2, 0)  # (n_axes, n_boxes) each
    stops = lasts + 1
    edges = [np.unique(both) for both in np.hstack((starts, stops))]
    shape = [len(axis) - 1 for axis in edges]
    if math.prod(shape) > MAX_CELLS or np.prod(stops - starts, axis=0).sum() != sum(counts):
        return sum(counts)
    is_mapped = np.zeros(shape, bool)
    pairs = zip(edges, starts, stops, strict=True)
    cells = [np.searchsorted(axis, [low, high]).T.tolist() for axis, low, high in pairs]
    for box in zip(*cells, strict=True):
        is_mapped[tuple(slice(*ends) for ends in box)] = True
    n_mapped = is_mapped.astype(np.int64)
    for axis in reversed(edges):
        n_mapped = n_mapped @ np.diff(axis)
    return int(n_mapped)


def open_to_read(path: str, **options: Any) -> h5py.File:
    """Open a file as `h5py.File` does; one that is open here already, with the locking it has.

    The library opens no file twice with two kinds of locking.
    """
    try:
        return h5py.File(path, "r", **options)
    except OSError as error:
        for locking in (False, True):
            if "flag values don't match" in str(error):
                try:
                    return h5py.File(path, "r", locking=locking, **options)
                except OSError as other:
                    error = other
        raise error from None


def warn_of_lacking(sentences: Iterable[str]) -> None:
    """Warn by the first sentence that is not empty, with the number of the others."""
    told = [sentence for sentence in sentences if sentence]
    if told:
        warn(told[0] + (f"; and so of {len(told) - 1:,} more" if len(told) > 1 else ""))


def check_there(files: Iterable[str], where: str) -> None:
    """Raise ChangedFileError if a file with rows was taken away, so that they may be of no file."""
    for file in files:
        if not os.path.exists(file):
            raise ChangedFileError(
                f"{where} has rows in {file}, which was taken away after it was opened: they may "
                "have been read as the fill value; put it back and run again"
            )


def not_stored(where: str, n_rows: int, n_bytes: int, stored: int) -> CorruptFileError:
    """Return the error of `n_rows` rows of `n_bytes`, of which `stored` bytes are there."""
    hours = n_bytes / READ_BYTES / 3600
    return CorruptFileError(
        f"{where} claims {n_rows:,} rows, {n_bytes / 1e9:,.0f} GB, and stores {stored:,} "
        f"bytes of them: the others would be read as the fill value, for {hours:,.1f} hours at "
        "1 GB/s; allow_sparse=True (--allow-sparse) reads them"
    )


class Origin(NamedTuple):
    """A file that rows are really in.

    Attributes
    ----------
    file : its real path
    lack : what it lacks of the rows, or ""
    doubt : a sentence, if some of them were never written, or ""
    """

    file: str
    lack: str
    doubt: str = ""


def origins(dataset: h5py.Dataset, path: str, where: str) -> tuple[dict[str, str], list[str]]:
    """Return the other files that the rows of a dataset of the file `path` are really in.

    The values say what a file lacks of these rows, and are empty where it lacks nothing; the file
    itself is named only if it lacks something. And sentences on rows that were never written, none
    if the dataset is called nothing.
    """
    found: dict[str, str] = {}
    doubts = []
    for file, lack, doubt in _origins(dataset, 0, where):
        found[file] = found.get(file) or lack
        doubts.append(doubt)
    own = os.path.realpath(path)
    others = {file: lack for file, lack in found.items() if lack or file != own}
    return others, list(filter(None, doubts))


def check_complete(files: dict[str, str], where: str) -> None:
    """Raise CorruptFileError if one of the `origins` lacks rows."""
    for file, lack in files.items():
        if lack:
            raise CorruptFileError(
                f"{where} has rows in {file}, which {lack}: they would be read as the fill value;"
                " put back the file as it was, or read them all the same with allow_sparse=True"
                " (--allow-sparse)"
            )


def check_origins(files: Iterable[str], path: str, where: str) -> None:
    """Raise CorruptFileError if rows are in a file outside the folder of the one that was given."""
    folder = os.path.dirname(os.path.realpath(path))
    for file in files:
        if os.path.commonpath((folder, file)) != folder:
            raise CorruptFileError(
                f"{where} is in another file, {file}, outside the folder of the one given; "
                "allow_external=True (--allow-external) follows it"
            )


def _origins(dataset: h5py.Dataset, depth: int, where: str) -> Iterator[Origin]:
    """Yield the files that the rows of a dataset are in, and what each lacks of them.

    What was never written is doubted only where the dataset is called something.
    """
    own = os.path.realpath(dataset.file.filename)  # of an external link, that of its target
    yield Origin(own, "", lacking(dataset, where) if where else "")
    left = dataset.size * dataset.dtype.itemsize
    for name, offset, size in dataset.external or ():
        file = os.path.realpath(os.fsdecode(name))  # libhdf5 begins at the working folder
        n_bytes = min(size, left)
        left -= n_bytes
        stored = os.path.getsize(file) if os.path.exists(file) else -1
        short = f"has {stored:,} bytes of {offset + n_bytes:,}" if stored >= 0 else MISSING
        yield Origin(file, short if stored < offset + n_bytes else "")
    if dataset.is_virtual:
        if depth >= MAX_DEPTH:
            file = dataset.file.filename
            raise CorruptFileError(f"{file} has a dataset made of others over {MAX_DEPTH} deep")
        for source in dataset.virtual_sources():
            for file in _files(source.file_name, dataset.file.filename):
                yield from _inside(file, source, depth, bool(where))


def _files(name: str, owner: str) -> list[str]:
    """Return the files that the source of a virtual dataset of the file `owner` is in."""
    if name == ".":
        return [owner]
    if "%b" not in name:
        return [_found(name, owner)]
    # blocks are numbered from 0
    pattern = os.path.join(os.path.dirname(owner), name)
    number = re.compile(re.escape(pattern).replace("%b", "([0-9]+)", 1).replace("%b", "[0-9]+"))
    matches = map(number.fullmatch, glob.glob(re.sub("%b", "*", glob.escape(pattern))))
    last = max((int(match[1]) for match in matches if match), default=0)
    return [pattern.replace("%b", str(block)) for block in range(last + 1)]


def _found(name: str, owner: str) -> str:
    """Return the file that libhdf5 opens (H5F_prefix_open_file); where there is none, that asked.

    It looks by the whole path, then by the last name, next to the virtual dataset, in the working
    folder, and next to what a symbolic link leads to.
    """
    first = os.path.join(os.path.dirname(owner), name)
    last = os.path.basename(name) if os.path.isabs(name) else name
    folders = (os.path.dirname(owner), "", os.path.dirname(os.path.realpath(owner)))
    tried = (first, *(os.path.join(folder, last) for folder in folders))
    return next(filter(os.path.exists, tried), first)


def _inside(file: str, source: Any, depth: int, is_doubted: bool) -> Iterator[Origin]:
    """Yield a file of a virtual dataset's source, and those of what that is made of in turn."""
    path = os.path.realpath(file)
    try:
        with open_to_read(path) as handle:
            dataset = handle.get(source.dset_name)
            if isinstance(dataset, h5py.Dataset):
                yield Origin(path, _short(dataset, source))
                name = f"{path}, dataset {source.dset_name!r}"
                is_named = is_doubted and _takes_all(dataset, source)
                yield from _origins(dataset, depth + 1, name if is_named else "")
            else:  # numbered datasets are not looked for
                numbered = "%b" in source.dset_name
                yield Origin(path, "" if numbered else f"has no dataset {source.dset_name!r}")
    except OSError:
        yield Origin(path, "cannot be read as HDF5" if os.path.exists(path) else MISSING)


def _takes_all(dataset: h5py.Dataset, source: Any) -> bool:
    """Return whether a virtual dataset takes all of a dataset, or more than was ever written."""
    try:
        n_taken = source.vspace.get_select_npoints()
    except (RuntimeError, ValueError):  # a selection without an end
        return True
    if dataset.is_virtual:
        n_written = _n_mapped(dataset)
    elif dataset.chunks is not None:
        n_written = dataset.id.get_num_chunks() * math.prod(dataset.chunks)
    else:
        n_written = dataset.size if dataset.external or dataset.id.get_storage_size() else 0
    return n_taken >= dataset.size or n_taken > n_written


def _short(dataset: h5py.Dataset, source: Any) -> str:
    """Return in words what a dataset has less than a virtual one takes of it."""
    try:
        if source.src_space.get_select_type() == h5py.h5s.SEL_ALL:
            is_short = dataset.size < source.vspace.get_select_npoints()
        else:
            _, ends = source.src_space.get_select_bounds()
            is_short = any(end >= size for end, size in zip(ends, dataset.shape, strict=True))
    except (RuntimeError, ValueError):  # a selection without an end takes what there is
        return ""
    return (
        f"has in {dataset.name!r} the shape {dataset.shape}, and less than is taken of it"
        * is_short
    )
