"""What datasets and groups of HDF5 are as one column, by what their attributes say.

Sparse rows, categories and numbers with holes are groups in AnnData, whose `encoding-type` says
what they are (anndata.readthedocs.io, "On-disk format").
"""

from typing import Any

import h5py
import numpy as np
import scipy
from numpy.typing import NDArray

from streamrf.errors import CorruptFileError, ShapeError
from streamrf.sources.hdf5_chunks import read_rows
from streamrf.sources.hdf5_columns import Column, Fetch, Plain, check_labels
from streamrf.sources.packing import Attributes, Packing, as_text
from streamrf.sources.seekable import Ranges
from streamrf.sources.sparse import Numbers, as_csr, sparse_or_dense
from streamrf.sources.validation import as_targets, matrix_dtype


class Sparse(Column):
    """Rows in the compressed format: their values, columns, and where each row ends."""

    def __init__(self, group: h5py.Group, where: str) -> None:
        if encoding_of(group) == "csc_matrix":
            raise ShapeError(
                f"{where} is sparse and stored by columns (csc_matrix), so that no row can be read "
                "alone; store it by rows: adata.X = adata.X.tocsr()"
            )
        data, columns, ends = (_part(group, name, where) for name in ("data", "indices", "indptr"))
        self.shape = sparse_shape(group)
        self.dtype = matrix_dtype(data.dtype, where)
        self.parts = data, columns, ends
        is_whole = len(self.shape) == 2 and min(self.shape) >= 0
        is_whole = is_whole and columns.dtype.kind in "iu" and ends.dtype.kind in "iu"
        if not is_whole or (len(ends), len(columns)) != (self.shape[0] + 1, len(data)):
            raise CorruptFileError(
                f"{where} is no sparse matrix: of shape {self.shape}, with {len(data):,} values, "
                f"{len(columns):,} columns and {len(ends):,} ends of rows; write it again"
            )
        if (int(ends[0]), int(ends[-1])) != (0, len(data)):
            raise CorruptFileError(
                f"{where} has values that are of no row: its rows end from {int(ends[0]):,} to "
                f"{int(ends[-1]):,}, and it has {len(data):,} values; write it again"
            )

    @property
    def n_entries(self) -> int | None:
        """Entries that are kept."""
        return len(self.parts[0])

    @property
    def chunk_rows(self) -> int:
        """Rows end anywhere in a chunk."""
        return 1

    def ranges_of(self, ranges: Ranges) -> list[Ranges]:
        """Return the entries of the rows, and where these end."""
        ends = self.parts[2]
        entries = [(int(ends[start]), int(ends[stop])) for start, stop in ranges]
        return [entries, entries, [(start, stop + 1) for start, stop in ranges]]

    def joined(self, low: int, high: int, fetch: Fetch, where: str) -> Numbers:
        """Return the rows, dense or sparse as of `sparse_or_dense`."""
        ends = fetch(2, low, high + 1).astype(np.int64)
        first, last = int(ends[0]), int(ends[-1])
        is_past = first < 0 or last > len(self.parts[0])
        if is_past or (ends[1:] < ends[:-1]).any():  # differences could wrap around
            raise CorruptFileError(
                f"{where}: rows {low} to {high - 1} end before they begin, or beyond the values; "
                "the file is damaged there: copy or write it again"
            )
        values, columns = (fetch(part, first, last) for part in (0, 1))
        shape = (high - low, self.shape[1])
        rows = scipy.sparse.csr_array(
            (values.astype(self.dtype), columns.astype(np.int64), ends - first), shape=shape
        )
        return sparse_or_dense(as_csr(rows, where), self.dtype)


class Categories(Column):
    """Labels as numbers of a list of categories, which are text or numbers.

    `masks` as of `column_of`.
    """

    def __init__(
        self, codes: h5py.Dataset, categories: h5py.Dataset, where: str, masks: bool
    ) -> None:
        self.parts, self.others, self._masks = (codes,), (categories,), masks
        n = len(categories)
        self._categories = as_targets(read_rows(categories, 0, n, where), n, where)
        self.shape, self.dtype = codes.shape, self._categories.dtype
        if codes.dtype.kind not in "iu" or self._categories.ndim != 1:
            raise CorruptFileError(f"{where} has no numbers of categories; write it again")

    def joined(self, low: int, high: int, fetch: Fetch, where: str) -> NDArray[Any]:
        """Return the labels."""
        codes = fetch(0, low, high)
        is_missing = codes < 0
        if not self._masks:
            check_labels(is_missing, low, where)
        if len(codes) and is_missing.all():  # there may be no categories
            return np.ma.masked_all(len(codes), self.dtype)
        if len(codes) and int(codes.max()) >= len(self._categories):
            raise CorruptFileError(
                f"{where}: rows {low} to {high - 1} are of categories that there are none of; "
                "write it again"
            )
        return _masked(self._categories[np.maximum(codes, 0)], is_missing)


