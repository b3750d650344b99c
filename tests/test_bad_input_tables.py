"""Malformed files of every format: one sentence that names file, column and row."""

import datetime
import gzip
import re
import sys
import warnings

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
import scipy.sparse

import streamrf as srf
from cases import opened
from commands import refused
from streamrf.errors import DataError, StreamrfError, StreamrfWarning
from streamrf.sources import check_rows

LINES = "".join(f"{i},{i * 2},{i % 2}\n" for i in range(100))
CSV = "a,b,y\n" + LINES


def text(name, content):
    """What writes a file of text or bytes and returns its name."""

    def write():
        data = content if isinstance(content, bytes) else content.encode()
        with open(name, "wb") as file:
            file.write(data)
        return name

    return write


def array(name, *values, **more):
    def write():
        if name.endswith(".npz"):
            np.savez(name, *values, **more)
        else:
            np.save(name, *values)
        return name

    return write


def sparse():
    scipy.sparse.save_npz("s.npz", scipy.sparse.csr_array(np.eye(4)))
    return "s.npz"


def truncated_parquet():
    pyarrow.parquet.write_table(pyarrow.table({"a": range(1000), "y": range(1000)}), "t.parquet")
    with open("t.parquet", "r+b") as file:
        file.truncate(900)
    return "t.parquet"


def folder(*writes):
    def write():
        return [write() for write in writes]

    return write


def zarr_group():
    import zarr

    zarr.open_group("g.zarr", mode="w").create_array("X", data=np.eye(3))
    return "g.zarr"


def table(**columns):
    return lambda: pyarrow.table(columns)


def spoilt_parquet():
    """One bit of a page is another, which its checksum tells."""
    table = pyarrow.table({"a": np.arange(1000.0), "y": np.arange(1000.0)})
    pyarrow.parquet.write_table(table, "s.parquet", write_page_checksum=True, compression="none")
    with open("s.parquet", "r+b") as file:
        file.seek(2000)
        byte = file.read(1)[0]
        file.seek(2000)
        file.write(bytes([byte ^ 1]))
    return "s.parquet"


def repeated_parquet():
    columns = [range(3), range(3), [0, 1, 0]]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(columns, names=["a", "a", "y"]), "r.pq")
    return "r.pq"


def frame_of(make):
    """What makes a data frame with a column "a" of what `make` makes of pandas."""

    def write():
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame({"a": make(pandas), "y": [0, 1]})

    return write


def repeated_frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame([[1, 2, "0"], [3, 4, "1"]], columns=["a", "a", "y"])


TIMES = [datetime.time(1), datetime.time(2)]
SPANS = [datetime.timedelta(1), datetime.timedelta(2)]

