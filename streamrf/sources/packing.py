"""Numbers that are stored as others, by what attributes of netCDF say.

They may be scaled and shifted, and say what stands for a missing one (CF Conventions 1.11, 2.5.1
and 8.1). xarray writes the same attributes to zarr.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import CorruptFileError

ROUNDING = 0.01  # of a step of stored integers, by which bounds that are not stored are wider
_FILLS = ("_FillValue", "missing_value")
_PACKING = ("scale_factor", "add_offset", *_FILLS)
NUMBERS = {*_PACKING, "valid_range", "valid_min", "valid_max"}  # attributes that are such
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


@dataclass(frozen=True)
class Attributes:
    """What a file says of the numbers in an array.

    Parameters
    ----------
    dtype : of the array
    of : the attributes, by name
    fill : what netCDF reads where nothing was written; None in files of others
    """

    dtype: np.dtype[Any]
    of: Mapping[str, Any]
    fill: Any = None

    @property
    def is_unsigned(self) -> bool:
        """Whether integers are unsigned ones, of which old netCDF has none."""
        return self.dtype.kind == "i" and as_text(self.of.get("_Unsigned")).lower() == "true"

    @property
    def are_of_packed(self) -> bool:
        """Whether numbers are to be changed by what the attributes say."""
        if self.dtype.kind not in "iuf":
            return False
        return len(self.default_fill) > 0 or self.are_told

    @property
    def are_told(self) -> bool:
        """Whether an attribute says that they are to be changed."""
        if self.is_unsigned or any(len(bound) for bound in self.bounds):
            return True
        plain = ((1.0,), (0.0,), (), ())
        return any(
            (value := self.of.get(name)) is not None and not _is_one_of(value, numbers)
            for name, numbers in zip(_PACKING, plain, strict=True)
        )

    @property
    def fills(self) -> list[NDArray[Any]]:
        """What stands for missing numbers, in arrays."""
        found = (np.ravel(self.of.get(name, ())) for name in _FILLS)
        return [*(value for value in found if value.dtype.kind in "iuf"), self.default_fill]

    @property
    def default_fill(self) -> NDArray[Any]:
        """NetCDF's own fill value, in an array, where that is the one of these; else an empty one.

        It is where no `_FillValue` says otherwise.
        """
        number = _NETCDF_FILLS.get(f"{self.dtype.kind}{self.dtype.itemsize}")
        if number is None or "_FillValue" in self.of:
            return np.empty(0, self.dtype)
        own = np.array([number], self.dtype)
        return own if self.fill is not None and self.fill == own[0] else own[:0]

    @property
    def bounds(self) -> list[NDArray[Any]]:
        """The least and the greatest number that are valid, each in an array, empty for none.

        Floats beside scaled integers are bounds of the scaled numbers; others are of stored ones.
        """
        found = np.ravel(self.of.get("valid_range", ()))
        if len(found) == 2 and found.dtype.kind in "iuf":
            return [found[:1], found[1:]]
        ends = [np.ravel(self.of.get(name, ())) for name in ("valid_min", "valid_max")]
        return [end if len(end) == 1 and end.dtype.kind in "iuf" else np.empty(0) for end in ends]

    def number(self, name: str, default: float, where: str) -> float:
        """Return an attribute that is one number, the default where there is none."""
        found = np.ravel(self.of.get(name, default))
        if found.dtype.kind not in "iuf":
            return default
        if len(found) != 1 or not np.isfinite(found[0]):
            told = found.tolist()
            raise CorruptFileError(f"{where}: its attribute {name!r} is {told}, not a number")
        return float(found[0])


class Packing:
    """Numbers that are stored as others, ``scale * stored + offset``, or some of which are missing.

    They are floats; of 16 bits or fewer float32.

    Parameters
    ----------
    told, where : what the file says, and where, in words
    keeps_integers : whether integers that are not scaled stay such where none is missing, as labels
        do, and numbers of which no attribute says anything

    Attributes
    ----------
    dtype : of the numbers
    """

    _stored_as: np.dtype[Any] | None = None  # where the dtype in the file is not that of numbers

    def __init__(self, told: Attributes, where: str, keeps_integers: bool) -> None:
        self._scale = told.number("scale_factor", 1.0, where)
        self._offset = told.number("add_offset", 0.0, where)
        signed, is_integer = told.dtype, told.dtype.kind != "f"
        if told.is_unsigned:
            self._stored_as = np.dtype(f"{signed.byteorder}u{signed.itemsize}")
        self._is_scaled = (self._scale, self._offset) != (1.0, 0.0)
        fills = told.fills
        if self._stored_as is not None:
            fills = [value.astype(signed).view(self._stored_as) for value in fills]
        elif not is_integer:
            with np.errstate(over="ignore"):
                fills = [value.astype(signed) for value in fills]
        numbers = [number for value in fills for number in value.tolist()]
        self._fills = _among(self._stored_as or signed, numbers)
        self._limits = self._limits_of(told.bounds, signed)
        floats = np.dtype(np.float32 if signed.itemsize <= 2 else np.float64)
        is_half = self._is_scaled and signed.itemsize == 2
        self._floats = floats if is_integer or is_half else signed
        keeps = keeps_integers or not told.are_told
        self._keeps = keeps and is_integer and not self._is_scaled
        self.dtype = (self._stored_as or signed) if self._keeps else self._floats

    def decoded(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers, NaN for those that are missing."""
        if self._stored_as is not None:
            stored = stored.view(self._stored_as)
        numbers = stored
        if self._is_scaled:
            numbers = stored.astype(self._floats) if stored.dtype.kind == "f" else stored
            numbers = numbers * self._scale + self._offset
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
        bounds : as of `Attributes`
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


def _among(dtype: np.dtype[Any], numbers: list[Any]) -> NDArray[Any]:
    """Return those that arrays of a dtype can have, as such: beside floats integers are rounded."""
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        numbers = [number for number in numbers if limits.min <= number <= limits.max]
        numbers = [int(number) for number in numbers if number == int(number)]
    return np.array(numbers, dtype)


def _is_one_of(value: Any, numbers: tuple[float, ...]) -> bool:
    """Return whether an attribute is no number, NaN, or one of these."""
    found = np.ravel(value)
    if found.dtype.kind not in "iuf":
        return True
    return all(number != number or number in numbers for number in found.tolist())


def as_text(value: Any) -> str:
    """Return an attribute as text, "" if it is none; it may be an array of one."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else ""
