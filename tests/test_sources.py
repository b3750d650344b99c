"""What every source promises, run over all of them; then what only one kind promises."""

import ctypes
import inspect
import pickle
from dataclasses import replace

import h5py
import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from cases import SOURCES, arrivals, opened, write_hdf5
from streamrf.errors import ConsumedError, DatasetNotFoundError, MergeError, ParameterError
from streamrf.features import RandomFourier
from streamrf.sources import (
    ArraySource,
    Block,
    HDF5Source,
    IteratorSource,
    Source,
    TableSource,
    as_source,
    check_rows,
    open_source,
)
from streamrf.sources.derived import InOrder, Reread, RowsAlone
from streamrf.sources.fingerprints import fingerprint
from streamrf.sources.seekable import even_stretches
from streamrf.sources.weighted import Known, Renamed, Unlabelled
from streamrf.training import accumulate

N = 211  # prime, so that nothing divides it

every_source = pytest.mark.parametrize("case", SOURCES, ids=lambda case: case.name)


def rows_of(n=N, seed=0, dtype=np.float32, shape=(5,)):
    X = np.random.default_rng(seed).normal(scale=50, size=(n, *shape)).astype(dtype)
    X.flags.writeable = False
    return X


X = rows_of()
Y = np.arange(N) % 7
WEIGHTS = np.linspace(0.5, 2.0, N)
for _array in (Y, WEIGHTS):
    _array.flags.writeable = False


def joined(blocks):
    """X, y and weights of all blocks, None where the blocks have none."""
    columns = zip(*((block.X, block.y, block.weights) for block in blocks), strict=True)
    return [None if parts[0] is None else np.concatenate(parts) for parts in columns]


def assert_same(got, *expected):
    for have, want in zip(got, expected, strict=True):
        if want is None:
            assert have is None
        else:
            np.testing.assert_array_equal(have, want)


def final_classes(kind):
    """The library's classes below `kind` that are not abstract."""
    below = [c for c in kind.__subclasses__() if c.__module__.startswith("streamrf.")]
    return set().union(*map(final_classes, below)) | {c for c in below if not inspect.isabstract(c)}


def test_every_source_has_a_row():
    # Those which check targets, have others or none, or other keys.
    others = {Known, RowsAlone, Unlabelled, Renamed, Reread, InOrder}
    assert {case.kind for case in SOURCES} == final_classes(Source) - others


@every_source
def test_attributes_tell_what_the_rows_have(case, tmp_path):
    source = case.make(tmp_path, X, Y, case.weights(WEIGHTS))
    assert source.n_features == 5
    assert (source.has_targets, source.has_weights) == (True, case.is_weighted)
    assert source.n_rows == (N if source.seekable else None)
    bare = case.make(tmp_path, X)
    assert (bare.has_targets, bare.has_weights) == (False, False)
    assert_same(joined(bare.blocks()), X, None, None)


@every_source
@pytest.mark.parametrize("block_rows", [1, 7, 64, 4096])
def test_blocks_joined_are_the_rows(case, block_rows, tmp_path):
    source = case.make(tmp_path, X, Y, case.weights(WEIGHTS))
    for window in [(0, None), (0, N), (0, 50), (13, 170), (100, None), (60, 61)]:
        check_window(case, source, window, block_rows)
        if not source.seekable:
            source = case.make(tmp_path, X, Y, case.weights(WEIGHTS))


def check_window(case, source, window, block_rows):
    blocks = list(source.blocks(*window, block_rows=block_rows))
    rows = slice(*window)
    assert_same(joined(blocks), X[rows], Y[rows], case.weights(WEIGHTS[rows]))
    np.testing.assert_array_equal(
        np.concatenate([block.positions for block in blocks]), np.arange(N)[rows]
    )
    for block in blocks:
        assert 0 < len(block.X) == block.span <= block_rows
        assert block.kept is None
        assert block.X.flags.c_contiguous
    assert len({block.key for block in blocks}) <= case.stores


@pytest.mark.parametrize(
    "case",
    [case for case in SOURCES if case.kind is not TableSource and case.name != "libsvm"],
    ids=lambda case: case.name,
)
def test_a_column_of_targets_is_one_target_a_row(case, tmp_path):
    source = case.make(tmp_path, X, Y)
    expected = source.sample(50).y, joined(source.blocks())[1]
    column = case.make(tmp_path, X, Y[:, np.newaxis])
    assert_same((column.sample(50).y, joined(column.blocks())[1]), *expected)


