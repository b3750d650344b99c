"""Rows of CSV end where pyarrow ends them."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import naive
from streamrf.jit.csv_quotes import BROKEN, LINES, QUOTED, START, row_ends

WORDS = [b'"', b'""', b",", b"\n", b"\r\n", b"a", b"5", b" "]


def found(data, delimiter=b",", cuts=()):
    """Places of the ends, and the last state, of data given in parts."""
    places, state, start = [], START, 0
    for stop in (*cuts, len(data)):
        part = np.frombuffer(data[start:stop], np.uint8)
        ends = np.empty(len(part), np.int64)
        n_ends, state = row_ends(part, delimiter[0], state, ends)
        places += (ends[:n_ends] + start).tolist()
        start = stop
        if state == BROKEN:
            break
    return places, {QUOTED: "open", LINES: "open", BROKEN: "broken"}.get(state, "")


def texts(rng, n):
    """Texts of a few bytes that matter."""
    for _ in range(n):
        yield b"".join(WORDS[i] for i in rng.integers(0, len(WORDS), rng.integers(1, 12)))


@pytest.mark.parametrize("delimiter", [b",", b"\t"])
def test_ends_are_those_of_the_twin(rng, delimiter):
    for text in texts(rng, 2000):
        text = text.replace(b",", delimiter)
        assert found(text, delimiter) == naive.row_ends(text, delimiter), text


def test_parts_have_the_ends_of_the_whole(rng):
    for text in texts(rng, 500):
        cuts = sorted(rng.integers(0, len(text) + 1, 2).tolist())
        assert found(text, cuts=cuts) == found(text), text


def test_rows_are_those_of_pyarrow(rng):
    """Every row is ended by a row of its own, which nothing else may swallow."""
    options = csv.ParseOptions(
        newlines_in_values=True, invalid_row_handler=lambda row: "skip", ignore_empty_lines=False
    )
    names = csv.ReadOptions(column_names=["a", "b"], use_threads=False)
    for text in texts(rng, 2000):
        text = b"x," + text + b"\nlast,row\n"
        ends, end = found(text)
        if end == "broken":  # which pyarrow reads on
            continue
        table = csv.read_csv(pa.BufferReader(text), names, options)
        ended = ends[-2:-1] == [len(text) - len(b"last,row\n") - 1]
        is_read = table.column("a").to_pylist()[-1:] == ["last"]
        assert is_read == (ended and not end), text


def test_a_quote_forgotten_before_another_field_in_quotes_is_found():
    assert found(b'1,"a"\n2,"b\n3,"c"\n4,"d"\n') == ([5], "broken")
    assert found(b'1,"a"x\n2,"two\nlines"\n') == ([6, 20], "")
