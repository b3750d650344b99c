"""Labels in CSV files that Arrow takes for integers, and that begin with 0: 01 and 0x1F."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from streamrf.errors import DataError
from streamrf.sources.arrow_types import arrow

Parse = Callable[[bytes, dict[str, Any]], Any]  # lines, as a table of columns of some types

CACHED = 1 << 16  # bytes looked at together
BOM = 0xBF  # the last byte of a byte order mark
_CODE = r"^\s*0(\d+\s*$|[xX])"  # which no integer is written like


def codes_of(
    parse: Parse, pieces: Iterable[tuple[int, bytes]], types: dict[str, Any]
) -> dict[str, str]:
    """Return the columns of integers with a leading zero in some pieces, each with such a text."""
    found: dict[str, str] = {}
    for _, piece in pieces:
        for name, (text, _) in _coded(parse, piece, types).items():
            found.setdefault(name, text)
    return found


def hexadecimal(parse: Parse, data: bytes, types: dict[str, Any]) -> list[str]:
    """Return the columns of integers where lines hold some such as 0x1F, which are codes."""
    return list(_coded(parse, data, types, r"^\s*0[xX]"))


def check_labels(parse: Parse, data: bytes, first: int, types: dict[str, Any], where: str) -> None:
    """Raise DataError for a leading zero in a column read as integers, as labels alone are.

    The pieces that types were guessed from had none, and 01 would be the label 1; `first` is the
    first row of the lines.
    """
    for name, (text, row) in _coded(parse, data, types).items():
        is_decimal = text.strip().isdecimal()
        would = f", and would be the label {int(text)}" if is_decimal else ""
        values = ", say task='regression' (--task regression) if they are values"
        raise DataError(
            f"{where}, row {first + row}: the label {text!r} of column {name!r} begins with 0, as "
            f"none did in the rows that types were guessed from{would}; write all labels in one "
            f"way, or as text in a Parquet file{values if is_decimal else ''}, or leave y out where"
            " it is not needed"
        )


def _coded(
    parse: Parse, data: bytes, types: dict[str, Any], code: str = _CODE
) -> dict[str, tuple[str, int]]:
    """Return the first text that is a code in lines, and its row, of columns of integers."""
    pa = arrow()
    found: dict[str, tuple[str, int]] = {}
    names = [name for name, type_ in types.items() if pa.types.is_integer(type_)]
    if names and _may_have_code(data):
        table = parse(data, dict.fromkeys(names, pa.string()))
        for name in names:
            texts = table.column(name)
            row = pa.compute.index(pa.compute.match_substring_regex(texts, code), True).as_py()
            if row >= 0:
                found[name] = texts[row].as_py().strip(), row
    return found


def _may_have_code(data: bytes) -> bool:
    """Return whether a field of lines may begin with 0 and another digit, or x."""
    bytes_ = np.frombuffer(b"\n" + data, dtype=np.uint8)
    for start in range(0, len(bytes_), CACHED):
        part = bytes_[start : start + CACHED + 2]
        before, first, second = part[:-2], part[1:-1], part[2:]
        found = second - ord("0") < 10  # above 0, as bytes are
        found |= (second == ord("x")) | (second == ord("X"))
        found &= first == ord("0")
        found &= (
            (before <= ord(",")) | (before == ord(";")) | (before == ord("|")) | (before == BOM)
        )
        if found.any():
            return True
    return False
