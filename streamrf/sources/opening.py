"""One door to all formats: what DATA of a command and `open_source` may be."""

import os
from collections.abc import Callable, Iterable, Mapping
from glob import has_magic
from typing import Any

import h5py

from streamrf.errors import DataError, EmptySourceError, ParameterError, SourceNotFoundError, warn
from streamrf.sources.arrays import ArraySource
from streamrf.sources.base import Source
from streamrf.sources.csv_files import CSVTable, NamesAloneError
from streamrf.sources.dask_array import DaskArraySource, is_dask_array
from streamrf.sources.frames import (
    check_at_hand,
    is_dask_frame,
    is_frame,
    is_mixed,
    is_named,
    is_of_blocks,
    is_stream,
    open_frame,
)
from streamrf.sources.handles import (
    is_open_array,
    is_open_group,
    open_handle,
    path_of_group,
)
from streamrf.sources.hdf5_choice import open_hdf5
from streamrf.sources.hdf5_files import has_signature
from streamrf.sources.libsvm_files import open_libsvm
from streamrf.sources.npy_files import open_npy, open_npz
from streamrf.sources.parquet_files import open_arrow, open_parquet
from streamrf.sources.partitions import Folders, folders_of, partitioned
from streamrf.sources.paths import (
    PACKED_ENDINGS,
    check_unpacked,
    expand,
    is_paths,
    path_of,
    raise_missing,
    stand_ins,
)
from streamrf.sources.plain_tables import as_frame
from streamrf.sources.seekable import SeekableSource
from streamrf.sources.sparse import as_csr, is_scipy_sparse
from streamrf.sources.store_folders import PARQUET, is_store, listed
from streamrf.sources.stored import GivenMatrix, MatrixSource
from streamrf.sources.table_roles import roles
from streamrf.sources.table_stream import open_stream
from streamrf.sources.tables import Table, TableSource
from streamrf.sources.urls import bare, check_no_urls, inner, is_url
from streamrf.sources.validation import check_roles, one_name
from streamrf.sources.xarray_arrays import is_xarray, open_xarray
from streamrf.sources.zarr_arrays import open_zarr

Opener = Callable[..., SeekableSource]  # of files, x, y and weights
Trusted = Mapping[str, bool]  # what files may do, by name


def _tables(open_table: Callable[[str], Table]) -> Opener:
    """Return what opens files as tables, each by `open_table`."""

    def opened(
        names: list[str], x: Any, y: Any, weights: Any, folders: Folders | None = None
    ) -> SeekableSource:
        found: list[tuple[str, Table]] = []
        alone: list[NamesAloneError] = []
        for name in names:
            try:
                found.append((name, open_table(name)))
            except NamesAloneError as error:  # as files of other formats may have no rows
                alone.append(error)
        if alone and not found:
            raise alone[0]
        tables = [table for _, table in found]
        if folders:
            tables = partitioned(found, folders)
        for told in alone:
            wanted = {name for names in roles(tables[0], x, y, weights) for name in names}
            if not wanted.intersection(found[0][1].types) <= told.names:
                raise EmptySourceError(f"{told}, and not all that {found[0][1].where} has")
        return TableSource(tables, x, y, weights)

    return opened


# The formats by the endings of files; others are HDF5 if they have its signature. A new one is its
# file and a row.
_FORMATS: dict[tuple[str, ...], Opener] = {
    (".h5", ".hdf5", ".hdf", ".h5ad"): open_hdf5,
    (".csv", ".tsv", ".tab"): _tables(CSVTable),
    PARQUET: _tables(open_parquet),
    (".arrow", ".feather", ".ipc"): _tables(open_arrow),
    (".npy",): open_npy,
    (".npz",): open_npz,
    (".svm", ".libsvm", ".svmlight"): open_libsvm,
    (".zarr",): open_zarr,
}
_LOCAL = (open_hdf5, open_npy, open_npz, open_zarr)
_TRUST: dict[Opener, tuple[str, ...]] = {
    open_hdf5: ("allow_sparse", "allow_external"),
    open_zarr: ("allow_sparse",),
}
_ENDINGS = [ending for endings in _FORMATS for ending in endings]
_READ_PACKED = (".csv", ".tsv", ".tab")
_COMPRESSED = tuple(PACKED_ENDINGS)


