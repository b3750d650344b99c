"""What a run will hold is said before the first row is read."""

import re
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import dask.array as da
import numba
import numpy as np
import psutil
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

import streamrf as srf
from integers import accumulate, assert_same_bytes, features
from streamrf.engine import RunOptions
from streamrf.errors import MemoryBudgetError, ParameterError
from streamrf.estimators import crossvalidation
from streamrf.sources import parquet_files
from streamrf.sources.parquet_files import open_parquet
from streamrf.sources.table_parts import detached
from streamrf.statistics.gram import CompactGram, ExactGram, FloatGram
from streamrf.training import memory
from streamrf.training.accumulation import begin
from streamrf.training.job import Job
from streamrf.training.memory import (
    WORD_BYTES,
    Sizes,
    parse_bytes,
    plan,
    room_to_peek,
    worker_plan,
)
from streamrf.training.peeking import peek
from streamrf.training.settings import Settings

WIDTH = 20_000  # the totals of so many components alone are 1.5 GiB


class UnreadSource(srf.ArraySource):
    """Rows that must not be read: only the calibration may look at some."""

    def blocks(self, *args, **options):
        raise AssertionError("a block was asked for")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 3)), rng.integers(0, 3, 200)


@pytest.mark.parametrize("precision", ["exact", "float64"])
@pytest.mark.parametrize("regression", [False, True])
def test_too_small_a_budget_is_refused_before_the_first_block(rows, precision, regression):
    source = UnreadSource(*rows)
    with pytest.raises(
        MemoryBudgetError, match=r"3000 components need about .* limit of 380.00 MiB"
    ):
        srf.accumulate(
            source,
            features(3000),
            memory_limit="380 MiB",
            precision=precision,
            regression=regression,
        )


@pytest.mark.parametrize("alpha", ["auto", 1.0])
def test_estimators_keep_to_the_budget(rows, alpha):
    model = srf.RandomFeatureClassifier(features(3000), alpha=alpha, memory_limit="400 MiB")
    with pytest.raises(MemoryBudgetError, match=r"n_components=\d+ would fit, or raise memory_lim"):
        model.fit(UnreadSource(*rows))


def test_a_budget_error_is_a_memory_error(rows):
    with pytest.raises(MemoryError):
        srf.accumulate(UnreadSource(*rows), features(8), memory_limit=1)


def test_the_width_that_a_budget_error_names_fits(rows):
    limit = "400 MiB"
    with pytest.raises(MemoryBudgetError) as caught:
        srf.accumulate(srf.ArraySource(*rows), features(3000), memory_limit=limit)
    width = int(re.search(r"n_components=(\d+) would fit", str(caught.value))[1])
    statistics = srf.accumulate(srf.ArraySource(*rows), features(width), memory_limit=limit)
    assert statistics.n_rows == 200


def refusal(call) -> str:
    """The message of a budget error, or nothing."""
    try:
        call()
    except MemoryBudgetError as error:
        return str(error)
    return ""


