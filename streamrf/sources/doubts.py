"""What may be wrong with what was learnt of the columns of a table."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from streamrf.display import brief, listed
from streamrf.sources.arrow_types import arrow
from streamrf.sources.arrow_values import as_strings
from streamrf.sources.columns import MAX_LEVELS, Column

MAX_ODD = 0.1  # share of levels that are no numbers in a column that might be one of numbers
MIN_ROWS, MAX_DIFFERENT = 50, 0.9  # from so many rows on, with a greater share of levels: names
# Numbers with signs of money, percent, thousands or a decimal comma: "$1,234.50", "12,5 %", "(3)".
_WRITTEN = re.compile(
    r"\(?[+\-\u2212]?[$€£]?\s?[+\-\u2212]?(\d+|\d{1,3}([,.'\s]\d{3})+)([.,]\d+)?\s?[%€$£]?\)?"
)
_PLAIN = re.compile(r"[A-Za-z0-9+. -]+")  # what numbers of CSV files are written with
_CODE = re.compile(r"0\d+")  # which no number is written like
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))([ T]\d{1,2}:\d{2}.*)?"
)
MAX_NAMED = 5  # columns of a warning; of others their number
# What is said of one column and of several, and the cure, by the kind of doubt.
_TOLD = {
    "empty": (
        "has no value in the {} rows looked at, so it is a constant, and later values of it are "
        "counted but not used; leave it out with x='-NAME' (--x=-NAME), or train on rows that have "
        "some",
        "have no value in the {} rows looked at, so they are constants, and later values of them "
        "are counted but not used; leave them out with x='-NAME,-NAME' (--x=-NAME,-NAME), or train "
        "on rows that have some",
    ),
    "dates": (
        "holds dates such as {}, so it is read as categories; write them as 2024-01-31 or "
        "2024-01-31 10:00, or convert them to dates, of which days and cycles are made",
        "hold dates such as {}, so they are read as categories; write them as 2024-01-31 or "
        "2024-01-31 10:00, or convert them to dates, of which days and cycles are made",
    ),
    "dated": (
        "holds dates such as {}, so it is read as categories; convert it to dates, of which days "
        "and cycles are made: pd.to_datetime(frame[column]) in pandas",
        "hold dates such as {}, so they are read as categories; convert them to dates, of which "
        "days and cycles are made: pd.to_datetime(frame[column]) in pandas",
    ),
    "texts": (
        "holds numbers as text, so it is read as categories; convert it if they are meant as "
        "numbers",
        "hold numbers as text, so they are read as categories; convert them if they are meant as "
        "numbers",
    ),
    "written": (
        "holds numbers such as {}, so it is read as categories; write them with a point and "
        "nothing else if they are meant as numbers",
        "hold numbers such as {}, so they are read as categories; write them with a point and "
        "nothing else if they are meant as numbers",
    ),
    "dirty": (
        "holds numbers, but also {}, so it is read as categories; clean it if they are meant as "
        "numbers",
        "hold numbers, but also {} and the like, so they are read as categories; clean them if "
        "they are meant as numbers",
    ),
    "names": (
        "has {} different texts in the {} rows looked at, as names and identifiers have, which are "
        "noise to a model; drop the column, or leave it out with x='-NAME' (--x=-NAME)",
        "have a different text in nearly all of the {1} rows looked at, as names and identifiers "
        "have, which are noise to a model; drop the columns, or leave them out with "
        "x='-NAME,-NAME' (--x=-NAME,-NAME)",
    ),
}


class _Doubt(NamedTuple):
    """What may be wrong with a column."""

    kind: str  # of `_TOLD`
    details: tuple[str, ...] = ()  # that the sentence has


def doubts_of(
    where: str, learnt: Iterable[tuple[Column, Any]], is_guessed: bool
) -> tuple[str, ...]:
    """Return what may be wrong with columns and what to do, in a sentence for each kind of doubt.

    Parameters
    ----------
    where : the table, for the message
    learnt : the columns as they were learnt, each with the Arrow array that it was learnt from
    is_guessed : whether types were only guessed from text, and any number would be one
    """
    found: dict[str, list[str]] = {}
    details: dict[str, tuple[str, ...]] = {}  # of the first column of a kind
    for column, values in learnt:
        doubt = _doubt_of(column, values, is_guessed)
        if doubt is not None:
            found.setdefault(doubt.kind, []).append(column.name)
            details.setdefault(doubt.kind, doubt.details)
    return tuple(
        f"{where}: {named(names)} {_TOLD[kind][len(names) > 1].format(*details[kind])}"
        for kind, names in found.items()
    )


def named(names: Sequence[str]) -> str:
    """Return columns in words, the first few of many by name.

    Examples
    --------
    >>> named(["a"]), named(["a", "b"])
    ("column 'a'", "columns 'a', 'b'")
    """
    what = "column" if len(names) == 1 else "columns"
    return f"{what} {listed([*map(repr, names)], MAX_NAMED)}"


def _doubt_of(column: Column, values: Any, is_guessed: bool) -> _Doubt | None:
    """Return what may be wrong with a column, None for nothing."""
    if column.kind == "empty":
        return _Doubt("empty", (f"{len(values):,}",))
    if column.kind != "category":
        return None
    texts = as_strings(values).drop_null()
    levels = texts.unique().to_pylist()
    if not arrow().types.is_dictionary(values.type):  # which someone has made categories
        doubt = _of_dates(levels, is_guessed) or _of_numbers(levels, is_guessed)
        if doubt is not None:
            return doubt
    if len(texts) >= MIN_ROWS and len(levels) > MAX_DIFFERENT * len(texts):
        return _Doubt("names", (f"{len(levels):,}", f"{len(texts):,}"))
    return None


def _of_dates(levels: list[str], is_guessed: bool) -> _Doubt | None:
    """Return what makes text of a column of dates, or None."""
    dates = [level for level in levels if _DATE.fullmatch(level.strip())]
    if not dates or len(dates) < (1 - MAX_ODD) * len(levels):
        return None
    return _Doubt("dates" if is_guessed else "dated", (repr(dates[0]),))


def _of_numbers(levels: list[str], is_guessed: bool) -> _Doubt | None:
    """Return what makes text of a column of which nearly all is numbers, or None."""
    odd = [level for level in levels if not is_number(level)]
    written = [level for level in odd if _WRITTEN.fullmatch(level.strip())]
    others = [level for level in odd if level not in written]
    if not levels or len(others) > MAX_ODD * len(levels):
        return None
    unlike = [level for level in levels if not _PLAIN.fullmatch(level)]
    if not is_guessed and not odd and not unlike:
        if len(levels) <= MAX_LEVELS or any(map(_CODE.fullmatch, levels)):
            return None  # codes are texts on purpose
        return _Doubt("texts")
    if written:
        return _Doubt("written", (repr(written[0]),))
    what = "a value that is none"
    if others := [*others, *unlike]:
        what = brief(repr(others[0]))
    return _Doubt("dirty", (what,))


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
