"""Files at URLs, from a server of this process: the rows of the files, errors that name them."""

import io
import os
import re
import threading
import time
import traceback
from contextlib import suppress
from email.utils import formatdate
from functools import partial
from http.server import (
    BaseHTTPRequestHandler,
    SimpleHTTPRequestHandler,
    ThreadingHTTPServer,
)
from typing import ClassVar
from zipfile import ZipFile

import fsspec
import fsspec.implementations.memory
import numpy as np
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
from fsspec.exceptions import FSTimeoutError

import streamrf as srf
from cases import columns_of, opened, write_csv
from integers import assert_same_bytes
from streamrf.errors import (
    ChangedFileError,
    CorruptFileError,
    DataError,
    MissingPackageError,
    ParameterError,
    SourceNotFoundError,
    StreamrfError,
)
from streamrf.sources import urls
from streamrf.sources.urls import bare

pytest.importorskip("aiohttp")
pytestmark = pytest.mark.usefixtures("one_thread")

RNG = np.random.default_rng(0)
TABLE = pyarrow.table(columns_of(RNG.normal(size=(600, 4)), RNG.integers(0, 3, 600)))


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder, and ranges of bytes where the path does not begin with /whole.

    Below /broken it fails, below /closed it refuses what has a query, below /endless it does not
    say how long a file is, below /short it sends half of what is asked for, and below /other what
    lies ten bytes behind it.
    """

    keys_sent: ClassVar[list] = []  # of the requests

    def send_head(self):
        self.keys_sent.append(self.headers.get("Key"))
        if self.path.startswith("/broken/"):
            self.send_error(500)
            return None
        if self.path.startswith("/closed/") and "?" in self.path:
            self.send_error(403)
            return None
        if self.path.startswith("/endless/"):
            self.send_response(200)
            self.end_headers()
            return open(self.translate_path(self.path.removeprefix("/endless")), "rb")
        has_ranges = not self.path.startswith("/whole")
        is_short = self.path.startswith("/short/")
        is_other = self.path.startswith("/other/")
        self.path = re.sub("^/(whole|short|other)(?=/)", "", self.path)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not has_ranges or asked is None or self.command != "GET":
            return super().send_head()
        try:
            file = open(self.translate_path(self.path), "rb")  # noqa: SIM115 - the caller closes it
        except OSError:
            self.send_error(404)
            return None
        size = file.seek(0, 2)
        first, last = int(asked[1]), min(int(asked[2] or size), size - 1)
        last = (first + last) // 2 if is_short else last
        if is_other:
            first, last = first + 10, min(last + 10, size - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        file.seek(first)
        return file

    def copyfile(self, source, outputfile):
        left = next(
            (int(line.split(b":")[1]) for line in self.sent if b"Content-Length" in line), None
        )
        outputfile.write(source.read(left))

    def send_header(self, keyword, value):
        self.sent = [*getattr(self, "sent", []), f"{keyword}: {value}".encode()]
        super().send_header(keyword, value)

    def log_message(self, *arguments):
        pass

    def handle(self):
        with suppress(BrokenPipeError, ConnectionResetError):  # of who has read enough
            super().handle()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    for name in ("rows.csv", "rows.csv.gz"):
        write_csv(folder / name, TABLE)
    pyarrow.parquet.write_table(TABLE, folder / "rows.parquet", row_group_size=100)
    pyarrow.feather.write_feather(TABLE, str(folder / "rows.arrow"), chunksize=100)
    lines = (
        f"{label} " + " ".join(f"{place + 1}:{value!r}" for place, value in enumerate(row))
        for *row, label in zip(*TABLE.to_pydict().values(), strict=True)
    )
    (folder / "rows.svm").write_text("\n".join(lines))
    (folder / "broken.parquet").write_bytes((folder / "rows.parquet").read_bytes()[:-900])
    return folder


@pytest.fixture(scope="module")
def url(folder):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def summed(source, **options):
    return srf.accumulate(source, srf.Identity(), random_state=0, **options).to_tree()


@pytest.mark.parametrize(
    "name",
    [
        "rows.csv",
        "rows.csv.gz",
        "rows.parquet",
        "rows.arrow",
        "rows.svm",
        "rows.csv?signature=a=b/c",
    ],
)
def test_a_file_at_a_url_has_the_sums_of_the_file(folder, url, name):
    path = folder / name.partition("?")[0]
    here, there = (opened(data, y="y", chunk_bytes=5000) for data in (path, f"{url}/{name}"))
    a, b = summed(here), summed(there)
    names = [tree["ledger"].pop("names") for tree in (a, b)]
    assert_same_bytes(a, b)
    assert [*names[1].values()] == [f"{url}/{path.name}"]  # without its signature


def test_workers_read_urls_by_themselves(url, two_workers):
    source = srf.open_source(f"{url}/rows.parquet", y="y")
    assert_same_bytes(summed(source), summed(source, engine=two_workers, parts=3))


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("nothing.csv", SourceNotFoundError, r"there is no file http://.*/nothing\.csv"),
        ("none*.csv", StreamrfError, r"none\*\.csv"),
        ("rows.h5", ParameterError, r"rows\.h5 is a URL: CSV, Parquet, .* download others"),
        ("", ParameterError, r"is a URL: CSV, Parquet, Arrow and libsvm files are read from URLs"),
        ("rows.npy", ParameterError, r"rows\.npy is a URL"),
        ("broken.parquet", CorruptFileError, r"broken\.parquet cannot be read"),
        ("whole/rows.csv", CorruptFileError, r"rows.csv cannot be read: its server has no ranges"),
        (
            "short/rows.csv",
            CorruptFileError,
            r"rows.csv cannot be read: its server sent [\d,]+ of ",
        ),
        (
            "short/rows.csv.gz",
            CorruptFileError,
            r"rows.csv.gz cannot be read: its server sent [\d,]+ of [^;]*; [^;]*: read it again$",
        ),
        (
            "short/rows.parquet",
            CorruptFileError,
            r"cannot be read: its server sent [\d,]+ of [\d,]+",
        ),
        ("other/rows.csv", CorruptFileError, r"sent other bytes than those asked for, 'bytes 10-"),
        ("other/rows.parquet", CorruptFileError, r"rows\.parquet cannot be re.* sent other bytes"),
        ("endless/rows.csv", CorruptFileError, r"cannot be read: its server has no ranges of"),
        ("endless/rows.parquet", CorruptFileError, r"cannot be read: its server has no ranges of"),
        ("broken/rows.csv", SourceNotFoundError, r"broken/rows\.csv cannot be reached: 500, mess"),
    ],
)
def test_what_cannot_be_read_is_named(url, name, error, message):
    with pytest.raises(error, match=message):
        summed(srf.open_source(f"{url}/{name}", y="y"))


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet", "rows.svm"])
def test_a_server_without_an_end_is_named_before_it_is_read(url, name):
    with pytest.raises(CorruptFileError, match="its server has no ranges of bytes; download it"):
        urls.open_url(f"{url}/endless/{name}", name)


def test_the_configuration_of_fsspec_holds_for_what_is_read(url, monkeypatch):
    monkeypatch.setitem(fsspec.config.conf, "http", {"client_kwargs": {"headers": {"Key": "1"}}})
    Handler.keys_sent.clear()
    srf.open_source(f"simplecache::{url}/rows.csv?from=https://other/rows.csv", y="y")
    assert {*Handler.keys_sent} == {"1"}
    assert urls._options("memory://rows.csv") == {}
    monkeypatch.setitem(fsspec.config.conf, "http", {"client_kwargs": None})
    srf.open_source(f"{url}/rows.csv", y="y")


@pytest.mark.parametrize(("ending", "words"), [("csv", "is empty"), ("parquet", ".* is 0 bytes")])
def test_an_empty_file_is_told_as_empty(ending, words, url, folder):
    (folder / f"empty.{ending}").touch()
    with pytest.raises(StreamrfError, match=rf"empty\.{ending} {words}"):
        srf.open_source(f"{url}/empty.{ending}", y="y")


@pytest.mark.parametrize(
    ("path", "words"), [("/closed", "cannot be reached: 403"), ("/lost", "there is no file")]
)
def test_of_a_url_with_a_query_the_cause_is_told(path, words, url):
    """fsspec looks for a pattern in it, so that the server's answer is the cause of a cause."""
    address = f"{url}{path}/rows.csv?key=secret"
    with pytest.raises(SourceNotFoundError, match=words) as error:
        srf.open_source(address, y="y")
    assert "secret" not in "".join(traceback.format_exception(error.value))


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(
        SourceNotFoundError, match=r"127\.0\.0\.1:9/a\.csv cannot be reached: Cannot conn"
    ):
        srf.open_source("http://127.0.0.1:9/a.csv", y="y")