def open_source(
    data: Any,
    x: Any = None,
    y: Any = None,
    weights: Any = None,
    *,
    allow_sparse: bool = False,
    allow_external: bool = False,
) -> Source:
    """Return the rows of files of any format, of tables and arrays in memory, or of a stream.

    Parameters
    ----------
    data : path, pattern, URL or folder, or a list of them, all of one format; or a table of pandas,
        polars, Arrow or Dask, a dict of columns, an array of records or a list of rows that are
        dicts; or an array, also a sparse one of SciPy, a DataArray of xarray, or a dataset or array
        that h5py or zarr has open to read, or such a file or group, which are read by their paths;
        or what gives blocks of rows that are arrays, see `IteratorSource`, or such tables: an
        iterator, a list of tables, or a function without arguments that makes an iterator, whose
        first block may be read at once. The formats are HDF5, CSV and TSV (also .gz, .zst, .bz2),
        Parquet, Arrow, `.npy`, `.npz` (also sparse), libsvm text and zarr. Folders such as
        ``year=2024`` in a folder or pattern are columns of its tables
    x : dataset or columns of X: of HDF5, zarr and `.npz` a name, "X" by default; of tables names or
        patterns, a list or one text with commas, where "-name" leaves one out, by default all
        that are no targets or weights;
        of libsvm text the number of columns, or the first and last index as "0-4"; of `.npy` files
        in a folder a pattern
    y : dataset or columns of targets, or None for none; of `.npy` a file beside; of libsvm text
        anything, for its labels; of what is in memory also an array. Beside a table, a list of as
        many texts as there are rows is labels, unless all of them are columns
    weights : dataset, column, file or array of sample weights, or None
    allow_sparse, allow_external : of HDF5, see `HDF5Source`; the first of zarr, too

    Returns
    -------
    Source; its `columns` say what became of the columns of a table. That of blocks is read in
    order, and columns are learnt from its first 4,096 rows

    Raises
    ------
    SourceNotFoundError, DatasetNotFoundError
        A file, dataset or column that is not there.
    MissingPackageError
        An optional package that the format needs; the message names the extra.
    DataError, CorruptFileError
        Files that cannot be read as what their names say, whose names say no format, or columns
        that have no numbers.
    """
    if isinstance(data, bytes):
        data = os.fsdecode(data)
    trust = {"allow_sparse": allow_sparse, "allow_external": allow_external}
    if is_paths(data):
        return open_files(data, x, y, weights, **trust)
    if is_open_group(data):
        opener = open_hdf5 if isinstance(data, h5py.Group) else open_zarr
        return _opened(opener, [path_of_group(data)], x, y, weights, trust)
    if is_open_array(data) and x is None:
        return open_handle(data, y, weights, allow_sparse)
    if is_of_blocks(data):
        return open_stream(data, x, y, weights)
    data = as_frame(data)
    if is_frame(data) and not is_xarray(data):  # which exports Arrow, an entry a row
        return open_frame(data, x, y, weights)
    if x is not None:
        raise ParameterError("x= names a dataset or columns, and an array has none; targets: y=")
    if is_scipy_sparse(data):
        return _of_sparse(data, y, weights)
    if is_xarray(data):
        return open_xarray(data, y, weights)
    if is_dask_array(data):
        return DaskArraySource(data, y, weights)
    return ArraySource(data, y, weights)