def test_files_with_and_without_a_column_of_targets_are_alike(tmp_path):
    write_hdf5(tmp_path / "a.h5", X, Y)
    write_hdf5(tmp_path / "b.h5", X + 1, Y[:, np.newaxis])
    source = HDF5Source([tmp_path / "a.h5", tmp_path / "b.h5"])
    np.testing.assert_array_equal(joined(source.blocks())[1], [*Y, *Y])
    statistics = accumulate(source, RandomFourier(n_components=4, random_state=0))
    assert statistics.labels.tolist() == list(range(7))


@every_source
def test_a_window_at_the_end_is_empty(case, tmp_path):
    assert list(case.make(tmp_path, X, Y).blocks(N)) == []


@every_source
def test_rows_of_a_store_are_counted_from_its_start(case, tmp_path):
    blocks = list(case.make(tmp_path, X, Y).blocks(block_rows=16))
    starts = {}
    for block in blocks:
        first = starts.setdefault(block.key, block.position)
        assert block.row == block.position - first
    assert len(starts) == case.stores


@every_source
def test_the_key_is_the_content(case, tmp_path):
    block = next(iter(case.make(tmp_path, X, Y).blocks(block_rows=3)))
    other = rows_of(seed=1)
    stranger = next(iter(case.make(tmp_path, other, Y).blocks(block_rows=3)))
    assert block.key != stranger.key
    if case.stores == 1:
        assert block.key == fingerprint(X.astype(case.dtype or X.dtype))


@every_source
@pytest.mark.parametrize("n_rows", [1, 5, 40, 200, 210, N, 5000])
def test_a_sample_holds_rows_and_leaves_all_for_the_pass(case, n_rows, tmp_path):
    source = case.make(tmp_path, X, Y, case.weights(WEIGHTS))
    sample = source.sample(n_rows)
    places = sample.positions
    assert abs(len(places) - min(n_rows, N)) < 8
    assert (np.diff(places) > 0).all()
    weights = case.weights(WEIGHTS[places])
    assert_same((sample.X, sample.y, sample.weights), X[places], Y[places], weights)
    again = source.sample(n_rows)
    np.testing.assert_array_equal(again.X, sample.X)
    assert_same(joined(source.blocks()), X, Y, case.weights(WEIGHTS))