@pytest.mark.parametrize("name", ["http://host/a.csv", "http://host/*.csv"])
def test_a_package_that_is_missing_is_named(monkeypatch, name):
    import fsspec

    def missing(*arguments, **options):
        raise ImportError("HTTPFileSystem requires aiohttp")

    monkeypatch.setattr(fsspec, "open", missing)
    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(MissingPackageError, match=r"requires aiohttp: pip install 'streamrf\[http"):
        srf.open_source(name, y="y")


@pytest.mark.parametrize("name", ["rows.csv", "missing.csv"])
def test_passwords_and_signatures_stay_out_of_files_and_messages(name, url, tmp_path):
    """Statistics are handed on."""
    address = url.replace("://", "://me:hunter2@") + f"/{name}?sig=SIGNED77"
    try:
        sums = srf.accumulate(srf.open_source(address, y="y"), srf.Identity(), random_state=0)
    except SourceNotFoundError as error:
        found = str(error).encode()
    else:
        sums.save(tmp_path / "sums.h5")
        found = (tmp_path / "sums.h5").read_bytes()
    assert b"hunter2" not in found
    assert b"SIGNED77" not in found
    assert name.encode() in found


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ftp://me:se@cret@host/a.csv", "ftp://me@host/a.csv"),
        ("abfs://monday@account/a.csv", "abfs://monday@account/a.csv"),
        ("github://org:repo@main/a.csv", "github://org:repo@main/a.csv"),
        ("s3://store/a#1?.csv", "s3://store/a#1?.csv"),
        ("http://host:80/a@b.csv", "http://host:80/a@b.csv"),
        ("https://me:se/cr?e#t@host/a.csv?k=1", "https://host/a.csv"),
        ("https://token:@host/a.csv", "https://host/a.csv"),
        ("simplecache::http://token:x-oauth-basic@h/a.csv", "simplecache::http://h/a.csv"),
        ("https://token@host/a@b.csv#top", "https://host/a@b.csv"),
        ("zip://a?b.csv::https://h/x.zip?k=a::b", "zip://a?b.csv::https://h/x.zip"),
    ],
)
def test_names_of_urls_keep_what_tells_files_apart(name, shown):
    assert bare(name) == shown


