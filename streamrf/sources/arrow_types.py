"""Types of Arrow, which is imported where tables are read."""

from typing import Any

from streamrf.errors import MissingPackageError

INDEX = "__index_level_"  # how pandas' index is called in Arrow, where it has no name


def arrow() -> Any:
    """Return the module pyarrow; raise MissingPackageError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.compute  # which pyarrow does not import by itself
    except ImportError as error:
        raise MissingPackageError(
            "tables are read by pyarrow, which is not installed: pip install 'streamrf[tables]'"
        ) from error
    return pyarrow


def index_of(schema: Any) -> tuple[str, ...]:
    """Return the columns that pandas has written its index as."""
    told = (schema.pandas_metadata or {}).get("index_columns", ())
    index = tuple(name for name in told if isinstance(name, str) and name in schema.names)
    return tuple(dict.fromkeys((*index, *(n for n in schema.names if n.startswith(INDEX)))))


def kind_of(type_: Any) -> str | None:
    """Return the kind of column that an Arrow type is, "empty" for null, None for no known kind."""
    types = arrow().types
    if types.is_dictionary(type_):  # of strings, numbers or dates, as their strings
        return None if kind_of(type_.value_type) in (None, "vector") else "category"
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    if any(is_text(type_) for is_text in texts):
        return "category"
    if types.is_boolean(type_):
        return "boolean"
    if types.is_date(type_) or types.is_timestamp(type_):
        return "date"
    if types.is_null(type_):
        return "empty"
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if any(is_list(type_) for is_list in lists):
        inside = type_.value_type
        plain = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
        return "vector" if any(is_plain(inside) for is_plain in plain) else None
    numbers = (types.is_integer, types.is_floating, types.is_decimal, types.is_duration)
    return "number" if any(is_kind(type_) for is_kind in (*numbers, types.is_time)) else None
