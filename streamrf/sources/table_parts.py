"""Parts of tables as one, also where a column has types that count as alike."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamrf.errors import DataError
from streamrf.sources.arrow_types import arrow, kind_of
from streamrf.sources.arrow_values import as_strings, floats_of, one_array


def one_table(parts: Sequence[Any], where: str) -> Any:
    """Return an Arrow table of the rows of several with the same names.

    Raises
    ------
    DataError
        If a column is of several kinds.
    """
    pa = arrow()
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        columns = {name: _column(name, parts, where) for name in parts[0].column_names}
        return pa.table(columns)


def in_one_chunk(table: Any) -> Any:
    """Return an Arrow table of one chunk, also of dictionaries that differ and hold nulls."""
    is_dictionary = arrow().types.is_dictionary
    for place, column in enumerate(table.columns):
        if is_dictionary(column.type) and column.num_chunks > 1:
            table = table.set_column(place, table.schema.names[place], one_array(column))
    return table.combine_chunks()


def detached(part: Any) -> Any:
    """Return an Arrow table in memory of its own, not that of the larger one it is a slice of."""
    pa = arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, part.schema) as stream:
        stream.write_table(part)
    try:
        return pa.ipc.open_stream(sink.getvalue()).read_all()
    except OSError as error:
        raise DataError(
            f"a column is of a type that Arrow writes and does not read ({error}), as dictionaries "
            "of dictionaries: make it text or numbers, or leave it out"
        ) from error


def _column(name: str, parts: Sequence[Any], where: str) -> Any:
    """Return a column of all parts as one chunked array."""
    pa = arrow()
    chunks = [one_array(part.column(name)) for part in parts]
    kinds = {kind_of(chunk.type) for chunk in chunks} - {"empty"}
    if len({chunk.type for chunk in chunks}) > 1:
        if len(kinds) > 1:
            words = " and ".join(sorted(f"a {kind}" for kind in kinds))
            raise DataError(
                f"{where}: column {name!r} is {words} in different files; make it one kind, or "
                "leave it out (x=, --x)"
            )
        chunks = [_as(next(iter(kinds), "empty"), chunk) for chunk in chunks]
    return pa.chunked_array(chunks)


def _as(kind: str | None, values: Any) -> Any:
    """Return values in the one type of their kind: times in UTC, categories as text."""
    pa = arrow()
    as_one = {"date": pa.timestamp("us"), "category": pa.large_string(), "number": pa.float64()}
    as_one |= {"vector": pa.large_list(pa.float64()), "boolean": pa.bool_()}
    type_ = as_one.get(str(kind), values.type)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), type_)
    if kind == "date":
        zone = getattr(values.type, "tz", None)
        return values.cast(pa.timestamp("us", zone), safe=False).cast(type_)
    if kind == "category":
        return as_strings(values)
    if kind == "number":
        found = floats_of(values, "number")
        return pa.array(found, type_, mask=np.isnan(found))
    return values.cast(type_) if kind == "vector" else values
