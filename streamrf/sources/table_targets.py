"""Targets and labels in columns of tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import BadRowError
from streamrf.sources.arrow_types import arrow, kind_of
from streamrf.sources.arrow_values import as_doubles, one_array
from streamrf.sources.validation import as_targets


def label_types(
    tables: Sequence[Any], targets: Sequence[str], types: dict[str, Any]
) -> dict[str, Any]:
    """Return the types of targets in text that are read as others than guessed.

    One with a leading zero, such as 01, is of texts, as 1 may be another label, and so is one of
    times of day with fractions; and several are values, of which zeros do not matter.
    """
    pa = arrow()
    if not tables[0].is_text:
        return {}
    integers = [name for name in targets if pa.types.is_integer(types[name])]
    if len(targets) > 1:
        return dict.fromkeys(integers, pa.float64())
    coded = [name for name in integers if any(name in table.codes for table in tables)]
    is_time64 = pa.types.is_time64  # of any table: joined, with numbers, they would be numbers
    timed = [name for name in targets if any(is_time64(table.types[name]) for table in tables)]
    return dict.fromkeys(coded + timed, pa.string())


def target_of(store: Any, table: Any, row: int, name: str) -> NDArray[Any]:
    """Return a column of targets of a part of a `Table`, from a row on, as numbers or strings."""
    pa = arrow()
    values = one_array(table.column(name))
    if pa.types.is_dictionary(values.type):
        levels = values.dictionary  # which polars keeps as views, that Arrow cannot take from
        is_text = kind_of(levels.type) == "category"
        values = (levels.cast(pa.large_string()) if is_text else levels).take(values.indices)
    kind = kind_of(values.type)
    if kind in ("number", "empty") and not pa.types.is_integer(values.type):
        values = as_doubles(values)
    elif kind != "number" and values.null_count:
        place = values.is_null().to_pylist().index(True)
        raise BadRowError(
            f"{store.where}, row {row + place}: the target {name!r} is missing, and a missing label"
            " can be neither filled in nor skipped; take such rows out, in pandas by"
            f" dropna(subset=[{name!r}])"
        )
    if kind == "category":
        values = values.cast(pa.large_string())
        unsaid = store.missing_words(name, values)
        if unsaid:
            raise BadRowError(
                f"{store.where}: a target {name!r} is {unsaid[0]!r}, which stands for a missing"
                " value in text, and a missing label cannot be filled in; take such rows out, or"
                " write the label otherwise"
            )
    numbers = values.to_numpy(zero_copy_only=False)
    return as_targets(numbers, len(numbers), f"{store.where}, column {name!r}")


def of_kind(y: NDArray[Any], kind: str | None) -> NDArray[Any]:
    """Return labels that are numbers as integers or floats, as others were, where they can be."""
    if kind == "f" and y.dtype.kind == "i" and (np.abs(y) < 2**53).all():
        return y.astype(np.float64)
    if (
        kind == "i"
        and y.dtype.kind == "f"
        and (y == np.rint(y)).all()
        and (np.abs(y) < 2**53).all()
    ):
        return y.astype(np.int64)
    return y