@every_source
def test_a_sample_of_a_seekable_source_reaches_both_halves(case, tmp_path):
    source = case.make(tmp_path, X, Y)
    if source.seekable:
        places = source.sample(64).positions
        assert 16 <= np.count_nonzero(places < N // 2) <= 48


@every_source
@pytest.mark.parametrize("parts", [1, 2, 3, 8, 10_000])
def test_split_covers_all_rows_once(case, parts, tmp_path):
    source = case.make(tmp_path, X, Y)
    if not source.seekable:
        with pytest.raises(ParameterError, match="an iterator cannot be split"):
            source.split(parts)
        return
    ranges = source.split(parts)
    assert 1 <= len(ranges) <= parts
    assert all(start < stop for start, stop in ranges)
    np.testing.assert_array_equal(np.concatenate([np.arange(*r) for r in ranges]), np.arange(N))
    blocks = [block for r in ranges for block in source.blocks(*r)]
    assert_same(joined(blocks), X, Y, None)


@every_source
def test_a_second_pass_gives_the_same_or_is_refused(case, tmp_path):
    source = case.make(tmp_path, X, Y)
    assert_same(joined(source.blocks()), X, Y, None)
    if case.passes == "many":
        assert_same(joined(source.blocks()), X, Y, None)
    else:
        for second in (source.blocks, lambda: source.sample(3)):
            with pytest.raises(ConsumedError, match="its rows come only once"):
                second()
        assert source.n_features == 5


@every_source
def test_a_source_pickles(case, tmp_path):
    source = case.make(tmp_path, X, Y, case.weights(WEIGHTS))
    source.sample(9)
    if case.passes == "one":
        with pytest.raises(ParameterError, match="cannot be sent to another process"):
            pickle.dumps(source)
        return
    copy = pickle.loads(pickle.dumps(source))
    assert_same(joined(copy.blocks()), X, Y, case.weights(WEIGHTS))
    assert_same(joined(source.blocks()), X, Y, case.weights(WEIGHTS))


TRAVELS = {
    "bool": "uint8",
    "uint8": "uint8",
    "int8": "int16",
    "int16": "int16",
    "float16": "float32",
    "float32": "float32",
    ">f4": "float32",
    "uint16": "float64",
    "int32": "float64",
    "int64": "float64",
    "float64": "float64",
}


@pytest.mark.parametrize(
    ("case", "given"),
    [(case, given) for case in SOURCES for given in TRAVELS if not case.dtype or given == "int8"],
    ids=lambda value: getattr(value, "name", value),
)
def test_rows_travel_in_four_dtypes(case, given, tmp_path):
    rows = np.abs(rows_of(dtype=np.float32)).clip(0, 100).astype(given)
    for block in case.make(tmp_path, rows, Y).blocks(block_rows=50):
        assert block.X.dtype == np.dtype(case.dtype or TRAVELS[given])
        np.testing.assert_array_equal(block.X, rows[block.positions])


@every_source
def test_higher_rank_is_flattened_row_by_row(case, tmp_path):
    images = rows_of(shape=(4, 3))
    source = case.make(tmp_path, images, Y)
    assert source.n_features == source.sample(10).X.shape[1] == 12
    assert_same(joined(source.blocks(block_rows=20)), images.reshape(N, 12), Y, None)
    has_shape = case.name.startswith(("hdf5", "array", "dask-a", "class", "npy", "zarr"))
    has_shape = has_shape and case.kind is not TableSource
    assert source.row_shape == (4, 3) if has_shape else source.row_shape in ((4, 3), (12,), ())


@every_source
@pytest.mark.parametrize(
    "y",
    [
        np.array(["cat", "dog", "ünïcorn"])[Y % 3],
        Y.astype(np.float32) / 3,
        np.stack([Y, Y + 0.5], axis=1),
        Y.astype(np.int8),
        Y > 3,
    ],
    ids=["strings", "floats", "two targets", "int8", "bool"],
)
def test_targets_keep_their_values_and_kind(case, y, tmp_path):
    if not case.takes(y):
        return
    got = joined(case.make(tmp_path, X, y).blocks(block_rows=30))[1]
    np.testing.assert_array_equal(got, y)
    assert got.dtype.kind == y.dtype.kind
    np.testing.assert_array_equal(np.unique(case.make(tmp_path, X, y).sample(N).y), np.unique(y))


# HDF5


def open_files():
    return h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE)


def test_no_file_is_open_but_while_blocks_are_read(tmp_path):
    before = open_files()
    source = HDF5Source(write_hdf5(tmp_path / "a.h5", X, Y, chunks=(10, 5)))
    blocks = source.blocks(block_rows=10)
    assert open_files() == before
    next(blocks)
    assert open_files() == before + 1
    blocks.close()
    assert open_files() == before
    source.sample(20)
    list(source.blocks())
    assert open_files() == before


def test_blocks_end_on_chunk_borders(tmp_path):
    source = HDF5Source(write_hdf5(tmp_path / "a.h5", X, Y, chunks=(10, 5)))
    assert [b.span for b in source.blocks(block_rows=45)] == [40, 40, 40, 40, 40, 11]
    assert [b.span for b in source.blocks(14, 100, block_rows=45)] == [36, 40, 10]
    # a chunk that does not fit is cut into equal pieces
    assert [b.span for b in source.blocks(0, 30, block_rows=9)] == [5] * 6
    assert [b.span for b in source.blocks(7, 25, block_rows=9)] == [3, 5, 5, 5]


def test_split_and_sample_begin_on_chunk_borders_of_each_file(tmp_path):
    paths = [
        write_hdf5(tmp_path / f"{i}.h5", rows_of(n, i), chunks=(c, 5))
        for i, (n, c) in enumerate([(95, 10), (400, 16), (33, 4)])
    ]
    source = HDF5Source(paths, y=None)
    borders = {*range(0, 95, 10), *range(95, 495, 16), *range(495, 528, 4), 528}
    for parts in (2, 5, 30):
        ranges = source.split(parts)
        assert len(ranges) == parts
        assert {row for r in ranges for row in r} <= borders
        lengths = [stop - start for start, stop in ranges]
        assert max(lengths) - min(lengths) <= 2 * 16
    places = source.sample(64).positions
    begins = places[np.flatnonzero(np.diff(places, prepend=-2) > 1)]
    assert len(begins) == 8
    assert set(begins.tolist()) <= borders