GZIPPED = gzip.compress(b"\x89HDF\r\n\x1a\n" + bytes(99))
BAD = [
    # CSV
    (text("a.csv", ""), {}, "a.csv is empty; expected names of columns, and rows below them"),
    (text("a.csv", b"\xef\xbb\xbf"), {}, "a.csv is empty"),
    (text("a.csv.gz", gzip.compress(b"")), {}, "a.csv.gz is empty"),
    (text("a.csv", "\na,y\n1,2\n"), {}, "a.csv begins with an empty line"),
    (text("a.csv", "a,y\r1,2\r3,4\r"), {}, "a.csv has a carriage return within its first line"),
    (text("a.csv", '"a","y"\r1,2\r'), {}, "a.csv has a carriage return within its first line"),
    (text("a.csv", "a,b,y\n"), {}, "a.csv: 0 rows below the names"),
    (text("a.csv", "a,a,y\n1,2,3\n"), {}, "a.csv has several columns called ['a']"),
    (text("a.csv", b"\x00\x01,\x02\n"), {}, "a.csv has null bytes, as UTF-16 does"),
    (text("a.csv", b"a,y\n\xe9t\xe9,1\n"), {}, "a.csv: column 'a' is not UTF-8; convert the"),
    (text("a.csv", b"a,\xe9t\xe9,y\n1,2,0\n"), {}, "a.csv: names of columns are not UTF-8;"),
    (text("a.csv", 'a,"b,y\n' + LINES), {}, "a.csv: a quote in the first line is not closed"),
    (text("a.csv", 'a,"b,y\n1,2,0\n3,"4",1\n'), {}, "a.csv: a quote in the first line is not"),
    (text("a.csv", CSV.replace("\n70,140", "\n70,140,5")), {}, "a.csv, row 70 has 4 fields"),
    (text("a.csv", CSV.replace("\n70,140,", "\n70,")), {}, "a.csv, row 70 has 2 fields"),
    (
        text("a.csv", CSV.replace("\n70,140", '\n70,"140')),
        {},
        "a.csv, row 70: a quote there begins",
    ),
    (
        text("a.csv", CSV + '1,2,"0'),
        {},
        "a.csv, row 100: a quote there begins a field that nothing",
    ),
    (text("a.tsv", CSV.replace(",", "\t") + '1\t2\t"0\n'), {}, "a.tsv, row 100: a quote there"),
    (
        text("a.csv.gz", gzip.compress((CSV.replace("\n70,", '\n"70,')).encode())),
        {},
        "a.csv.gz, row 70: a quote there begins a field that nothing ends; close it",
    ),
    (text("a.csv", CSV.replace("\n70,140", "\n70,inf")), {}, "a.csv, row 70: column 'b' is inf"),
    (text("a.csv", CSV.replace("\n70,140,0", "\n70,140,")), {}, "a.csv, row 70: the target is NaN"),
    (
        text("a.csv", CSV.replace(",0\n", ",no\n").replace(",1\n", ",yes\n") + "1,2,\n"),
        {},
        "a.csv, row 100: the target 'y' is missing",
    ),
    (text("a.csv", CSV), {"y": "yy"}, "a.csv has no column 'yy'; near names there: ['y']"),
    (text("a.csv", CSV), {"x": "q*"}, "a.csv has no column 'q*'; it has ['a', 'b', 'y']"),
    (
        text("a.csv", "0.5,1.5,0\n" + LINES),
        {},
        "a.csv has no column 'y'; it has ['0', '1', '2']; put names above its first line, which has"
        " numbers, or name it with y= (--y)",
    ),
    (
        text("a.csv", "5.1,3.5,setosa\n4.9,3,setosa\n"),
        {},
        "a.csv has no column 'y'; it has ['5.1', '3.5', 'setosa']; put names above its",
    ),
    (
        text("a.csv", "a,b,2019\n" + LINES),
        {},
        "a.csv has no column 'y'; it has ['a', 'b', '2019']; name",
    ),
    (text("a.csv", CSV), {"x": "a,y"}, "a.csv: column 'y' is asked for both as X and as target"),
    (text("a.csv", CSV), {"x": "-a,-b"}, "a.csv: 0 columns are left for X"),
    (text("a.csv", CSV), {"weights": "w"}, "a.csv has no column 'w'"),
    (
        text("a.csv", "a,b,c,y\n1,2,3,4\n"),
        {"weights": "a,b"},
        "weights are the columns ['a', 'b']",
    ),
    (text("a.csv", CSV), {"weights": "y"}, "a.csv: column 'y' is asked for both as target and"),
    (array("a.npz", [[1.0]], [1.0]), {"weights": "y"}, "a.npz: 'y' is asked for both as targets"),
    (text("a.csv", "a,w,y\n1,x,2\n"), {"weights": "w"}, "a.csv: column 'w' has type string"),
    (
        text("a.csv", "a,y,z\n1,x,2\n"),
        {"y": "y,z"},
        "a.csv: targets ['y', 'z'] are not",
    ),
    (text("a.csv", "a,y\n1,2020-01-01\n"), {}, "a.csv: column 'y' has type date32"),
    (text("a.csv", "a,w,y\n1,-1,2\n1,1,2\n"), {"weights": "w"}, "a.csv, row 0: the weight is -1"),
    (text("a.csv.gz", gzip.compress(CSV.encode())[:-99]), {}, "a.csv.gz cannot be decompressed"),
    (text("a.csv.gz", b"\0" + gzip.compress(CSV.encode())), {}, "a.csv.gz cannot be decompressed"),
    (text("a.csv.zst", b"\0" + CSV.encode()), {}, "a.csv.zst cannot be decompressed"),
    (text("a.csv", gzip.compress(CSV.encode())[:-99]), {}, "a.csv cannot be decompressed"),
    (
        folder(text("a.csv", CSV), text("b.csv", CSV.replace("b,", "c,", 1))),
        {},
        "b.csv lacks the columns ['b']",
    ),
    (folder(text("a.csv", CSV), text("b.svm", "1 1:1\n")), {}, "['a.csv', 'b.svm'] are of several"),
    (lambda: "nope.csv", {}, "there is no file 'nope.csv'"),
    (lambda: "*.csv", {}, "no file matches '*.csv'"),
    (lambda: "foo://a.csv", {}, "foo://a.csv cannot be opened"),
    (lambda: "memory://nope.csv", {}, "there is no file memory://nope.csv"),
    # Parquet and Arrow
    (text("a.parquet", b"PAR1 and more"), {}, "a.parquet cannot be read"),
    (text("a.parquet", b""), {}, "a.parquet cannot be read"),
    (truncated_parquet, {}, "t.parquet cannot be read"),
    (spoilt_parquet, {}, "s.parquet cannot be read (could not verify page integrity"),
    (repeated_parquet, {}, "r.pq has several columns called ['a']; rename them"),
    (repeated_frame, {}, "DataFrame is no table (Duplicate column names found"),
    (
        frame_of(lambda pandas: pandas.cut([1, 2], 2)),
        {},
        "DataFrame: column 'a' has type dictionary<values=",
    ),
    (
        frame_of(lambda pandas: pandas.arrays.SparseArray([1.0, 2.0])),
        {},
        "DataFrame has a column of several types, or of one that Arrow lacks (Sparse pandas",
    ),
    (
        frame_of(lambda pandas: pandas.Series(["a", "\udc80"], dtype=object)),
        {},
        "DataFrame has a column of strings that are not UTF-8 text ('utf-8' codec",
    ),
    (
        frame_of(lambda pandas: pandas.Series([2**70, 1], dtype=object)),
        {},
        "DataFrame has a column of integers that 64 bits do not hold (",
    ),
    (table(a=[1, 2], y=TIMES), {}, "Table: column 'y' has type time64[us]; expected numbers"),
    (table(a=[1, 2], y=SPANS), {}, "Table: column 'y' has type duration[us]; expected numbers"),
    (table(a=[1, 2], w=SPANS, y=[0, 1]), {"weights": "w"}, "Table: column 'w' has type duration"),
    (text("a.arrow", b"ARROW1 and more"), {}, "a.arrow cannot be read"),
    (lambda: "nope.parquet", {}, "there is no file 'nope.parquet'"),
    # tables in memory
    (table(a=[["1"], ["2"]], y=[1, 2]), {}, "Table: column 'a' has type list"),
    (table(a=[[1], [2, 3]], y=[1, 2]), {}, "Table: column 'a' has a list of 2 numbers"),
    (table(a=[1, 2], y=[[1], [2]]), {}, "Table: column 'y' has type list"),
    (table(a=[b"x"], y=[1]), {}, "Table: column 'a' has type binary"),
    (table(a=pyarrow.array([], "i8"), y=pyarrow.array([], "i8")), {}, "Table: 0 rows"),
    (table(y=[1]), {}, "Table: 0 columns are left for X"),
    (table(a=[1, 2]), {"y": [1, 2, 3]}, "y has 3 rows but X has 2"),
    (table(a=[1.0, None], y=[True, None]), {}, "Table, row 1: the target 'y' is missing"),
    # NumPy
    (text("a.npy", "junk"), {"y": None}, "a.npy cannot be read"),
    (text("a.npy", b""), {"y": None}, "a.npy cannot be read"),
    (array("a.npy", np.zeros(3)), {"y": None}, "a.npy has shape (3,); expected 2-D"),
    (array("a.npy", np.array([["x"]])), {"y": None}, "a.npy has dtype <U1"),
    (array("a.npy", np.zeros((3, 2))), {}, "there is no file 'y', nor 'y.npy'"),
    (array("a.npy", np.array([[{}]])), {"y": None}, "a.npy holds Python objects, which are not"),
    (
        folder(array("a.npy", np.zeros((3, 2))), array("b.npy", np.zeros((3, 4)))),
        {"y": None},
        "b.npy has 4 features but a.npy has 2",
    ),
    (
        array("a.npz", X=np.zeros((3, 2))),
        {},
        "a.npz has no array 'y'; it has ['X']; name it with y= (--y)",
    ),
    (array("a.npz", X=np.eye(3), y=np.zeros(2)), {}, "a.npz, y has 2 rows but X has 3"),
    (text("a.npz", "junk"), {}, "a.npz cannot be read"),
    (sparse, {}, "there is no file 'y', nor 'y.npy'"),
    # libsvm
    (text("a.svm", ""), {}, "a.svm: 0 rows"),
    (text("a.svm", "1 1:2\n0 b:2\n"), {}, "a.svm, row 1: '0 b:2' is no line of libsvm text"),
    (text("a.svm", "nan 1:2\n"), {}, "a.svm, row 0: 'nan 1:2' is no line"),
    (text("a.svm", "1 1:2\n1 1:2 1:3\n"), {}, "a.svm, row 1: index 1 comes after 1; indices"),
    (text("a.svm", "1 1:2\n#\n1 3:2 0:3\n"), {}, "a.svm, row 1: index 0 comes after 3; indices"),
    (text("a.svm", "1 9:2 4:3\n"), {"x": "9"}, "a.svm, row 0: index 4 comes after 9; indices"),
    (text("a.svm", "1 1:x\n"), {}, "a.svm, row 0: 'x', the value of index 1, is no number"),
    (text("a.svm", "1 9:2\n"), {"x": "5"}, "a.svm: an entry has index 9, above the 5 columns"),
    (text("a.svm", "1 9:2\n"), {"x": "five"}, "a.svm: x='five' is no number of columns"),
    (text("a.svm", "1 4000000000:2\n"), {}, "a.svm, row 0: index 4,000,000,000 is beyond"),
    (text("a.svm", "1 " + "9" * 5000 + ":2\n"), {}, "a.svm, row 0: '1 99"),
    (text("a.svm", "1 9:2\n"), {"weights": "w"}, "a.svm: libsvm text has no weights"),
    # compressed
    (text("a.h5.gz", GZIPPED), {}, "a.h5.gz is compressed by gzip, and of such files only CSV is"),
    (text("a.npy.zst", b"\x28\xb5\x2f\xfd"), {}, "a.npy.zst is compressed by Zstandard, and of"),
    (
        text("a.h5", GZIPPED),
        {},
        "a.h5 is compressed by gzip, and of such files only CSV is read: un",
    ),
    # zarr
    (zarr_group, {}, "g.zarr has no array 'y'; it has ['X']; name it with y= (--y)"),
    (zarr_group, {"x": "Z", "y": None}, "g.zarr has no array 'Z'; it has ['X']; name it with x="),
    (lambda: "nope.zarr", {}, "there is no file 'nope.zarr'"),
]


