"""What datasets and groups of HDF5 are as one column, by what their attributes say.

Sparse rows, categories and numbers with holes are groups in AnnData, whose `encoding-type` says
what they are (anndata.readthedocs.io, "On-disk format"). Numbers of netCDF may be packed, and say
what stands for a missing one (CF Conventions 1.11, 2.5.1 and 8.1).
"""

from typing import Any

import h5py
import numpy as np
import scipy
from numpy.typing import NDArray

from streamrf.errors import CorruptFileError, ShapeError
from streamrf.sources.hdf5_chunks import read_rows
from streamrf.sources.hdf5_columns import Column, Fetch, Plain, check_labels
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
    """Numbers that are stored as others, ``scale * stored + offset``, or some of which are missing.

    They are floats; of 16 bits or fewer float32.

    Parameters
    ----------
    dataset, where : the dataset, and in words
    keeps_integers : whether integers that are not scaled stay such where none is missing, as labels
    """

    _stored_as: np.dtype[Any] | None = None  # where the dtype in the file is not that of numbers

    def __init__(self, dataset: h5py.Dataset, where: str, keeps_integers: bool) -> None:
        super().__init__(dataset)
        self._scale = _number(dataset, "scale_factor", 1.0, where)
        self._offset = _number(dataset, "add_offset", 0.0, where)
        signed, is_integer = self.dtype, self.dtype.kind != "f"
        if _is_unsigned(dataset):
            self._stored_as = np.dtype(f"{signed.byteorder}u{signed.itemsize}")

        self._is_scaled = (self._scale, self._offset) != (1.0, 0.0)
        found = (dataset.attrs.get(name) for name in _FILLS)
        fills = [value for value in map(np.ravel, found) if value.dtype.kind in "iuf"]
        fills.append(_default_fill(dataset))
        if self._stored_as is not None:
            fills = [value.astype(signed).view(self._stored_as) for value in fills]
        elif not is_integer:
            with np.errstate(over="ignore"):
                fills = [value.astype(signed) for value in fills]
        self._fills = [number for value in fills for number in value.tolist()]
        self._limits = self._limits_of(_bounds(dataset), signed)
        floats = np.dtype(np.float32 if self.dtype.itemsize <= 2 else np.float64)
        self._floats = floats if is_integer else self.dtype
        self._keeps = keeps_integers and is_integer and not self._is_scaled
        self.dtype = (self._stored_as or self.dtype) if self._keeps else self._floats

    def decoded(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers, NaN for those that are missing."""
        if self._stored_as is not None:
            stored = stored.view(self._stored_as)
        numbers = stored * self._scale + self._offset if self._is_scaled else stored
        missing = np.isin(stored, self._fills)
        for is_beyond, number in self._limits:
            missing |= is_beyond(stored, number)
        if self._keeps and not missing.any():
            return stored
        numbers = numbers.astype(np.float64 if self._keeps else self._floats)
        numbers[missing] = np.nan
        return numbers

    def _limits_of(
        self, bounds: list[NDArray[Any]], signed: np.dtype[Any]
    ) -> list[tuple[np.ufunc, Any]]:
        """Return what tells stored numbers beyond a bound, and with which number.

        What is at a bound but for how numbers are rounded is valid.

        Parameters
        ----------
        bounds : as of `_bounds`
        signed : the dtype of the file
        """
        found: list[tuple[np.ufunc, Any]] = []
        for bound, is_below in zip(bounds, (True, False), strict=True):
            if not len(bound):
                continue
            number: Any = bound[0].item()
            if signed.kind == "f":
                with np.errstate(over="ignore"):
                    number = bound.astype(signed)[0]
            elif bound.dtype.kind != "f":
                if self._stored_as is not None and bound.itemsize == signed.itemsize:
                    number = bound.astype(signed).view(self._stored_as)[0].item()
            elif self._is_scaled:
                if not self._scale:
                    continue  # all numbers are one
                is_below = is_below == (self._scale > 0)
                rounded = (abs(number) + abs(self._offset)) * float(np.finfo(np.float32).eps)
                slack = ROUNDING + rounded / abs(self._scale)
                number = (number - self._offset) / self._scale + (-slack if is_below else slack)
            found.append((np.less if is_below else np.greater, number))
        return found


ROUNDING = 0.01  # of a step of stored integers, by which bounds that are not stored are wider
_FILLS = ("_FillValue", "missing_value")
_PACKING = ("scale_factor", "add_offset", *_FILLS)
# Of variables without a `_FillValue`, where nothing was written; of bytes there are none.
_NETCDF_FILLS = {
    "f4": 9.969209968386869e36,
    "f8": 9.969209968386869e36,
    "i2": -32767,
    "i4": -2147483647,
    "i8": -9223372036854775806,
    "u2": 65535,
    "u4": 4294967295,
    "u8": 18446744073709551614,
}


def _is_unsigned(dataset: h5py.Dataset) -> bool:
    """Return whether integers are unsigned ones, of which old netCDF has none."""
    return dataset.dtype.kind == "i" and as_text(dataset.attrs.get("_Unsigned")).lower() == "true"


def _is_packed(dataset: h5py.Dataset) -> bool:
    """Return whether numbers are to be changed by what attributes say."""
    if dataset.dtype.kind not in "iuf":
        return False
    if _is_unsigned(dataset):
        return True
    if any(len(bound) for bound in _bounds(dataset)) or len(_default_fill(dataset)):
        return True
    values = [dataset.attrs.get(name) for name in _PACKING]
    plain = ((1.0,), (0.0,), (), ())
    return any(
        value is not None and not _is_one_of(value, numbers)
        for value, numbers in zip(values, plain, strict=True)
    )


def _default_fill(dataset: h5py.Dataset) -> NDArray[Any]:
    """Return netCDF's own fill value, in an array, where that is the one of a dataset; else none.

    No other library fills so, and netCDF does where a `_FillValue` does not say otherwise.
    """
    number = _NETCDF_FILLS.get(f"{dataset.dtype.kind}{dataset.dtype.itemsize}")
    if number is None or "_FillValue" in dataset.attrs:
        return np.empty(0, dataset.dtype)
    own = np.array([number], dataset.dtype)
    return own if dataset.fillvalue == own[0] else own[:0]


def _bounds(dataset: h5py.Dataset) -> list[NDArray[Any]]:
    """Return the least and the greatest number that are valid, each in an array, empty for none.

    Floats beside scaled integers are bounds of the scaled numbers; others are of stored ones.
    """
    found = np.ravel(dataset.attrs.get("valid_range", ()))
    if len(found) == 2 and found.dtype.kind in "iuf":
        return [found[:1], found[1:]]
    ends = [np.ravel(dataset.attrs.get(name, ())) for name in ("valid_min", "valid_max")]
    return [end if len(end) == 1 and end.dtype.kind in "iuf" else np.empty(0) for end in ends]


def _is_one_of(value: Any, numbers: tuple[float, ...]) -> bool:
    """Return whether an attribute is no number, NaN, or one of these."""
    found = np.ravel(value)
    if found.dtype.kind not in "iuf":
        return True
    return all(number != number or number in numbers for number in found.tolist())


def _number(dataset: h5py.Dataset, name: str, default: float, where: str) -> float:
    """Return an attribute that is one number, the default where there is none."""
    found = np.ravel(dataset.attrs.get(name, default))
    if found.dtype.kind not in "iuf":
        return default
    if len(found) != 1 or not np.isfinite(found[0]):
        raise CorruptFileError(f"{where}: its attribute {name!r} is {found.tolist()}, not a number")
    return float(found[0])


def column_of(
    item: Any, where: str, keeps_integers: bool = False, masks: bool = False
) -> Column | None:
    """Return what a dataset or a group of a file is as rows; None where it is nothing like it.

    Parameters
    ----------
    keeps_integers : as of `Packed`
    masks : whether values that are missing are masked; else they are NaN, and labels an error
    """
    if isinstance(item, h5py.Dataset):
        categories = item.attrs.get("categories")  # before version 0.8 of AnnData
        if isinstance(categories, h5py.Reference) and categories:
            named = item.file[categories]
            if isinstance(named, h5py.Dataset) and named.ndim == 1:
                return Categories(item, named, where, masks)
        return Packed(item, where, keeps_integers) if _is_packed(item) else Plain(item)
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


def as_text(value: Any) -> str:
    """Return an attribute as text, "" if it is none; it may be an array of one."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else ""


def _part(group: h5py.Group, name: str, where: str) -> h5py.Dataset:
    """Return a dataset of a group that AnnData has written, of one dimension."""
    found = group.get(name)
    if not isinstance(found, h5py.Dataset) or found.shape is None or found.ndim != 1:
        raise CorruptFileError(
            f"{where} has no dataset {name!r} of one dimension, as {encoding_of(group)!r} has; "
            "write it again"
        )
    return found