@pytest.mark.parametrize("opened_by", [srf.HDF5Source, srf.open_source])
def test_urls_of_files_that_are_read_from_disks_alone_are_told(opened_by):
    with pytest.raises(ParameterError, match=r"https://host/a\.h5 is a URL") as told:
        opened_by("https://me:hunter2@host/a.h5?sig=SIGNED77")
    assert "SIGNED77" not in str(told.value)


def test_names_at_urls_may_hold_signs_of_patterns(folder):
    memory = fsspec.filesystem("memory")
    rows = (folder / "rows.csv").read_bytes()
    short = b"".join(rows.splitlines(keepends=True)[:11])
    for name, content in (("a[1].csv", short), ("a1.csv", rows), ("b#1.csv", short)):
        memory.pipe(f"/signs/{name}", content)
    assert srf.open_source("memory://signs/a[1].csv", y="y").n_rows == 10
    several = srf.open_source("memory://signs/?[#1][1.]*csv", y="y")
    assert [store.where for store in several.stores] == [
        f"memory://signs/{name}" for name in ("a1.csv", "b#1.csv")
    ]


@pytest.mark.parametrize("names", ["no*.csv?sig=TOK", ["a.csv?sig=TOK", "a.parquet?sig=TOK"]])
def test_patterns_and_lists_show_no_secrets(names):
    many = isinstance(names, list)
    address = "memory://me:secret@host/"
    urls = [address + name for name in names] if many else address + names
    with pytest.raises(StreamrfError) as told:
        srf.open_source(urls, y="y")
    assert "TOK" not in str(told.value)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("name", ["zip://{}::file://{}", "simplecache::zip://{}::{}"])
def test_files_in_archives_are_read_alone_and_by_patterns(folder, tmp_path, name):
    archive = tmp_path / "all.zip"
    with ZipFile(archive, "w") as file:
        for copy in ("in/1.csv", "in/2.csv"):
            file.write(folder / "rows.csv", copy)
        file.write(folder / "rows.parquet", "in/1.parquet")
    for inside in ("in/1.csv", "in/1.parquet"):
        found = summed(srf.open_source(name.format(inside, archive), y="y"))
        expected = summed(srf.open_source(str(folder / "rows.csv"), y="y"))
        assert_same_bytes(found["sums"], expected["sums"])
    both = srf.open_source(name.format("in/*.csv", archive), y="y")
    assert both.n_rows == 2 * TABLE.num_rows
    assert [store.where for store in both.stores] == [
        name.format(f"in/{number}.csv", archive) for number in (1, 2)
    ]