def checked(data, **options):
    """Read all rows, in pieces of few."""
    for block in opened(data, **options, chunk_bytes=120).blocks():
        check_rows(block, "raise")


@pytest.mark.parametrize(
    ("write", "options", "message"), BAD, ids=[message[:40] for _, _, message in BAD]
)
def test_what_is_wrong_is_told_in_a_sentence(write, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = write()
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(StreamrfError, match="^" + re.escape(message)) as caught:
        checked(data, **{"y": "y", **options})
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_value_of_another_kind_is_told_by_row_and_column(tmp_path, monkeypatch):
    """Which none of the pieces looked at has."""
    monkeypatch.chdir(tmp_path)
    text("a.csv", "a,b,y\n" + 30 * LINES + "1,abc,0\n" + 30 * LINES)()
    source = opened("a.csv", y="y", chunk_bytes=256)
    expected = "^a.csv, row 3000: column 'b' has invalid value 'abc'; expected a number"
    with pytest.raises(StreamrfError, match=expected):
        list(source.blocks())


def test_a_command_says_it_in_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text("a.csv", CSV.replace("\n70,140", "\n70,140,5"))()
    assert refused("fit", "a.csv", "--model", "m.h5").startswith("a.csv, row 70 has 4 fields")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [("pyarrow", "a.csv", "tables"), ("zarr", "g.zarr", "zarr")],
)
def test_a_missing_package_is_named_with_its_cure(package, name, extra, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zarr_group()
    text("a.csv", CSV)()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{package}, which is not .*'streamrf\[{extra}\]'"):
        srf.open_source(name)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("{}.5%", "column 'a' holds numbers such as '0.5%', so it is read as categories; write"),
        (
            '"1,{:03}.25"',
            "column 'a' holds numbers such as '1,000.25', so it is read as categories",
        ),
        ('"{},5"', "column 'a' holds numbers such as '0,5', so it is read as categories"),
        ("${}", "column 'a' holds numbers such as '$0', so it is read as categories"),
        ("({})", "column 'a' holds numbers such as '(0)', so it is read as categories"),
        ("1_0{}", "column 'a' holds numbers, but also '1_00', so it is read as categories; clean"),
        ("{}\N{NO-BREAK SPACE}", "column 'a' holds numbers, but also '0\\xa0', so it is read as"),
        ("id{}", ""),
        ("10.0.0.{}", ""),
        ("{}-1", ""),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet", "frame"])
def test_numbers_that_are_not_read_as_numbers_are_told(written, told, ending, tmp_path):
    """Text of tables that are no CSV files was hashed in silence."""
    column = [written.format(i % 80).strip('"') for i in range(100)]
    table = pyarrow.table({"a": column, "y": np.arange(100) % 2})
    path, name = opened_as(table, ending, tmp_path)
    source = srf.open_source(path, y="y")
    told = f"{name}: {told}" if told else ""
    assert doubts(source, len(told)) == ([told] if told else [])
    assert not doubts(source)  # once
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source.adapted(srf.open_source(path, y="y").columns).sample(10)  # learnt elsewhere


@pytest.mark.parametrize("ending", ["csv", "parquet", "frame"])
def test_a_column_in_which_every_text_differs_is_told(ending, tmp_path):
    """Of few rows it ruined the model in silence: R2 1.00 to 0.18."""
    names = [f"C{i}x" for i in range(100)]
    table = pyarrow.table({"a": names, "b": ["u", "v"] * 50, "y": np.arange(100) % 2})
    path, name = opened_as(table, ending, tmp_path)
    told = f"{name}: column 'a' has 100 different texts in the 100 rows"
    assert doubts(srf.open_source(path, y="y"), len(told)) == [told]
    for fine in (names[:40], names[:80] + names[:20]):  # few rows; levels that come again
        table = pyarrow.table({"a": fine, "y": np.arange(len(fine)) % 2})
        assert not doubts(srf.open_source(table, y="y"))


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ([f"{i}.5" for i in range(70)] * 2, "holds numbers as text, so it is read as categories"),
        (["1", "2", "3"] * 40, ""),  # marks
        ([f"{i:05}" for i in range(70)] * 2, ""),  # codes
        (pyarrow.array([f"{i}.5" for i in range(70)] * 2).dictionary_encode(), ""),  # on purpose
    ],
)
def test_texts_of_numbers_alone_are_told_unless_they_may_be_codes(texts, told):
    source = srf.open_source(pyarrow.table({"a": texts}))
    expected = [f"Table: column 'a' {told}"] if told else []
    assert doubts(source, len(f"Table: column 'a' {told}")) == expected