def open_files(
    data: Any,
    x: Any = None,
    y: Any = None,
    weights: Any = None,
    width: int | None = None,
    **trust: bool,
) -> SeekableSource:
    """Return the rows of files; see `open_source`.

    Where x is None and several datasets may be X, it is the only one of `width` columns.
    """
    entries = [data] if isinstance(data, str | os.PathLike) else list(data)
    files = {entry: list(_files(entry)) for entry in map(os.fsdecode, entries)}
    names = [name for entry in map(os.fsdecode, entries) for name in files[entry]]
    for name in names:
        _check_format(name)
    openers = {_opener(name): name for name in names}
    if len(openers) > 1:
        shown = list(map(bare, openers.values()))
        raise ParameterError(f"{shown} are of several formats; give those of one")
    opener = next(iter(openers), open_hdf5)
    if opener in _LOCAL:
        check_no_urls(names)
    more: dict[str, Any] = {"width": width} if opener is open_hdf5 else {}
    if opener in (open_npy, open_npz) and len(entries) == 1 and not os.path.isdir(entries[0]):
        more["pattern"] = os.fsdecode(entries[0])
    if opener not in (*_LOCAL, open_libsvm):
        more["folders"] = _folders(files)
    return _opened(opener, names, x, y, weights, trust, **more)


def _opened(
    opener: Opener, names: list[str], x: Any, y: Any, weights: Any, trust: Trusted, **more: Any
) -> SeekableSource:
    """Return the rows of files of one format."""
    if opener is not open_libsvm:
        x, y, weights = map(_as_names, (x, y, weights), ("x", "y", "weights"))
    if opener in (open_npy, open_npz, open_zarr):
        where = names[0] if names else "X"
        y, weights = one_name(y, "y", where), one_name(weights, "weights", where)
        check_roles(y, weights, where)
    allowed = {name: trust[name] for name in _TRUST.get(opener, ()) if name in trust}
    return opener(names, x, y, weights, **allowed, **more)


def _as_names(wanted: Any, role: str) -> Any:
    """Return what names a part of files as text; ParameterError for what is no name."""
    names = wanted if isinstance(wanted, list | tuple) else [wanted]
    if wanted is None or all(isinstance(name, str) for name in names):
        return wanted
    if isinstance(wanted, os.PathLike):
        return os.fsdecode(wanted)
    raise ParameterError(
        f"{role} of files is the name of a dataset, of columns or of a file, got "
        f"{type(wanted).__name__}"
    )


def is_known(name: str) -> bool:
    """Return whether the ending of a name is of a format other than HDF5, or it is a zarr store."""
    return _opener(name) is not open_hdf5


def _opener(name: str) -> Opener:
    """Return what opens a file, by the ending of its name."""
    return next((o for endings, o in _FORMATS.items() if _ending(name) in endings), open_hdf5)


def _check_format(name: str) -> None:
    """Raise DataError for a file of an ending that no format has, unless it is an HDF5 file."""
    ending = _ending(name)
    if ending not in _READ_PACKED and bare(name).lower().endswith(_COMPRESSED):
        check_unpacked(name, name)
    if ending in _ENDINGS or is_url(name) or has_signature(name):
        return
    known = f"{', '.join(_ENDINGS)} (CSV also with {', '.join(_COMPRESSED)})"
    found = f"its ending {ending!r} is none of" if ending else "its name has no ending, such as"
    raise DataError(
        f"{name} is of no known format: {found} {known}, and it is not HDF5, which is read under"
        " any name; no option names a format: if it is one of these, rename it or link to it by a "
        "name that ends so; if it is another, unpack it, or convert it to one, as by numpy.save"
    )


def _ending(name: str) -> str:
    """Return the ending of a file's name that says its format.

    Examples
    --------
    >>> _ending("a/rows.CSV.gz"), _ending("zip://rows.parquet::file:///all.zip")
    ('.csv', '.parquet')
    """
    if is_store(name):
        return ".zarr"
    stem, ending = os.path.splitext(inner(name).lower().rstrip("/"))
    return os.path.splitext(stem)[1] if ending in _COMPRESSED else ending