def test_a_sample_of_one_huge_chunk_is_spread_over_it():
    assert even_stretches(1000, 80, lambda row: 0)[::7] == [(0, 10), (990, 1000)]


@pytest.fixture
def decoded():
    """A list that grows by one at each decoding of a chunk with filter 300, which does nothing."""
    calls = []
    signature = ctypes.CFUNCTYPE(
        ctypes.c_size_t,
        ctypes.c_uint,
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.c_void_p,
    )

    class FilterClass(ctypes.Structure):  # H5Z_class2_t of H5Zpublic.h
        _fields_ = [
            ("version", ctypes.c_int),
            ("id", ctypes.c_int),
            ("encoder_present", ctypes.c_uint),
            ("decoder_present", ctypes.c_uint),
            ("name", ctypes.c_char_p),
            ("can_apply", ctypes.c_void_p),
            ("set_local", ctypes.c_void_p),
            ("filter", signature),
        ]

    reverse = 0x0100  # H5Z_FLAG_REVERSE

    @signature
    def count(flags, n_values, values, n_bytes, size, buffer):
        if flags & reverse:
            calls.append(n_bytes)
        return n_bytes

    record = FilterClass(1, 300, 1, 1, b"count", None, None, count)
    h5py.h5z.register_filter(ctypes.addressof(record))
    yield calls
    h5py.h5z.unregister_filter(300)