@pytest.mark.parametrize(
    ("written", "is_told"),
    [
        ("01/{:02}/2024 10:00", True),
        ("{:02}.01.2024", True),
        ("2024-01-{:02}T00:30:00", True),
        ("a {:02}.01.2024", False),
        ("1.2.{}", False),
    ],
)
def test_dates_that_are_not_read_as_dates_are_told(written, is_told):
    table = pyarrow.table({"when": [written.format(1 + i % 28) for i in range(90)]})
    expected = f"Table: column 'when' holds dates such as '{written.format(1)}', so it is read as"
    assert doubts(srf.open_source(table), len(expected)) == ([expected] if is_told else [])


def test_dates_as_text_have_a_cure_that_their_store_lets_do(tmp_path):
    """A frame was told to write 2024-04-05 13:00:00 as 2024-01-31, as it is written."""
    (tmp_path / "d.csv").write_text("day\n" + "".join(f"{1 + i % 28}.1.24\n" for i in range(90)))
    (of_csv,) = doubts(srf.open_source(str(tmp_path / "d.csv")))
    assert "write them as 2024-01-31 or" in of_csv
    times = pyarrow.table({"when": [f"2024-04-{1 + i % 28:02} 13:00:00" for i in range(90)]})
    (of_table,) = doubts(srf.open_source(times))
    assert "'2024-04-01 13:00:00', so it is read as categories; convert it to dates" in of_table
    assert of_table.endswith("pd.to_datetime(frame[column]) in pandas")


