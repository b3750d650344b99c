"""Arrow files of the stream format."""

import contextlib
import shutil

import numpy as np
import pyarrow
import pyarrow.ipc
import pytest

import streamrf as srf
from streamrf.errors import CorruptFileError, DataError, StreamrfError
from streamrf.sources.arrow_streams import messages_of
from streamrf.sources.parquet_files import _ArrowStream, open_arrow

RNG = np.random.default_rng(0)
NAMES = {"number": None, "city": None, "label": None}
ENDED = "ends before the mark that closes a stream|ends within a message"


def rows(n_rows, cities):
    return pyarrow.table(
        {
            "number": RNG.normal(size=n_rows),
            "city": pyarrow.array(RNG.choice(cities, n_rows)).dictionary_encode(),
            "label": RNG.integers(0, 2, n_rows),
        }
    )


TABLES = [rows(50, ["u", "v"]), rows(70, ["v", "w", "u"]), rows(1, ["z"]), rows(80, ["u", "z"])]


def plain(tables):
    """Tables one below the other, with cities as text."""
    cities = pyarrow.string()
    columns = [
        t.set_column(t.column_names.index("city"), "city", t["city"].cast(cities)) for t in tables
    ]
    return pyarrow.concat_tables(columns).combine_chunks()


def stream(path, tables=TABLES, **options):
    written = pyarrow.ipc.IpcWriteOptions(**options)
    with pyarrow.ipc.new_stream(path, tables[0].schema, options=written) as writer:
        for table in tables:
            writer.write_table(table)
    return path


def nested():
    """Dictionaries of lists of dictionaries, which come before those that refer to them."""
    inner = pyarrow.array(["p", "q", "p"]).dictionary_encode()
    lists = pyarrow.ListArray.from_arrays([0, 1, 3], inner)
    outer = pyarrow.DictionaryArray.from_arrays(pyarrow.array([1, 0, 1], pyarrow.int8()), lists)
    return pyarrow.table({"outer": outer})


@pytest.mark.parametrize(
    "options",
    [{}, {"emit_dictionary_deltas": True}, {"compression": "lz4"}, {"compression": "zstd"}],
    ids=str,
)
def test_any_rows_are_read_with_the_dictionaries_before_them(tmp_path, options):
    table = open_arrow(str(stream(tmp_path / "s.arrow", **options)))
    assert (table.n_rows, table.chunk(60), table.chunk(200)) == (201, (50, 120), (121, 201))
    assert table.buffer_bytes >= 80 * 17  # two numbers of 8 bytes and an index
    expected = plain(TABLES)
    for ranges in (
        [(0, 201)],
        [(60, 61), (130, 140)],
        [(120, 121)],
        [(49, 51), (55, 60), (119, 122), (200, 201)],
    ):
        found = plain(part for _, part in table.read(ranges, NAMES, 1000))
        assert found == plain(expected.slice(a, b - a) for a, b in ranges)


def test_dictionaries_of_dictionaries_are_read(tmp_path):
    table = open_arrow(str(stream(tmp_path / "s.arrow", [nested()] * 3)))
    ((_, found),) = table.read([(6, 9)], {"outer": None}, 1000)
    assert found["outer"].to_pylist() == nested()["outer"].to_pylist()


def test_no_part_of_a_stream_is_taken_for_all(tmp_path):
    whole = stream(tmp_path / "s.arrow").read_bytes()
    for length in range(4, len(whole)):
        (tmp_path / "part.arrow").write_bytes(whole[:length])
        with pytest.raises(CorruptFileError, match=ENDED):
            open_arrow(str(tmp_path / "part.arrow"))
    (tmp_path / "two.arrow").write_bytes(whole * 2)
    with pytest.raises(CorruptFileError, match="bytes after the end of its stream"):
        open_arrow(str(tmp_path / "two.arrow"))
    (tmp_path / "end.arrow").write_bytes(whole[-8:])
    with pytest.raises(CorruptFileError, match="does not begin with a schema"):
        open_arrow(str(tmp_path / "end.arrow"))


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("opened", [pyarrow.ipc.new_stream, pyarrow.ipc.new_file])
def test_bytes_changed_anywhere_are_rows_or_one_sentence(opened, compression, tmp_path):
    """Some ended the process: Arrow was asked for the size of what nothing had checked."""
    path, options = tmp_path / "s.arrow", pyarrow.ipc.IpcWriteOptions(compression=compression)
    tables = [table.append_column("text", table["city"].cast("string")) for table in TABLES[:2]]
    if opened is pyarrow.ipc.new_file:  # which has one dictionary of each column
        tables = [pyarrow.concat_tables(tables).unify_dictionaries()]
    with opened(path, tables[0].schema, options=options) as writer:
        for table in tables:
            writer.write_table(table)
    whole = bytearray(path.read_bytes())
    n_refused = 0
    for place in range(0, len(whole), 7):
        spoilt = whole.copy()
        spoilt[place] ^= 1 << place % 8
        (tmp_path / "spoilt.arrow").write_bytes(spoilt)
        with contextlib.suppress(StreamrfError):
            source = srf.open_source(tmp_path / "spoilt.arrow", y="label")
            assert sum(len(block.X) for block in source.blocks(block_rows=100)) == source.n_rows
            continue
        n_refused += 1
    assert n_refused > len(whole) // 30