@pytest.mark.parametrize("chunks", [(10, 5), (10, 2), (64, 5), (64, 1), (N, 2)])
@pytest.mark.parametrize("block_rows", [9, 25, 4096])
def test_each_chunk_is_decompressed_once_in_a_pass(decoded, chunks, block_rows, tmp_path):
    path = write_hdf5(tmp_path / "a.h5", X, Y, chunks=chunks, compression=300)
    source = HDF5Source(path)
    decoded.clear()
    assert_same(joined(source.blocks(block_rows=block_rows)), X, Y, None)
    assert len(decoded) == -(-N // chunks[0]) * -(-5 // chunks[1])


def test_chunks_beyond_the_default_cache_are_decompressed_once(decoded, tmp_path):
    # 600 chunks of 16 KB side by side: more than the 8 MiB (1 MiB before version 2) that HDF5
    # keeps by default
    n = 4200
    wide = np.random.default_rng(0).integers(0, 255, (n, 2400), dtype=np.uint8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", data=wide, chunks=(4096, 4), compression=300)
        file.create_dataset("y", data=np.arange(n), chunks=(n,), compression=300)
    source = HDF5Source(tmp_path / "a.h5")
    decoded.clear()
    assert_same(joined(source.blocks(block_rows=1500)), wide, np.arange(n), None)
    assert len(decoded) == 2 * 600 + 1


def test_targets_of_another_chunking_are_decompressed_once(decoded, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(10, 5), compression=300)
        file.create_dataset("y", data=Y, chunks=(64,), compression=300)
    source = HDF5Source(tmp_path / "a.h5")
    decoded.clear()
    list(source.blocks(block_rows=25))
    assert len(decoded) == 22 + 4


def test_one_path_a_list_and_a_pattern_name_the_same_rows(tmp_path, monkeypatch):
    for number in (2, 0, 1):
        write_hdf5(tmp_path / f"part{number}.h5", X[number::3], Y[number::3])
    (tmp_path / "part3.h5").mkdir()
    paths = [tmp_path / f"part{number}.h5" for number in range(3)]
    expected = joined(HDF5Source(paths).blocks())
    assert_same(expected, *(np.concatenate([v[0::3], v[1::3], v[2::3]]) for v in (X, Y)), None)
    assert_same(joined(HDF5Source(str(tmp_path / "part*.h5")).blocks()), *expected)
    assert_same(joined(HDF5Source([tmp_path / "part[01].h5", paths[2]]).blocks()), *expected)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert HDF5Source("~/part0.h5").n_rows == len(X[::3])
    write_hdf5(tmp_path / "odd[1].h5", X)
    assert HDF5Source(tmp_path / "odd[1].h5", y=None).n_rows == N


def test_a_relative_path_is_found_from_another_folder(tmp_path, monkeypatch):
    write_hdf5(tmp_path / "a.h5", X, Y)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    source = HDF5Source("a.h5")
    assert source.where == "a.h5, dataset 'X'"
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert_same(joined(source.blocks()), X, Y, None)


def test_datasets_may_lie_in_groups_and_use_plugin_filters(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        zstd = 32015  # of hdf5plugin
        file.create_dataset("train/X", data=X, chunks=(32, 5), compression=zstd)
        file.create_dataset("train/t", data=Y)
        file.create_dataset("train/w", data=WEIGHTS.astype(np.float32))
    source = HDF5Source(tmp_path / "a.h5", x="train/X", y="/train/t", weights="train/w")
    got = joined(source.blocks())
    assert_same(got, X, Y, WEIGHTS.astype(np.float32))
    assert got[2].dtype == np.float64


@pytest.mark.parametrize("dtype", [h5py.string_dtype(), h5py.string_dtype(length=12), "S12"])
def test_labels_may_be_strings_of_fixed_or_variable_length(dtype, tmp_path):
    labels = np.array(["a", "ünïcorn", "dog"])[Y % 3]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"] = X
        file.create_dataset("y", data=[label.encode() for label in labels], dtype=dtype)
    got = joined(HDF5Source(tmp_path / "a.h5").blocks(block_rows=40))[1]
    np.testing.assert_array_equal(got, labels)


def test_a_file_keeps_its_key_when_moved_or_grown(tmp_path):
    def key(path):
        return next(iter(HDF5Source(path, y=None).blocks())).key

    path = write_hdf5(tmp_path / "a.h5", X[:100], chunks=(10, 5), maxshape=(None, 5))
    original = key(path)
    with h5py.File(path, "a") as file:
        file["X"].resize(N, axis=0)
        file["X"][100:] = X[100:]
    assert key(path) == original
    assert key(path.rename(tmp_path / "b.h5")) == original
    assert key(write_hdf5(tmp_path / "c.h5", X[1:])) != original
    assert key(write_hdf5(tmp_path / "d.h5", X[:, :4])) != original
    assert key(write_hdf5(tmp_path / "e.h5", X.astype(np.float64))) != original


@pytest.mark.parametrize("kind", ["csv", "hdf5", "npy", "array", "dask"])
def test_a_short_store_that_has_grown_goes_by_the_key_it_is_known_by(kind, tmp_path):
    """So its rows do not count twice, and can be taken out again."""

    def source(n_rows):
        if kind == "array":
            return ArraySource(X[:n_rows], Y[:n_rows])
        if kind == "dask":
            dask = pytest.importorskip("dask.array")
            return open_source(dask.from_array(X[:n_rows], chunks=30), y=Y[:n_rows])
        path = tmp_path / f"a.{kind}"
        if kind == "csv":
            head, table = "a,b,c,d,e,y", np.column_stack((X, Y))[:n_rows]
            np.savetxt(path, table, "%.9g", ",", header=head, comments="")
        elif kind == "npy":
            np.save(path, X[:n_rows])
            np.save(tmp_path / "y.npy", Y[:n_rows])
        else:
            write_hdf5(path, X[:n_rows], Y[:n_rows])
        return open_source(path, y=tmp_path / "y.npy" if kind == "npy" else "y")

    features = RandomFourier(n_components=4, random_state=0)
    short = accumulate(source(50), features, task="classification")
    grown = accumulate(source(100), like=short)
    with pytest.raises(MergeError, match=r"rows 0 to 49 of .* on both sides.*rows=\(50, None\)"):
        short + grown
    rest = accumulate(source(100), like=short, rows=(50, None))
    both = short + rest
    assert both.ledger.same_rows(grown.ledger)
    np.testing.assert_array_equal(both.gram, grown.gram)
    longer = accumulate(source(200), like=both, rows=(100, None))
    assert (both + longer).n_rows == 200
    assert (grown - accumulate(source(200), like=grown, rows=(90, 100))).n_rows == 90


def test_files_that_begin_with_blank_rows_are_told_apart_by_name(tmp_path):
    blank = np.zeros((80, 5), np.uint8)
    paths = [write_hdf5(tmp_path / name, blank) for name in ("a.h5", "b.h5")]
    (tmp_path / "moved").mkdir()
    keys = [block.key for block in HDF5Source(paths, y=None).blocks()]
    assert keys[0] != keys[1]
    moved = HDF5Source(paths[0].rename(tmp_path / "moved" / "a.h5"), y=None)
    assert next(iter(moved.blocks())).key == keys[0]


def test_empty_files_among_others_are_passed_over(tmp_path):
    for number, rows in enumerate([X[:0], X[:9], X[:0], X[9:]]):
        write_hdf5(tmp_path / f"{number}.h5", rows)
    source = HDF5Source(str(tmp_path / "*.h5"), y=None)
    assert_same(joined(source.blocks()), X, None, None)
    assert source.split(2)[-1][1] == N
    assert 50 <= len(source.sample(50).X) < 58


# Arrays


def test_arrays_are_given_as_views(tmp_path):
    for block in ArraySource(X, Y, WEIGHTS).blocks(10, 90, block_rows=16):
        assert np.shares_memory(block.X, X)
        assert np.shares_memory(block.y, Y)
        assert np.shares_memory(block.weights, WEIGHTS)


def test_a_mapped_file_is_not_loaded(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert np.shares_memory(next(iter(ArraySource(mapped).blocks())).X, mapped)


def test_anything_that_numpy_can_read_is_an_array():
    class Frame:
        def __array__(self, dtype=None, copy=None):
            return X.astype(object)

    assert_same(joined(as_source(Frame(), Y.tolist()).blocks()), X, Y, None)
    assert_same(joined(as_source([[1, 2], [3, 4]]).blocks()), [[1, 2], [3, 4]], None, None)


def test_a_source_passes_through():
    source = ArraySource(X, Y)
    assert as_source(source) is source


# Iterators


def test_small_arrivals_are_joined_and_big_ones_cut():
    small = IteratorSource(arrivals(X, Y, sizes=(10,)))
    assert [block.span for block in small.blocks(block_rows=64)] == [64, 64, 64, 19]
    big = IteratorSource(arrivals(X, Y, sizes=(150,)))
    assert [block.span for block in big.blocks(block_rows=64)] == [64, 64, 64, 19]


def test_the_key_does_not_depend_on_the_sizes_of_arrivals():
    keys = {
        next(iter(IteratorSource(arrivals(X, sizes=sizes)).blocks(block_rows=rows))).key
        for sizes in [(1,), (10,), (N,)]
        for rows in (5, 500)
    }
    assert keys == {fingerprint(X)}


def test_every_item_is_pulled_once_and_no_sooner_than_needed():
    pulled = []

    def watched():
        for number in range(20):
            pulled.append(number)
            yield X[number * 10 : number * 10 + 10], Y[number * 10 : number * 10 + 10]

    source = IteratorSource(watched())
    assert pulled == []
    assert source.n_features == 5
    assert pulled == [0]
    source.sample(100)
    assert pulled == list(range(10))
    assert_same(joined(source.blocks(block_rows=70)), X[:200], Y[:200], None)
    assert pulled == list(range(20))


def test_a_sample_does_not_use_up_a_pass_of_a_function():
    calls = []

    def make():
        calls.append(len(calls))
        return arrivals(X, Y)

    source = IteratorSource(make)
    source.sample(20)
    assert_same(joined(source.blocks()), X, Y, None)
    assert calls == [0]
    source.sample(20)
    assert_same(joined(source.blocks()), X, Y, None)
    assert calls == [0, 1]


def test_position_and_key_continue_a_stream():
    first = IteratorSource(arrivals(X[:100], Y[:100]))
    key = next(iter(first.blocks())).key
    later = IteratorSource(arrivals(X[100:], Y[100:]), position=100, key=key)
    blocks = list(later.blocks(5, block_rows=30))
    assert {block.key for block in blocks} == {key}
    assert [block.row for block in blocks] == [block.position for block in blocks]
    np.testing.assert_array_equal(
        np.concatenate([block.positions for block in blocks]), np.arange(105, N)
    )


def test_a_generator_may_reuse_its_buffer():
    def reusing():
        buffer, labels = np.empty((10, 5), np.float32), np.empty(10)
        for low in range(0, 200, 10):
            buffer[:], labels[:] = X[low : low + 10], Y[low : low + 10]
            yield buffer, labels

    source = IteratorSource(reusing())
    source.sample(50)
    assert_same(joined(source.blocks(block_rows=64)), X[:200], Y[:200], None)


@pytest.mark.parametrize("stop", [None, 40])
def test_the_generator_is_closed_when_its_pass_ends_or_is_abandoned(stop):
    closed = []

    def watched():
        try:
            yield from arrivals(X, Y)
        finally:
            closed.append(True)

    blocks = IteratorSource(watched()).blocks(stop=stop, block_rows=30)
    next(blocks)
    assert not closed
    if stop is None:
        blocks.close()
    else:
        list(blocks)
    assert closed == [True]


# Bad rows


def block_with(X=X, y=Y, weights=WEIGHTS, span=N):
    return Block(X, y, weights, 1000, "key", 500, span, None, "a.h5, dataset 'X'")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_good_rows_pass_untouched_even_where_their_sum_overflows(dtype):
    greatest = {np.float32: np.finfo(np.float32).max, np.float64: 1e150, np.uint8: 255}
    full = np.full((50, 4), greatest[dtype], dtype)
    block = block_with(full, None, None, span=50)
    for mode in ("raise", "skip"):
        assert check_rows(block, mode) == (block, 0)


def spoilt(values, row, bad):
    values = values.astype(np.float64)
    values[row] = bad
    return values


def test_skipped_rows_leave_the_others_in_place():
    block = block_with(
        X=spoilt(X, (3, 2), np.nan),
        y=spoilt(Y, 50, np.inf),
        weights=spoilt(spoilt(WEIGHTS, 7, np.nan), 9, -1.0),
    )
    good = np.setdiff1d(np.arange(N), [3, 7, 9, 50])
    clean, n_skipped = check_rows(block, "skip")
    assert n_skipped == 4
    assert_same((clean.X, clean.y, clean.weights), X[good], Y[good], WEIGHTS[good])
    np.testing.assert_array_equal(clean.kept, good)
    np.testing.assert_array_equal(clean.positions, 1000 + good)
    assert (clean.position, clean.row, clean.span) == (1000, 500, N)
    assert block.kept is None
    assert len(block.X) == N


def test_skipping_twice_composes():
    first, _ = check_rows(block_with(X=spoilt(X, (3, 2), np.nan)), "skip")
    again = replace(first, X=spoilt(first.X, 10, -np.inf))
    second, n_skipped = check_rows(again, "skip")
    assert n_skipped == 1
    np.testing.assert_array_equal(second.kept, np.setdiff1d(np.arange(N), [3, 11]))


def test_a_block_may_lose_all_its_rows():
    clean, n_skipped = check_rows(block_with(X=np.full_like(X, np.nan)), "skip")
    assert n_skipped == N
    assert clean.X.shape == (0, 5)
    assert clean.span == N


def test_names_of_numpy_are_told_as_texts(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"], file["y"] = X, Y
    for names in ({"x": np.str_("Z")}, {"y": np.str_("Z")}):
        with pytest.raises(DatasetNotFoundError, match="no dataset 'Z'"):
            HDF5Source(tmp_path / "a.h5", **names)
    assert HDF5Source(tmp_path / "a.h5", np.str_("X"), np.str_("y")).n_rows == N


def test_rows_alone_have_neither_targets_nor_weights():
    source = RowsAlone(ArraySource(X, Y, WEIGHTS))
    assert (source.has_targets, source.has_weights, source.n_rows) == (False, False, N)
    assert_same(joined(source.blocks()), X, None, None)
    assert source.sample(10).y is None


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("chunk_bytes", [1, 7, 40, 1 << 20])
def test_lines_of_libsvm_may_be_longer_than_what_is_read_at_once(tmp_path, chunk_bytes, end):
    """In every range of rows the labels are those of scikit-learn."""
    rng = np.random.default_rng(0)
    labels = [-1, 12, -12.5, 3, 1e-3, 10]
    lines = [
        " ".join([f"{label}", *(f"{j + 1}:{rng.integers(1, 99)}" for j in range(rng.integers(30)))])
        for label in labels
    ]
    for n in (1, len(labels)):
        path = tmp_path / f"rows{n}.svm"
        path.write_bytes(((end or "\n").join(lines[-n:]) + end).encode())
        X, y = load_svmlight_file(str(path), n_features=30)
        source = opened(path, "30", "y", chunk_bytes=chunk_bytes)
        for start in range(n):
            blocks = list(source.blocks(start, block_rows=2))
            np.testing.assert_array_equal(np.concatenate([block.y for block in blocks]), y[start:])
            found = np.concatenate([block.X for block in blocks])
            np.testing.assert_array_equal(found, X[start:].toarray())