def _files(entry: str) -> Iterable[str]:
    """Return the files that a path, pattern, URL or folder means; zarr stores are folders."""
    name = path_of(entry)
    if is_store(name):
        return [name]
    if not os.path.isdir(name):
        return expand(name)
    inside = listed(name)
    found = [file for file in inside if _ending(file) in _ENDINGS]
    for file in found:
        if not os.path.isfile(file) and not is_store(file):  # opening a pipe would wait for ever
            raise_missing(file, os.path.abspath(file))
    packed = [
        os.path.relpath(file, name)
        for file in inside
        if _ending(file) not in _ENDINGS and _ending(os.path.splitext(file)[0]) in _ENDINGS
    ]
    if packed:
        warn(
            f"{packed[0]!r} is left out of the folder {name!r}, one of {len(packed):,} files whose "
            f"endings no format has; those compressed as {', '.join(_COMPRESSED)} are read"
        )
    if not found:
        raise SourceNotFoundError(
            f"{name!r} is a folder without files of data; expected HDF5 files, such as"
            f" {os.path.join(name, '*.h5')!r}, or others that end in {', '.join(_ENDINGS)}"
        )
    return found


def is_file_of(path: str, folder: str) -> bool:
    """Return whether a file is one of rows, or would be, to who opens a folder or pattern."""
    root = folder
    while has_magic(root):
        root = os.path.dirname(root)
    within = os.path.relpath(os.path.realpath(path), os.path.realpath(root or "."))
    if root != folder:
        is_inside = within.split(os.sep)[0] != ".."
        return is_inside and stand_ins(folder[len(root) :].lstrip(os.sep), within) is not None
    is_seen = all(name[0] not in "._" for name in within.split(os.sep))  # nor "..", outside
    return os.path.isdir(folder) and is_seen and _ending(within) in _ENDINGS


def _folders(files: Mapping[str, Iterable[str]]) -> Folders:
    """Return what the names of folders say of each file; nothing where they say nothing.

    Parameters
    ----------
    files : by the path, pattern or folder that means them
    """
    found = {
        name: folders_of(inner(path_of(entry)), inner(name))
        for entry, names in files.items()
        for name in names
    }
    return found if any(found.values()) else {}


def _of_sparse(X: Any, y: Any, weights: Any) -> MatrixSource:
    """Return the rows of a sparse matrix of SciPy."""
    if not X.shape[0]:
        raise EmptySourceError(
            f"X: 0 sample(s) (shape={X.shape}) while a minimum of 1 is required."
        )
    return GivenMatrix(as_csr(X, "X"), y, weights).source()


def is_lazy(X: Any) -> bool:
    """Return whether X is a source, or is read by one a part at a time: of Dask, xarray or open."""
    is_of_dask = is_dask_array(X) or is_dask_frame(X)
    is_open = is_open_array(X) or is_open_group(X)
    return isinstance(X, Source) or is_of_dask or is_xarray(X) or is_open


def is_for_source(X: Any, y: Any = None) -> bool:
    """Return whether X is to be read by a source of its own, and not checked as an array.

    So it is where X is lazy, or a table with holes or other columns than numbers, or one of whose
    columns y names some; and where X is an iterator or path, which `as_source` refuses with a cure.
    """
    is_odd = isinstance(X, str | bytes | os.PathLike) or is_stream(X)
    return is_odd or is_lazy(X) or is_mixed(X) or are_names(X, y)


def are_names(X: Any, y: Any) -> bool:
    """Return whether y names columns of X, a table in memory, or arrays of an open file."""
    return y is not None and (is_open_group(X) or (is_frame(X) and is_named(X, y)))


def as_source(X: Any, y: Any = None, weights: Any = None) -> Source:
    """Return `X` itself if it is a source, else the source of a table or of arrays.

    Parameters
    ----------
    X : Source; table, see `open_source`; or array-like, Dask array or DataArray of shape (n_rows,
        n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_targets), or None
    weights : array-like of shape (n_rows,), or None

    Raises
    ------
    ParameterError
        Targets or weights with a source, which holds its own; a path; an iterator.
    ShapeError, DataError, EmptySourceError
        See `ArraySource`.
    """
    if isinstance(X, Source):
        if y is not None or weights is not None:
            name = "y" if y is not None else "weights"
            raise ParameterError(
                f"{name} was given with {X.where}; a source gives its own targets and weights,"
                f" so leave {name} out"
            )
        return X
    check_at_hand(X)
    return open_source(X, None, y, weights)