def test_a_stream_that_grows_after_it_was_opened_is_told(tmp_path):
    path = stream(tmp_path / "s.arrow")
    table = open_arrow(str(path))
    shutil.copy(stream(tmp_path / "longer.arrow", [*TABLES, *TABLES]), path)
    with pytest.raises(StreamrfError, match="was written to after it was opened"):
        list(table.read([(0, 201)], NAMES, 1000))


def test_a_stream_of_no_rows_is_told(tmp_path):
    stream(tmp_path / "s.arrow", [TABLES[0].slice(0, 0)])
    with pytest.raises(StreamrfError, match="0 rows; expected at least 1"):
        srf.open_source(tmp_path / "s.arrow", y="label")


def test_a_stream_cut_between_two_messages_while_it_is_read_is_told(tmp_path):
    path = stream(tmp_path / "s.arrow", [table.slice(0, 50) for table in TABLES])
    with open(path, "rb") as file:
        borders = [batch.place[1] for batch in messages_of(file).batches]
    with open(path, "rb+") as file:
        reader = _ArrowStream(file)
        file.truncate(borders[0])
        with pytest.raises(pyarrow.ArrowInvalid, match="before the mark"):
            [reader._batch(place) for place in range(len(borders))]


def coded(indices, levels):
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(indices, pyarrow.int8()), levels)


@pytest.mark.parametrize("way", ["file", "table", "batches"])
def test_dictionaries_that_are_replaced_may_hold_what_is_missing(way, tmp_path):
    """Arrow does not unify such, and its error was all there was."""
    batches = [
        pyarrow.record_batch([coded(places * 20, levels), range(40), labels], names=["c", "x", "y"])
        for places, levels, labels in (
            ([0, 1], pyarrow.array(["a", None]), [0, 1] * 20),
            ([1, 0], pyarrow.array(["b", "a"]), [1, 0] * 20),
        )
    ]
    data = pyarrow.Table.from_batches(batches)
    if way == "file":
        with pyarrow.ipc.new_stream(tmp_path / "a.arrow", batches[0].schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
    source = srf.open_source(
        {"file": str(tmp_path / "a.arrow"), "table": data, "batches": lambda: iter(batches)}[way],
        y="y",
    )
    blocks = [(block.X.copy(), np.array(block.y)) for block in source.blocks()]
    X, y = (np.concatenate(part) for part in zip(*blocks, strict=True))
    found = dict(zip(source.columns.outputs, X.T, strict=True))
    texts = [value.as_py() for value in (data.column("c").chunk(0).dictionary.take(
        data.column("c").chunk(0).indices))] + ["a", "b"] * 20  # fmt: skip
    np.testing.assert_array_equal(found["c missing"], [text is None for text in texts])
    np.testing.assert_array_equal(found["c=b"], [text == "b" for text in texts])
    np.testing.assert_array_equal(found["x"], [*range(40)] * 2)
    np.testing.assert_array_equal(y, [0, 1] * 20 + [1, 0] * 20)


def test_dictionaries_of_dictionaries_are_told():
    column = coded([0, 1] * 20, coded([0, 1], pyarrow.array(["a", "b"])))
    with pytest.raises(DataError, match="type that Arrow writes and does not read"):
        srf.open_source(pyarrow.table({"c": column, "y": [0, 1] * 20}), y="y").columns  # noqa: B018
