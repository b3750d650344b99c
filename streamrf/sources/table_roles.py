"""Which columns of a table are X, targets and weights."""

import difflib
import fnmatch
import logging
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from streamrf.errors import DataError, DatasetNotFoundError, ParameterError, ShapeError
from streamrf.sources.arrow_types import INDEX, arrow, kind_of
from streamrf.sources.doubts import is_number
from streamrf.sources.validation import how_to_name

logger = logging.getLogger("streamrf")

Wanted = str | Iterable[str] | None  # names and patterns of columns
_SHOWN = 12  # names of columns in a message


def roles(
    table: Any, x: Wanted, y: Wanted, weights: Wanted
) -> tuple[list[str], list[str], list[str]]:
    """Return the columns of X, of targets and of weights, by names and patterns.

    X is by default all that is no target, no weight and no index. Raises as `TableSource` does;
    `table` is a `Table`.
    """
    targets, weighing = chosen(table, y, "y"), chosen(table, weights, "weights")
    taken = (*targets, *weighing, *table.index)
    names = chosen(table, x, "x", [name for name in table.types if name not in taken])
    used = (*names, *targets, *weighing)
    left_out = [name for name in table.index if name not in used and not name.startswith(INDEX)]
    if left_out:
        told = "%s: %s, the index of pandas, is left out unless a model has it; "
        cure = "to take it name it: x= (--x)"
        shown = ", ".join(name or "the first column, without a name" for name in left_out)
        logger.warning(told + cure, table.where, shown)
    _check(table, names, targets, weighing)
    return names, targets, weighing


def chosen(table: Any, wanted: Wanted, argument: str, default: Sequence[str] = ()) -> list[str]:
    """Return the columns that names and patterns mean, in the order wanted, each once.

    Those after "-" are left out, of the default where only such are named.

    Raises
    ------
    DatasetNotFoundError
        A name or pattern without a column.
    """
    if wanted is None:
        return list(default)
    if isinstance(wanted, str):
        wanted = [wanted] if wanted in table.types else map(str.strip, wanted.split(","))
    entries = [e if e in table.types else e.strip() for e in map(str, wanted)]
    dropped = [entry[1:] for entry in entries if entry[:1] == "-" and entry not in table.types]
    entries = [entry for entry in entries if entry[:1] != "-" or entry in table.types]
    if dropped:
        left_out = chosen(table, dropped, argument)
        kept = chosen(table, entries or None, argument, default)
        return [name for name in kept if name not in left_out]
    found: dict[str, None] = {}
    for entry in entries:
        names = _meant(entry, table.types)
        if not names:
            near = difflib.get_close_matches(entry, table.types, n=5)
            have = [*table.types][:_SHOWN]
            more = f" and {len(table.types) - _SHOWN} more" if len(table.types) > _SHOWN else ""
            hint = f"near names there: {near}" if near else f"it has {have}{more}"
            raise DatasetNotFoundError(
                f"{table.where} has no column {entry!r}; {hint}; {_cure(table, argument)}"
            )
        found |= dict.fromkeys(names)
    return list(found)


def _meant(entry: str, types: Iterable[str]) -> list[str]:
    """Return the columns of a name or pattern, or the only one of a name with spaces around it.

    Examples
    --------
    >>> _meant("age", [" age", "buys"]), _meant("b*", ["b", "bb"]), _meant("b", ["b", " b"])
    ([' age'], ['b', 'bb'], ['b'])
    """
    if entry in types:
        return [entry]
    spaced = [name for name in types if name.strip() == entry]
    return fnmatch.filter(types, entry) or (spaced if len(spaced) == 1 else [])


def _cure(table: Any, argument: str) -> str:
    """Return what to do about a column that is not there, of text without names above it too."""
    n_numbers = sum(map(is_number, table.types))
    has_no_names = table.is_text and 2 * n_numbers > len(table.types)
    above = "put names above its first line, which has numbers, or " if has_no_names else ""
    if table.is_text and len(table.types) == 1 and " " in next(iter(table.types)).strip():
        above = "put commas between its columns, if they have spaces there, or "
    return above + how_to_name(argument)


def warn_of_more(tables: Sequence[Any], x: Wanted, used: Sequence[str]) -> None:
    """Log which columns of later tables would be in X if the first table had them, too."""
    first, types = tables[0], dict(tables[0].types)
    more: dict[str, Any] = {}  # the first table with each
    for table in tables[1:]:
        new = [name for name in table.types if name not in types and name not in table.index]
        more |= dict.fromkeys(new, table)
        types |= {name: table.types[name] for name in new}
    if not more:
        return
    default = [name for name in types if name not in used and name not in first.index]
    wanted = chosen(SimpleNamespace(types=types, where=first.where), x, "x", default)
    left_out = [name for name in wanted if name in more]
    if left_out:
        others = f" and {len(left_out) - _SHOWN} more" if len(left_out) > _SHOWN else ""
        logger.warning(
            "%s lacks columns that later ones have, such as %s, and they are left out: %s%s; to "
            "take them give all the same columns",
            first.where,
            more[left_out[0]].where,
            left_out[:_SHOWN],
            others,
        )


def _check(table: Any, x: list[str], y: list[str], weights: list[str]) -> None:
    """Raise an error for columns that cannot be what they are wanted for."""
    if not x:
        raise ShapeError(f"{table.where}: 0 columns are left for X; expected at least 1")
    for name in (*y, *weights):
        if name in x:
            raise ParameterError(
                f"{table.where}: column {name!r} is asked for both as X and as target or weight;"
                " leave it out of X with x='-NAME' (--x=-NAME)"
            )
    if both := [name for name in weights if name in y]:
        raise ParameterError(
            f"{table.where}: column {both[0]!r} is asked for both as target and as weight; name "
            "another for one of them: y= or weights= (--y, --weights)"
        )
    if len(weights) > 1:
        raise ParameterError(f"weights are the columns {weights}; expected one")
    kinds, inputs = {name: kind_of(type_) for name, type_ in table.types.items()}, set(x)
    for name in (*x, *y, *weights):
        types, type_ = arrow().types, table.types[name]
        is_text = y == [name] and table.is_text and types.is_time64(type_)  # see `label_types`
        is_time = types.is_temporal(type_) and not is_text  # of the day, too, and durations
        is_input = name in inputs
        right = kinds[name] is not None and (is_input or not (is_time or kinds[name] == "vector"))
        if not right or (name in weights and kinds[name] != "number"):
            dates = ", dates" if name in inputs else ""
            allowed = "numbers" if name in weights else f"numbers, booleans{dates} or strings"
            cure = ", or leave it out of X with x='-NAME' (--x=-NAME)" if name in inputs else ""
            raise DataError(
                f"{table.where}: column {name!r} has type {table.type_name(name)}; expected "
                f"{allowed}: convert it{cure}"
            )
    if len(y) > 1 and any(kinds[name] not in ("number", "boolean") for name in y):
        raise DataError(f"{table.where}: targets {y} are not all numbers; name one of labels")
