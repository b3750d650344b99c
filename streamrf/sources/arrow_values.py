"""Values of Arrow as NumPy's, without pandas."""

import json
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.display import brief
from streamrf.errors import DataError
from streamrf.sources.arrow_types import arrow, kind_of

_MINUTE = 60_000_000  # microseconds
_DAY = 1440 * _MINUTE


def one_array(values: Any) -> Any:
    """Return a column as one Arrow array, whose missing values no dictionary holds."""
    pa = arrow()
    is_chunked = isinstance(values, pa.ChunkedArray)
    chunks = values.chunks if is_chunked else [values]
    if pa.types.is_dictionary(values.type) and any(part.dictionary.null_count for part in chunks):
        plain = [_takeable(part.dictionary).take(part.indices) for part in chunks]
        return pa.chunked_array(plain).combine_chunks().dictionary_encode()
    return values.combine_chunks() if is_chunked else values


def _takeable(levels: Any) -> Any:
    """Return levels as Arrow can take from: views of text, as polars has, as text."""
    is_text = kind_of(levels.type) == "category" and not arrow().types.is_dictionary(levels.type)
    return levels.cast(arrow().large_string()) if is_text else levels


def as_strings(values: Any) -> Any:
    """Return strings or categories as an Arrow array of strings."""
    pa = arrow()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary.cast(pa.large_string()).take(values.indices)
    return values.cast(pa.large_string())


def coded(values: Any) -> Any:
    """Return strings or categories as a dictionary array, whose dictionary has each only once."""
    return as_strings(values).dictionary_encode()


def vectors_of(values: Any, width: int, what: str) -> NDArray[np.float64]:
    """Return an Arrow array of lists of numbers as float64 (n, width), NaN for those missing.

    They may be written as text, ``[0.5, 1.0]``. Raises DataError for text that is none, and for a
    list of another length; `what` is the column in words.
    """
    kind = kind_of(values.type)
    if kind == "empty":
        return np.full((len(values), width), np.nan)
    if kind == "category":
        values = _lists_in(as_strings(values).to_pylist(), what)
    elif kind != "vector":
        raise DataError(f"{what} has type {values.type}, and is to be lists of numbers")
    lengths = filled(arrow().compute.list_value_length(values).cast(arrow().int64()), np.int64, -1)
    is_there = lengths >= 0
    if (odd := is_there & (lengths != width)).any():
        raise DataError(
            f"{what} has a list of {lengths[odd][0]:,} numbers, and the first one has "
            f"{width:,}; all must have as many: correct it, or leave it out of X with x='-NAME' "
            "(--x=-NAME)"
        )
    found = np.full((len(values), width), np.nan)
    if width:
        found[is_there] = _floats(one_array(values.flatten())).reshape(-1, width)
    return found


def _lists_in(texts: list[str | None], what: str) -> Any:
    """Return lists of numbers that are written as texts as an Arrow array."""
    pa = arrow()
    lists = []
    for text in texts:
        try:
            lists.append(None if text is None else json.loads(text))
            pa.array(lists[-1:], pa.large_list(pa.float64()))
        except (ValueError, TypeError, RecursionError, pa.ArrowException) as error:
            raise DataError(
                f"{what} has {brief(str(text))}, and is to be lists of numbers such as [0.5, 1]"
            ) from error
    return pa.array(lists, pa.large_list(pa.float64()))


def width_of_lists(values: Any) -> int:
    """Return the length of the first list with numbers of an Arrow array of lists, else 0."""
    lengths = arrow().compute.list_value_length(values).drop_null()
    return next((length for length in lengths.to_pylist() if length), 0)


def floats_of(values: Any, kind: str) -> NDArray[np.float64]:
    """Return an Arrow array as float64, missing ones NaN; dates as days since 1970."""
    pa = arrow()
    if kind == "date":
        micros = values.cast(pa.timestamp("us", getattr(values.type, "tz", None)), safe=False)
        return _floats(micros.cast(pa.int64())) / _DAY
    if pa.types.is_time(values.type) or pa.types.is_duration(values.type):
        unit = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[values.type.unit]
        wide = pa.int32() if pa.types.is_time32(values.type) else pa.int64()
        return _floats(values.cast(wide)) / unit
    return _floats(values)


def n_known(values: Any, kind: str) -> int:
    """Return how many values of an Arrow array of a kind are not missing."""
    if kind == "number":
        return int(np.count_nonzero(~np.isnan(floats_of(values, kind))))
    return len(values) - int(values.null_count)


def as_doubles(values: Any) -> Any:
    """Return numbers of Arrow as those of 64 bits, each the nearest one.

    Arrow's own way from decimals is off by one in the last place, so they go by their texts, as
    those of CSV do.
    """
    pa = arrow()
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())
    return values if pa.types.is_float64(values.type) else values.cast(pa.float64(), safe=False)


def _floats(values: Any) -> NDArray[np.float64]:
    return filled(as_doubles(values), np.float64, np.nan)


def filled(values: Any, dtype: type, missing: float) -> NDArray[Any]:
    """Return an Arrow array of this type as NumPy's, with `missing` where it is null.

    Arrow's own `fill_null` and `to_numpy` import pandas where it is installed: a quarter second.
    """
    numbers: NDArray[Any] = np.empty(len(values), dtype)
    if len(values):
        numbers[:] = np.frombuffer(values.buffers()[1], dtype)[values.offset :][: len(values)]
    if values.null_count:
        numbers[np.from_dlpack(values.is_null().cast(arrow().int8())) > 0] = missing
    return numbers


def hashed_text(text: str) -> int:
    """Return 64 bits that stand for a text on every machine."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