def test_what_closing_a_file_raises_is_of_no_row(folder):
    """As of fsspec's blockcache on local files: the rows are read by then."""

    class Stubborn(io.BytesIO):
        def close(self):
            super().close()
            raise AttributeError("property 'closed' has no setter")

    class Store(fsspec.implementations.memory.MemoryFileSystem):
        protocol = "stubborn"

        def _open(self, path, mode="rb", **options):
            return Stubborn((folder / "rows.csv").read_bytes())

    fsspec.register_implementation("stubborn", Store, clobber=True)
    fsspec.filesystem("memory").pipe("/rows.csv", b"is there")
    found = summed(srf.open_source("stubborn://rows.csv", y="y"))
    expected = summed(srf.open_source(str(folder / "rows.csv"), y="y"))
    assert_same_bytes(found["sums"], expected["sums"])


def test_files_that_a_pattern_matches_keep_their_host(folder):
    class Hosted(fsspec.implementations.memory.MemoryFileSystem):
        """Leaves the host out of its paths, as that of ftp does."""

        protocol = "hosted"

        @classmethod
        def _strip_protocol(cls, path):
            if "://" in path:
                path = path.partition("://")[2].partition("/")[2]
            return super()._strip_protocol(f"/{path.lstrip('/')}")

        @classmethod
        def _get_kwargs_from_urls(cls, path):
            return {"host": path.partition("://")[2].partition("/")[0]}

        def __init__(self, host, **options):
            super().__init__(**options)

    fsspec.register_implementation("hosted", Hosted, clobber=True)
    fsspec.filesystem("memory").pipe("/d/1.csv", (folder / "rows.csv").read_bytes())
    source = srf.open_source("hosted://me@there/d/*.csv", y="y")
    assert source.n_rows == TABLE.num_rows
    assert [store.where for store in source.stores] == ["hosted://me@there/d/1.csv"]


def test_folders_that_a_pattern_of_a_url_matches_are_columns(folder):
    memory = fsspec.filesystem("memory")
    for year in (2023, 2024):
        memory.pipe(f"/sales/year={year}/a.parquet", (folder / "rows.parquet").read_bytes())
    for name in ("memory://sales/year=*/a.parquet", "simplecache::memory://sales/*/a.parquet"):
        columns = srf.open_source(name, y="y").columns.columns
        assert [column.name for column in columns][-1] == "year"


def test_folders_among_what_a_pattern_of_a_url_matches_are_told(folder, url):
    memory = fsspec.filesystem("memory")
    for name in ("/mixed/a.csv", "/mixed/in/b.csv"):
        memory.pipe(name, (folder / "rows.csv").read_bytes())
    with pytest.raises(SourceNotFoundError, match=r"'/mixed/in', which .* is a folder"):
        srf.open_source("memory://mixed/*", y="y")
    assert srf.open_source("memory://mixed/**", y="y").n_rows == 2 * TABLE.num_rows
    assert srf.open_source(f"{url}/rows.p*", y="y").n_rows == TABLE.num_rows  # by its listing


@pytest.mark.parametrize("log", ["_delta_log/0.json", "metadata/1.metadata.json"])
def test_tables_of_other_kinds_at_urls_are_refused(folder, log):
    memory = fsspec.filesystem("memory")
    for name in ("a.parquet", "year=1/b.pq"):
        memory.pipe(f"/table{log[0]}/{name}", (folder / "rows.parquet").read_bytes())
    memory.pipe(f"/table{log[0]}/{log}", b"{}")
    for pattern in ("*.parquet", "year=*/*.pq"):
        with pytest.raises(DataError, match="is a table of"):
            srf.open_source(f"memory://table{log[0]}/{pattern}", y="y")


def test_a_server_that_sends_nothing_is_told():
    class Stalled(io.BytesIO):
        size = 100

        def read(self, size=-1):
            raise FSTimeoutError

        def open(self):
            return self

    with pytest.raises(CorruptFileError, match=r"^rows\.csv cannot be read: its server sent noth"):
        urls._Remote(Stalled(), "rows.csv").read(10)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("kind", ["time", "tag"])