class Masked(Column):
    """Values next to which it is said which are missing; `masks` as of `column_of`."""

    def __init__(
        self, group: h5py.Group, where: str, masks: bool, values_name: str = "values"
    ) -> None:
        self._masks = masks
        self.parts = tuple(_part(group, name, where) for name in (values_name, "mask"))
        values, mask = self.parts
        self.shape, self.dtype = values.shape, np.dtype(np.float64)
        if h5py.check_string_dtype(values.dtype) is not None:
            self.dtype = np.dtype(np.str_)
        elif values.dtype.kind == "b" or masks:
            self.dtype = values.dtype
        is_alike = mask.shape == values.shape and mask.dtype.kind in "biu"
        if not is_alike or not (self.is_text or values.dtype.kind in "biuf"):
            raise CorruptFileError(f"{where} has no mask of its values; write it again")

    def joined(self, low: int, high: int, fetch: Fetch, where: str) -> NDArray[Any]:
        """Return the values, NaN for numbers that are missing."""
        values, is_missing = fetch(0, low, high), fetch(1, low, high).astype(bool)
        if self._masks:
            return _masked(values, is_missing)
        if self.dtype.kind == "f":
            return np.where(is_missing, np.nan, values)
        check_labels(is_missing, low, where)
        return values


class Packed(Plain):
    """A dataset of numbers that are stored as others, or some of which are missing.

    Parameters
    ----------
    dataset, packing : the dataset, and what becomes of its numbers
    """

    def __init__(self, dataset: h5py.Dataset, packing: Packing) -> None:
        super().__init__(dataset)
        self._packing, self.dtype = packing, packing.dtype

    def decoded(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers, NaN for those that are missing."""
        return self._packing.decoded(stored)


def column_of(
    item: Any, where: str, keeps_integers: bool = False, masks: bool = False
) -> Column | None:
    """Return what a dataset or a group of a file is as rows; None where it is nothing like it.

    Parameters
    ----------
    keeps_integers : as of `Packing`
    masks : whether values that are missing are masked; else they are NaN, and labels an error
    """
    if isinstance(item, h5py.Dataset):
        categories = item.attrs.get("categories")  # before version 0.8 of AnnData
        if isinstance(categories, h5py.Reference) and categories:
            named = item.file[categories]
            if isinstance(named, h5py.Dataset) and named.ndim == 1:
                return Categories(item, named, where, masks)
        is_netcdf = "_NCProperties" in item.file.attrs
        told = Attributes(item.dtype, item.attrs, item.fillvalue if is_netcdf else None)
        if not told.are_of_packed:
            return Plain(item)
        return Packed(item, Packing(told, where, keeps_integers))
    if not isinstance(item, h5py.Group):
        return None
    if item.parent.name.endswith("/columns") and "data" in item:  # of vaex, whose texts have more
        is_text = "indices" in item
        return None if is_text else _of_vaex(item, where, masks)
    encoding = encoding_of(item)
    if encoding in ("csr_matrix", "csc_matrix"):
        return Sparse(item, where)
    if encoding == "categorical":
        codes, categories = (_part(item, name, where) for name in ("codes", "categories"))
        return Categories(codes, categories, where, masks)
    return Masked(item, where, masks) if encoding.startswith("nullable-") else None


def _of_vaex(group: h5py.Group, where: str, masks: bool) -> Column:
    if "mask" in group:
        return Masked(group, where, masks, "data")
    return Plain(_part(group, "data", where))


def _masked(values: NDArray[Any], is_missing: NDArray[np.bool_]) -> NDArray[Any]:
    return np.ma.array(values, mask=is_missing) if is_missing.any() else values


def sparse_shape(group: h5py.Group) -> tuple[int, ...]:
    """Return the shape that a group of sparse rows tells, () if it tells none."""
    found = group.attrs.get("shape", group.attrs.get("h5sparse_shape", ()))
    shape = np.ravel(() if isinstance(found, h5py.Empty) else found)
    return tuple(shape.tolist()) if shape.dtype.kind in "iu" else ()


def encoding_of(group: h5py.Group) -> str:
    """Return what a group says that it is, in the words of today's AnnData, else ""."""
    old = group.attrs.get("h5sparse_format")  # before version 0.7
    found = group.attrs.get("encoding-type", "" if old is None else f"{as_text(old)}_matrix")
    return as_text(found)


def _part(group: h5py.Group, name: str, where: str) -> h5py.Dataset:
    """Return a dataset of a group that AnnData has written, of one dimension."""
    found = group.get(name)
    if not isinstance(found, h5py.Dataset) or found.shape is None or found.ndim != 1:
        raise CorruptFileError(
            f"{where} has no dataset {name!r} of one dimension, as {encoding_of(group)!r} has; "
            "write it again"
        )
    return found
