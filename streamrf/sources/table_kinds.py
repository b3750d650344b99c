"""Kinds and types that the columns of several tables have in common."""

from collections.abc import Sequence
from typing import Any

from streamrf.errors import ShapeError
from streamrf.sources.arrow_types import arrow, kind_of
from streamrf.sources.columns import Columns


def joined_types(tables: Sequence[Any], names: list[str]) -> dict[str, Any]:
    """Return types that suit the columns of all tables; raise ShapeError where none does."""
    pa = arrow()
    types = {name: tables[0].types[name] for name in names}
    for table in tables[1:]:
        lacks = [name for name in names if name not in table.types]
        if lacks:
            raise ShapeError(f"{table.where} lacks the columns {lacks}, which others have")
        for name in names:
            ours, theirs = kind_of(types[name]), kind_of(table.types[name])
            if ours == "empty":
                types[name] = table.types[name]
            elif ours == theirs == "number" and types[name] != table.types[name]:
                types[name] = pa.float64()
            elif ours != theirs and theirs != "empty":
                if not table.is_text:
                    raise ShapeError(
                        f"{table.where}: column {name!r} has type {table.types[name]}, but in"
                        f" {tables[0].where} {types[name]}; all must have the same columns"
                    )
                types[name] = pa.string()
    return types


def check_columns(columns: Columns, table: Any) -> None:
    """Raise ShapeError or DataError for a table that has not these columns."""
    columns.check(kinds_of(table), table.where, table.can_be)
    table.check_wanted(c.name for c in columns.columns if c.kind != "vector")


def check_targets(tables: Sequence[Any], targets: Sequence[str]) -> None:
    """Raise ShapeError for a target of 0 and 1 here and of True and False there.

    As texts, which columns of several types are read as, those would be four classes.
    """
    for name in targets:
        first: dict[str | None, Any] = {}  # of each kind
        for table in tables:
            first.setdefault(kind_of(table.types[name]), table)
        if first.keys() >= {"number", "boolean"}:
            flags, numbers = first["boolean"], first["number"]
            raise ShapeError(
                f"{flags.where}: the target {name!r} is True or False, but in {numbers.where}"
                f" {numbers.types[name]}; write it in one way everywhere"
            )


def kinds_of(table: Any) -> dict[str, str | None]:
    """Return the kinds of the columns of a `Table`, by their names."""
    return {name: kind_of(type_) for name, type_ in table.types.items()}