def test_a_file_that_is_exchanged_while_it_is_read_is_told(kind, ending, folder, url, monkeypatch):
    """One of the same length was mixed in silence."""
    path = folder / f"exchanged.{ending}"
    X = np.random.default_rng(0).choice([1.5, 2.5, 3.5], (5000, 4))
    first, other = (columns_of(rows, np.arange(5000) % 2) for rows in (X, X[::-1]))
    write = write_csv if ending == "csv" else pyarrow.parquet.write_table
    tables = [pyarrow.table(columns) for columns in (other, first)]
    if kind == "tag":
        monkeypatch.setattr(Handler, "end_headers", _tagged)
    contents = []
    for table in tables:
        write(*((path, table) if ending == "csv" else (table, path)))
        contents.append(path.read_bytes())
    assert len(contents[0]) == len(contents[1])
    features = srf.Identity()
    os.utime(path, (1e9, 1e9))
    source = srf.open_source(f"{url}/exchanged.{ending}", y="y")

    def exchange(n_rows):
        path.write_bytes(contents[0])
        if kind == "tag":  # else now
            os.utime(path, (1e9, 1e9))

    settings = {"task": "classification", "memory_limit": "4 GiB"}
    assert srf.accumulate(source, features, **settings).n_rows == 5000
    with pytest.raises(ChangedFileError, match=f"exchanged.{ending} was written to while"):
        srf.accumulate(source, features, progress=exchange, **settings)


def _tagged(handler):
    """Send a tag of the file's bytes, and no time, with all headers."""
    with suppress(OSError), open(handler.translate_path(handler.path), "rb") as file:
        handler.send_header("ETag", f'"{hash(file.read())}"')
    BaseHTTPRequestHandler.end_headers(handler)


def test_servers_that_cannot_be_asked_are_of_no_matter(url):
    for name in (f"{url}/nothing.csv", f"{url}/broken/rows.csv", "what://is/this.csv"):
        assert urls.state_at(name) == ""


@pytest.mark.parametrize(
    "told",
    [
        lambda n: {"ETag": f'"{n % 3}"'},  # of several servers
        lambda n: {"ETag": f'{"W/" * (n % 2)}"one{"-gzip" * (n % 3 == 0)}"'},
        lambda n: {"ETag": '"one"', "Last-Modified": f"Sun, 06 Nov 1994 08:49:{n:02} GMT"},
        lambda n: {"Last-Modified": formatdate(time.time() + n, usegmt=True)},  # of the answer
    ],
)
def test_what_servers_tell_of_files_that_are_the_same_is_of_no_matter(told, url, monkeypatch):
    answers = iter(range(60))

    def end_headers(handler):
        for name, value in told(next(answers)).items():
            handler.send_header(name, value)
        BaseHTTPRequestHandler.end_headers(handler)

    monkeypatch.setattr(Handler, "end_headers", end_headers)
    source = srf.open_source(f"{url}/rows.parquet", y="y")
    assert srf.accumulate(source, srf.Identity(), task="classification").n_rows == 600


def test_an_exchanged_file_is_told_without_secrets(folder, url, monkeypatch):
    answers = iter(range(1000))

    def end_headers(handler):
        handler.send_header("ETag", f'"{next(answers)}"')
        BaseHTTPRequestHandler.end_headers(handler)

    monkeypatch.setattr(Handler, "end_headers", end_headers)
    secret = url.replace("http://", "http://me:secret@")
    source = srf.open_source(f"{secret}/rows.csv?key=secret", y="y")
    with pytest.raises(ChangedFileError, match=r"rows\.csv was written to") as caught:
        srf.accumulate(source, srf.Identity(), task="classification")
    assert "secret" not in str(caught.value)
    cached = srf.open_source(f"simplecache::{url}/rows.csv", y="y")  # which is read from a copy
    assert srf.accumulate(cached, srf.Identity(), task="classification").n_rows == 600


def test_servers_that_do_not_answer_are_not_waited_for(folder, url, monkeypatch):
    done = threading.Event()

    def do_head(handler):
        done.wait(30)
        SimpleHTTPRequestHandler.do_HEAD(handler)

    os.utime(folder / "rows.csv", (1e9, 1e9))
    assert urls.state_at(f"{url}/rows.csv") == "Sun, 09 Sep 2001 01:46:40 GMT"
    monkeypatch.setattr(urls, "_ASK_SECONDS", 0.2)
    monkeypatch.setattr(Handler, "do_HEAD", do_head)
    assert urls.state_at(f"{url}/rows.csv") == ""
    done.set()