def test_columns_of_one_kind_of_doubt_share_a_warning():
    """Each had a warning of its own: thirty of them hid what else was told."""
    kinds = {
        "price": [f"${i % 80}" for i in range(100)],
        "dirty": [*map(str, range(80)), *["none"] * 20],
        "text": [f"{i % 70}.5" for i in range(100)],
        "day": [f"{1 + i % 28:02}.01.2024" for i in range(100)],
        "id": [f"C{i}x" for i in range(100)],
        "gone": pyarrow.nulls(100),
    }
    columns = {f"{kind}{k}": kinds[kind] for k in range(7) for kind in kinds}
    source = srf.open_source(pyarrow.table({**columns, "single": kinds["day"]}))
    both = srf.open_source(pyarrow.table({"a": kinds["id"], "b": kinds["id"]}))
    named = {k: ", ".join(f"'{k}{i}'" for i in range(5)) + " and 2 more" for k in kinds}
    named["day"] = named["day"].replace("2 more", "3 more")
    so = "so they are read as categories; "
    expected = [
        f"Table: columns {named['price']} hold numbers such as '$0', {so}write them with a point",
        f"Table: columns {named['dirty']} hold numbers, but also 'none' and the like, {so}clean",
        f"Table: columns {named['text']} hold numbers as text, {so}convert them if they are meant",
        f"Table: columns {named['day']} hold dates such as '01.01.2024', {so}convert them to da",
        f"Table: columns {named['id']} have a different text in nearly all of the 100 rows looked",
        f"Table: columns {named['gone']} have no value in the 100 rows looked at, so they are cons",
    ]
    found = doubts(source)
    assert [told[: len(start)] for told, start in zip(found, expected, strict=True)] == expected
    assert doubts(both)[0].startswith("Table: columns 'a', 'b' have a different text in nearly")