LIMITS = st.integers(memory.INTERPRETER_BYTES // 2, 2**36)
SIZES = {
    "n_features": st.integers(1, 5000),
    "n_outputs": st.integers(1, 500),
    "gram": st.sampled_from([CompactGram, ExactGram, FloatGram]),
    "in_place": st.booleans(),
    "held_bytes": st.sampled_from([0, 64 << 20]),
    "spare_totals": st.sampled_from([0, 4]),
}


@given(LIMITS, st.fixed_dictionaries({"n_components": st.integers(1, 10**6), **SIZES}))
def test_a_plan_fits_its_budget_or_names_what_does(limit, sizes):

    def planned(width):
        return plan(Sizes(**{**sizes, "n_components": width}), limit)

    width = sizes["n_components"]
    message = refusal(lambda: planned(width))
    if "no width fits, as Python itself takes about 350 MiB" in message:
        assert refusal(lambda: planned(1))
        return
    if message:
        width = int(re.search(r"n_components=(\d+) would fit", message)[1])
        assert width < sizes["n_components"]
        # not much less than what fits: widths go down by 2 % at a time
        assert refusal(lambda: planned(int(width * 1.03) + 2))
    found = planned(width)
    assert found.total_bytes <= limit
    assert memory.MIN_ROWS <= found.block_rows <= 32_768


@pytest.mark.parametrize(
    ("width", "n_rows"), [(1, 32_768), (100, 32_768), (512, 8107), (1024, 4096), (16_384, 4096)]
)
def test_narrow_rows_come_in_larger_blocks(width, n_rows):
    assert plan(Sizes(width, 1, 0), "8 GiB").block_rows == n_rows
    for sizes in Sizes(1, width, 1), Sizes(1, 1, width):
        found = plan(sizes, "8 GiB").block_rows
        assert found == min(32_768, max(4096, (24 << 20) // sizes.row_bytes)) <= n_rows


@given(LIMITS, LIMITS, st.fixed_dictionaries({"n_components": st.integers(1, 3000), **SIZES}))
def test_more_memory_never_means_smaller_blocks(a, b, sizes):
    less, more = sorted((a, b))
    if refusal(lambda: plan(Sizes(**sizes), less)):
        return
    smaller, larger = (plan(Sizes(**sizes), limit) for limit in (less, more))
    assert smaller.block_rows <= larger.block_rows


def test_outputs_of_many_classes_are_planned():
    sizes = {"n_components": 512, "n_features": 10, "scored_rows": 10_000}
    few, bits, many = (
        plan(Sizes(**sizes, n_outputs=n_outputs, n_classes=n_classes), "9 GiB").total_bytes
        for n_outputs, n_classes in ((10, 10), (10, 3000), (3000, 3000))
    )
    assert many - bits > 2 * 8 * 3000 * 10_000  # outputs of a model, and what decides on them
    assert bits - few > 2 * 8 * 3000 * 10_000  # a score of each class
    match = (
        r"no width fits, as Python .*, and outputs of the rows held out, of 3,000 classes, 1\.\d"
    )
    with pytest.raises(MemoryBudgetError, match=match):
        plan(Sizes(**sizes, n_outputs=3000, n_classes=3000), "900 MiB")


def test_long_labels_are_read_in_fewer_rows():
    X, y = np.linspace(0, 1, 40_000).reshape(20_000, 2), np.arange(20_000) % 3
    long = np.array([letter * 2000 for letter in "abc"])

    def most_rows(labels, **options):
        settings = Settings(**({"features": features(16)} | options))
        job = Job.of(srf.ArraySource(X, labels), settings)
        return job.plan(begin(job)).block_rows

    assert most_rows(long[y]) < 5000 < most_rows(y)
    assert most_rows(long[y], classes=long) < 5000
    earlier = srf.accumulate(srf.ArraySource(X, long[y]), features(16))
    assert most_rows(long[y], features=None, like=earlier) < 5000


def test_statistics_alone_are_not_refused_for_a_code_book():
    """Which `solve` makes later."""
    labels = np.arange(4000).astype(str)
    source = srf.ArraySource(np.linspace(0, 1, 8000).reshape(4000, 2), labels)
    srf.accumulate(source, features(16), classes=np.unique(labels), memory_limit="400 MiB")
    machine = srf.RandomFeatureClassifier(features(16), alpha=1.0, memory_limit="400 MiB")
    with pytest.raises(MemoryBudgetError, match="and codewords, of 4,000 classes"):
        machine.fit(source)


def test_code_books_of_many_classes_are_planned():
    """One number for each class and bit, which workers have of codes that may be summed by bit."""
    sizes = Sizes(64, 4, 5000, 5000, n_rows=1000, bit_bytes=WORD_BYTES)
    book = WORD_BYTES * 5000**2
    assert sizes.min_bytes - replace(sizes, bit_bytes=0).min_bytes > 0.9 * book
    assert worker_plan(sizes, {}).total_bytes < plan(sizes, "1 GiB").total_bytes - 0.4 * book
    with pytest.raises(MemoryBudgetError, match=r"and codewords, of 5,000 classes, 238\.4"):
        plan(sizes, "450 MiB")
    searched = replace(sizes, bit_bytes=memory.SEARCHED_BYTES)
    assert worker_plan(searched, {}).total_bytes > worker_plan(sizes, {}).total_bytes + 2 * book
    tracemalloc.start()
    try:
        for codes in (srf.OneVsRest(), srf.ErrorCorrectingCodes(900)):
            tracemalloc.reset_peak()
            matrix = codes.book(1000).matrix
            n_bytes = memory.bit_bytes(codes, solves=True) * matrix.size
            assert tracemalloc.get_traced_memory()[1] < 1.1 * n_bytes
        learnt = srf.OneVsRest("discriminant")
        assert n_bytes < memory.bit_bytes(learnt, solves=True) * matrix.size
        assert memory.bit_bytes(codes, solves=False) > 0 == memory.bit_bytes(learnt, solves=False)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("n_classes", [40, 3000])
def test_classes_that_come_later_are_told_where_they_do_not_fit(n_classes, recwarn):
    X, labels = np.linspace(0, 1, 80_000).reshape(40_000, 2), np.arange(40_000) % n_classes
    labels[:20_000] %= 20  # those looked at before the pass
    blocks = ((X[i : i + 4000], labels[i : i + 4000]) for i in range(0, 40_000, 4000))
    source = srf.IteratorSource(blocks)
    srf.accumulate(source, features(64), hold_out=True, memory_limit="800 MiB")
    told = [str(warning.message) for warning in recwarn]
    assert len(told) == (n_classes == 3000)
    assert all("more classes came than the rows looked at before had" in text for text in told)
    assert all("of 3,000 classes" in text for text in told)


@pytest.mark.parametrize("codes", [None, srf.ErrorCorrectingCodes(n_bits=20)])
def test_classes_of_the_rows_looked_at_are_planned_for_before_the_pass(codes):
    """Without classes=, which tells them; agreed bits need less of them."""
    X, labels = np.linspace(0, 1, 6000).reshape(3000, 2), np.arange(3000)
    machine = srf.RandomFeatureClassifier(features(64), random_state=0, codes=codes)
    machine.set_params(memory_limit="450 MiB")
    machine.fit(srf.ArraySource(X, labels % 10))
    if codes is not None:
        machine.fit(srf.ArraySource(X, labels % 1000))
        return
    with pytest.raises(MemoryBudgetError, match="rows held out, of 3,000 classes"):
        machine.fit(UnreadSource(X, labels.astype(str)))


def test_few_rows_of_many_columns_take_the_memory_of_few_rows():
    few, many = (plan(Sizes(64, 50_000, 2, n_rows=n), "1 TiB").total_bytes for n in (50, None))
    assert few < memory.INTERPRETER_BYTES + (200 << 20) < many
    X = np.random.default_rng(0).standard_normal((50, 100_000), dtype=np.float32)
    clf = srf.RandomFeatureClassifier(features(64), memory_limit="620 MiB")
    assert clf.fit(X, X[:, 0] > 0).score(X, X[:, 0] > 0) > 0.5
    clf.set_params(memory_limit="400 MiB")
    with pytest.raises(MemoryBudgetError, match=r"and rows of 100,000 columns .*: raise memory"):
        clf.fit(X, X[:, 0] > 0)


def test_what_a_choice_of_features_takes_of_many_columns_is_planned():
    X = np.zeros((1000, 20_000), np.float32)
    source = srf.ArraySource(X, np.arange(1000) % 2)
    settings = Settings(features=features(512)), Settings(features="auto", n_components=512)
    run = RunOptions(memory_limit="4 GiB")
    known, chosen = (Job.of(source, each, run).plan().total_bytes for each in settings)
    assert known < 2**30 < chosen  # 1.17 GiB were measured


def test_what_the_maps_that_are_tried_leave_loaded_is_planned():
    """369 MiB were measured where 361 were planned."""
    known, chosen = (Sizes(512, 30, 3, peeked_rows=n).min_bytes for n in (0, 2000))
    assert chosen - known >= memory.CHOICE_BYTES
    with pytest.raises(MemoryBudgetError, match="as Python itself takes about 390 MiB"):
        plan(Sizes(512, 30, 3, peeked_rows=2000), "330 MiB")


def test_clusters_keep_to_their_limit():
    X = np.random.default_rng(0).normal(size=(5000, 20))
    clusters = srf.RandomFeatureKMeans(3, features(1024), memory_limit="390 MiB", random_state=0)
    with pytest.raises(MemoryBudgetError, match=r"k-means with 1024 .* limit of 390\.00 MiB"):
        clusters.fit(X)
    assert len(np.unique(clusters.set_params(memory_limit="420 MiB").fit(X).predict(X))) == 3


def test_clusters_of_sparse_rows_are_planned_the_rows_that_are_dense():
    rows = scipy.sparse.random_array((300, 5000), density=0.01, rng=np.random.default_rng(0))
    clusters = srf.RandomFeatureKMeans(3, features(64), memory_limit="550 MiB", random_state=0)
    with pytest.raises(MemoryBudgetError, match=r"k-means with 64 .* limit of 550\.00 MiB"):
        clusters.fit(rows.tocsr())
    found = clusters.set_params(memory_limit="900 MiB").fit(rows.tocsr())
    assert len(found.predict(rows.tocsr())) == 300


def test_a_choice_of_features_has_room_for_what_its_source_holds():
    alone = room_to_peek(100, "1 GiB")
    assert room_to_peek(100, "1 GiB", memory.BUFFER_BYTES) == alone
    held = memory.BUFFER_BYTES + 400_000 * memory.PEEK_VALUE_BYTES
    assert room_to_peek(100, "1 GiB", held) == alone - 4000
    assert room_to_peek(100, "1 GiB", 0, 125) == alone // 2  # as large as the columns


def test_a_plan_counts_what_is_held():
    """Two float64 packed matrices, where BLAS multiplies a float32 one, and a block of features."""
    packed = WIDTH * (WIDTH + 1) // 2
    found = plan(Sizes(WIDTH, 10, 10), "1 TiB")
    assert (
        found.total_bytes > packed * (16 + ExactGram.partial_bytes) + found.block_rows * WIDTH * 4
    )
    assert plan(Sizes(WIDTH, 10, 10, gram=FloatGram), "1 TiB").total_bytes > packed * 16
    held = plan(Sizes(WIDTH, 10, 10, held_bytes=1000), "1 TiB")
    assert held.total_bytes == found.total_bytes + 1000


def test_what_drawing_a_map_takes_is_planned_where_it_is_more_than_its_sums(rows):
    """863 MiB were measured where 594 were planned."""
    found, larger = (plan(Sizes(WIDTH, 10, 10, drawing_bytes=n), "1 TiB") for n in (0, 1 << 39))
    assert plan(Sizes(WIDTH, 10, 10, drawing_bytes=1 << 20), "1 TiB") == found
    assert larger.total_bytes > 1 << 39
    machine = srf.RandomFeatureClassifier(srf.Nystroem(n_components=4096), memory_limit="600 MiB")
    told = r"4096 components need about 7.* limit of 600\.00 MiB; n_components=3\d\d\d would fit"
    with pytest.raises(MemoryBudgetError, match=told):
        machine.fit(*rows)


def test_landmarks_are_planned_for_the_threads_that_compute():
    n_threads, features = numba.config.NUMBA_NUM_THREADS, srf.Nystroem(n_components=256)
    one, all_ = (memory.drawing_bytes(features, 5000, 50, n) for n in (1, n_threads))
    assert all_ - one == 10 * 256 * 5000 * (n_threads - 1)
    assert one == memory.drawing_bytes(features, 5000, None, 1) - 8 * 5000 * (
        64 * 2**20 // 20_000 - 50
    )


@pytest.mark.parametrize("warp", [None, "full"])
def test_rows_of_a_stream_that_are_looked_at_are_planned(warp):
    """478 MiB were measured where 396 were planned; with a warp 685 where 493 were."""
    X, y = np.zeros((30_000, 1000), np.float32), np.arange(30_000) % 2
    settings = Settings(features=features(256), warp=warp)
    run = RunOptions(memory_limit="474 MiB" if warp is None else "680 MiB")
    stream = srf.IteratorSource(lambda: iter([(X, y)]))
    with pytest.raises(MemoryBudgetError, match=r"rows of 1,000 columns|held of the source"):
        Job.of(stream, settings, run).plan()
    if warp is None:
        assert Job.of(srf.ArraySource(X, y), settings, run).plan()


def test_a_small_budget_changes_the_blocks_and_not_the_sums(rows):
    X = np.tile(rows[0], (30, 1)) + np.arange(6000)[:, np.newaxis]
    source = srf.ArraySource(X, np.tile(rows[1], 30))
    limit = memory.INTERPRETER_BYTES + memory.BUFFER_BYTES + (1 << 20)
    assert plan(Sizes(64, 3, 32), limit).block_rows < 4096
    small = srf.accumulate(source, features(64), memory_limit=limit)
    assert_same_bytes(small.to_tree(), accumulate(source, features(64)).to_tree())


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        (1, 1),
        (12_345, 12_345),
        (1.5e9, 1_500_000_000),
        ("4096", 4096),
        ("900MB", 900_000_000),
        ("900 MB", 900_000_000),
        ("  2 GiB ", 2 * 2**30),
        ("2gib", 2 * 2**30),
        ("0.5 KiB", 512),
        ("1.5 tb", 1_500_000_000_000),
        ("1e3 kB", 1_000_000),
        ("7 B", 7),
    ],
)
def test_sizes_are_read(text, n_bytes):
    assert parse_bytes(text) == n_bytes


@pytest.mark.parametrize("unit", ["", "B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"])
@given(st.integers(1, 10**6))
def test_every_unit_is_read(unit, number):
    base, power = (1024 if "i" in unit else 1000), "BKMGT".find(unit[:1]) if unit else 0
    assert parse_bytes(f"{number} {unit}") == number * base**power


@pytest.mark.parametrize(
    "text",
    [
        *("", "lots", "2 XB", "GB", "1 GBB", "MB 3", "1,000", "2 G B", "nan", "inf", "-inf MB"),
        *([], {}, True, b"1 GB"),
    ],
)
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ParameterError, match="memory_limit must be bytes or a string such as") as e:
        parse_bytes(text)
    assert str(e.value).endswith(f"got {text!r}")


