"""What may be wrong with what was learnt of the columns of a table."""

import re
from typing import Any

from streamrf.display import brief
from streamrf.sources.arrow_types import arrow
from streamrf.sources.columns import MAX_LEVELS, Column, as_strings

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
_SO = ", so it is read as categories; "


def doubt_of(where: str, column: Column, values: Any, is_guessed: bool) -> str | None:
    """Return what may be wrong with a column and what to do, in a sentence; None for nothing.

    Parameters
    ----------
    where : the table, for the message
    column : as it was learnt
    values : that it was learnt from, an Arrow array
    is_guessed : whether its type was only guessed from text, and any number would be one
    """
    if column.kind == "empty":
        return (
            f"{where}: column {column.name!r} has no value in the {len(values):,} rows looked at, "
            "so it is a constant, and later values of it are counted but not used; leave it out "
            "with x='-NAME' (--x=-NAME), or train on rows that have some"
        )
    if column.kind != "category":
        return None
    texts = as_strings(values).drop_null()
    levels = texts.unique().to_pylist()
    told = None
    if not arrow().types.is_dictionary(values.type):  # which someone has made categories
        told = _of_dates(levels) or _of_numbers(levels, is_guessed)
    if told is None and len(texts) >= MIN_ROWS and len(levels) > MAX_DIFFERENT * len(texts):
        told = (
            f"has {len(levels):,} different texts in the {len(texts):,} rows looked at, as names "
            "and identifiers have, which are noise to a model; drop the column, or leave it out "
            "with x='-NAME' (--x=-NAME)"
        )
    return None if told is None else f"{where}: column {column.name!r} {told}"


def _of_dates(levels: list[str]) -> str | None:
    """Return what makes text of a column of dates, and the cure, or None."""
    dates = [level for level in levels if _DATE.fullmatch(level.strip())]
    if not dates or len(dates) < (1 - MAX_ODD) * len(levels):
        return None
    return (
        f"holds dates such as {dates[0]!r}{_SO}write them as 2024-01-31 or 2024-01-31 10:00, or "
        "convert them to dates, of which days and cycles are made"
    )


def _of_numbers(levels: list[str], is_guessed: bool) -> str | None:
    """Return what makes text of a column of which nearly all is numbers, and the cure, or None."""
    odd = [level for level in levels if not is_number(level)]
    written = [level for level in odd if _WRITTEN.fullmatch(level.strip())]
    others = [level for level in odd if level not in written]
    if not levels or len(others) > MAX_ODD * len(levels):
        return None
    unlike = [level for level in levels if not _PLAIN.fullmatch(level)]
    if not is_guessed and not odd and not unlike:
        if len(levels) <= MAX_LEVELS or any(map(_CODE.fullmatch, levels)):
            return None  # codes are texts on purpose
        return f"holds numbers as text{_SO}convert it if they are meant as numbers"
    if written:
        return (
            f"holds numbers such as {written[0]!r}{_SO}write them with a point and nothing else "
            "if they are meant as numbers"
        )
    what = "a value that is none"
    if others := [*others, *unlike]:
        what = brief(repr(others[0]))
    return f"holds numbers, but also {what}{_SO}clean it if they are meant as numbers"


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