def opened_as(table, ending, folder):
    """What `open_source` takes of a table in some format, and what messages call it."""
    path = folder / f"a.{ending}"
    if ending == "frame":
        return table, "Table"
    if ending == "csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pyarrow.parquet.write_table(table, path)
    return path, str(path)


def doubts(source, length=None):
    """The warnings of a first look at a source, or their beginnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        source.sample(10)
    assert {warning.category for warning in found} <= {StreamrfWarning}
    return [str(warning.message)[:length] for warning in found]


def test_targets_beside_a_dask_frame_are_refused():
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    frame = frames.from_pandas(pandas.DataFrame({"a": range(9), "y": range(9)}), npartitions=2)
    for y in (frame["y"], np.arange(9)):
        with pytest.raises(StreamrfError, match="of a Dask data frame are columns of it: assign"):
            srf.open_source(frame[["a"]], y=y)


def test_queries_and_folders_of_files_in_the_place_of_rows_are_refused_with_a_cure(tmp_path):
    polars, dataset = pytest.importorskip("polars"), pytest.importorskip("pyarrow.dataset")
    frame = polars.DataFrame({"a": np.arange(9.0), "y": np.arange(9) % 2})
    frame.write_parquet(tmp_path / "rows.parquet")
    files = dataset.dataset(tmp_path / "rows.parquet")
    arrays = pytest.importorskip("xarray").Dataset({"a": ("rows", frame["a"].to_numpy())})
    for rows, cure in (
        (frame.lazy(), r"X\.collect"),
        (files, r"X\.files"),
        (arrays, r"X\['NAME'\], or .*X\.to_dataframe"),
    ):
        match = f"is no table of rows in memory; give .*{cure}"
        with pytest.raises(DataError, match=match):
            srf.open_source(rows, y="y")
        with pytest.raises(DataError, match=match):
            srf.RandomFeatureClassifier().fit(rows, frame["y"])


@pytest.mark.parametrize(
    ("x", "left_out"),
    [(None, ["b", "c1"]), ("-c*", ["b"]), ("a,c*", ["c1"]), ("a", None), ("c0,a", None)],
)
def test_columns_that_only_later_files_have_are_told(x, left_out, tmp_path, monkeypatch, caplog):
    """They were left out without a word, though files that lack a column are refused."""
    monkeypatch.chdir(tmp_path)
    text("1.csv", "a,c0,y\n" + LINES)()
    text("2.csv", "c1,c0,y,b,a\n9,2,0,9,1\n9,2,1,9,1\n")()
    text("3.csv", "a,c0,y,b\n1,2,0,9\n")()
    source = srf.open_source(["1.csv", "2.csv", "3.csv"], x, "y")
    assert {*source.columns.outputs} <= {"a", "c0"}
    told = [sorted(re.findall("'(.*?)'", message)) for message in caplog.messages]
    assert told == ([left_out] if left_out else [])
    for message in caplog.messages:
        assert message.startswith("1.csv lacks columns that later ones have, such as 2.csv")


@pytest.mark.parametrize("names", [["1.csv", "2.csv"], ["2.csv", "1.csv"]])
def test_labels_that_are_numbers_here_and_flags_there_are_refused(names, tmp_path, monkeypatch):
    """They were four classes: 0, 1, False and True."""
    monkeypatch.chdir(tmp_path)
    text("1.csv", CSV)()
    text("2.csv", "a,b,y\n3,1,True\n4,1,False\n")()
    with pytest.raises(StreamrfError, match=r"2\.csv: the target 'y' is True .* in 1\.csv int64"):
        srf.open_source(names, y="y")
    assert srf.open_source(names, "a,b").n_rows == 102


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_bits_changed_in_parquet_files_are_rows_or_one_sentence(compression, tmp_path):
    """Texts that are no UTF-8, indices beyond a dictionary and missing rows were raw errors."""
    rng = np.random.default_rng(0)
    columns = {"city": rng.choice(["u", "v", "wz"], 300), "x": rng.normal(size=300)}
    columns |= {"text": [f"t{i % 30}" for i in range(300)], "y": np.arange(300) % 2}
    path = tmp_path / "a.parquet"
    options = {"row_group_size": 100, "compression": compression}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)
    whole, n_refused = path.read_bytes(), 0
    for _ in range(400):
        spoilt = bytearray(whole)
        spoilt[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(spoilt)
        try:
            assert sum(len(block.X) for block in srf.open_source(path, y="y").blocks()) > 0
        except StreamrfError:
            n_refused += 1
    assert n_refused > 100