@pytest.mark.parametrize("text", [0, -5, "0 GB", "-1 GiB", float("nan"), float("inf")])
def test_a_size_that_is_no_budget_is_refused(text):
    with pytest.raises(ParameterError, match="must be positive and finite") as caught:
        parse_bytes(text)
    assert str(caught.value).endswith(f"got {text!r}")


def test_no_limit_means_four_fifths_of_what_is_free(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    assert parse_bytes(None) == 800


def test_a_plan_counts_the_target_sums_of_every_fold():
    def bytes_per_output(n_folds):
        one, more = (
            plan(Sizes(WIDTH, 10, n_outputs, n_folds=n_folds), "1 TiB") for n_outputs in (1, 101)
        )
        return (more.total_bytes - one.total_bytes) / 100

    assert bytes_per_output(5) - bytes_per_output(0) == 5 * WIDTH * 8


class Sampled(srf.ArraySource):
    """Rows that note how many are looked at."""

    def sample(self, n_rows):
        self.n_looked = n_rows
        return super().sample(n_rows)


@pytest.mark.parametrize(
    ("limit", "n_rows"), [("8 GiB", 20_000), ("570 MiB", 10_485), ("490 MiB", 2000)]
)
def test_a_tournament_looks_at_as_many_rows_as_there_is_memory_for(limit, n_rows):
    source = Sampled(np.zeros((30_000, 200), np.float32), np.arange(30_000) % 2)
    peek(source, limit)
    assert source.n_looked == n_rows


@pytest.mark.parametrize("kind", ["dask", "zarr"])
def test_large_chunks_are_planned_for(kind, tmp_path):
    X, y = np.ones((20_000, 1000), np.float32), np.arange(20_000) % 2  # 76 MiB
    if kind == "dask":
        source = srf.DaskArraySource(da.from_array(X, chunks=(20_000, 10)), y)
    else:
        group = pytest.importorskip("zarr").open_group(tmp_path / "one.zarr", mode="w")
        group.create_array("X", data=X, chunks=X.shape)
        group.create_array("y", data=y)
        source = srf.open_source(tmp_path / "one.zarr", y="y")
    assert source.buffer_bytes >= 2 * X.nbytes
    with pytest.raises(MemoryBudgetError, match="held of the source and the map at once"):
        srf.accumulate(source, srf.Identity(), memory_limit="440 MiB")


def test_ranges_of_one_arrow_batch_share_its_memory(tmp_path):
    path = tmp_path / "one.arrow"
    table = pa.table({"a": np.arange(50_000.0), "y": np.arange(50_000) % 2})
    feather.write_feather(table, path, compression="zstd", chunksize=50_000)
    file = parquet_files.open_arrow(str(path))
    ranges = [(0, 10), (20_000, 20_010), (49_990, 50_000)]
    parts = [part.column("a") for _, part in file.read(ranges, {"a": None}, 4096)]
    assert [part[0].as_py() for part in parts] == [start for start, _ in ranges]
    assert len({part.chunk(0).buffers()[1].address for part in parts}) == 1
    assert file.buffer_bytes >= 2 * table.nbytes


def test_slices_of_a_table_do_not_keep_all_of_it():
    table = pa.table({"x": np.arange(100_000.0), "word": pa.array(["a", None] * 50_000)})
    part = detached(table.slice(50_000, 10))
    assert part.equals(table.slice(50_000, 10))
    assert part.get_total_buffer_size() < 1000


def test_row_groups_of_parquet_are_let_go(tmp_path):
    """Their bytes are not kept until the last one is read."""
    rows = np.random.default_rng(0).normal(size=(40, 20_000))
    with parquet.ParquetWriter(tmp_path / "rows.parquet", pa.schema([("x", pa.float64())])) as file:
        for group in rows:
            file.write_table(pa.table({"x": group}))
    before, held = pa.total_allocated_bytes(), []
    for _ in srf.open_source(tmp_path / "rows.parquet").blocks(block_rows=5_000):
        held.append(pa.total_allocated_bytes() - before)
    assert len(held) == 160
    assert max(held) < rows.nbytes / 4


def test_columns_of_parquet_are_planned_for(tmp_path):
    few, many = (pa.table({f"x{i}": np.arange(2000.0) for i in range(n)}) for n in (2, 200))
    for table, name in ((few, "few.parquet"), (many, "many.parquet")):
        parquet.write_table(table, tmp_path / name)
        n_bytes = parquet.ParquetFile(tmp_path / name).metadata.row_group(0).total_byte_size
        assert open_parquet(str(tmp_path / name)).buffer_bytes == 4 * n_bytes
    X = np.arange(3e5)
    parquet.write_table(pa.table({"x": X}), tmp_path / "long.parquet", use_dictionary=False)
    assert X.nbytes < open_parquet(str(tmp_path / "long.parquet")).buffer_bytes < 6 * X.nbytes


def test_targets_that_are_many_values_are_planned_for():
    few, many, classes = (Sizes(64, 3, n, k, n_rows=200) for n, k in ((2, 0), (502, 0), (502, 502)))
    assert many.row_bytes == few.row_bytes + 8 * memory.TARGET_COPIES * 500
    assert classes.row_bytes == Sizes(64, 3, 2, 2).row_bytes
    text = Sizes(64, 3, 2, 2, label_bytes=1000)
    assert text.row_bytes == classes.row_bytes + 1000 * memory.LABEL_COPIES
    bits = Sizes(64, 3, 500, 502)  # codewords of the rows of a block, to be summed by bit
    assert bits.row_bytes == few.row_bytes + 8 * (
        memory.BIT_COPIES * 500 - memory.TARGET_COPIES * 2
    )
    assert bits.most_rows < few.most_rows


@pytest.mark.parametrize(("alpha", "cv"), [("auto", 3), (1.0, 20)])
def test_scores_by_fold_are_refused_before_their_solves_outgrow_the_limit(alpha, cv, monkeypatch):
    """They took up to a third more than the limit, as only the pass was planned."""
    X = np.random.default_rng(0).normal(size=(400, 6))
    clf = srf.RandomFeatureClassifier(features(600), alpha=alpha, random_state=0)
    clf.set_params(memory_limit="900 MiB")
    assert srf.cross_val_score(clf, X, X[:, 0] > 0, cv=cv).shape == (cv,)
    monkeypatch.setattr(crossvalidation, "INTERPRETER_BYTES", 895 << 20)
    with pytest.raises(MemoryBudgetError, match="a solve of 600 features and 2 outputs beside"):
        srf.cross_val_score(clf, X, X[:, 0] > 0, cv=cv)
