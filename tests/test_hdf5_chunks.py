"""Chunks decompressed by threads are the rows that the library reads."""

import os
import subprocess
import sys
import threading
import zlib

import h5py
import hdf5plugin
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamrf.errors import CorruptFileError
from streamrf.jit.threads import grant, n_granted
from streamrf.sources import HDF5Source, hdf5_chunks, hdf5_filters, read_ahead
from streamrf.sources.hdf5_chunks import Bands
from streamrf.sources.hdf5_columns import Plain, readers

KNOWN = {
    "shuffle": {"shuffle": True},
    "gzip": {"compression": "gzip"},
    "gzip, shuffle": {"compression": "gzip", "shuffle": True},
    "lzf": {"compression": "lzf"},
    "lzf, shuffle": {"compression": "lzf", "shuffle": True},
    "zstd": dict(hdf5plugin.Zstd()),
    "zstd, shuffle": {**hdf5plugin.Zstd(), "shuffle": True},
    "blosc": dict(hdf5plugin.Blosc()),
    "blosc zstd": dict(hdf5plugin.Blosc(cname="zstd", shuffle=hdf5plugin.Blosc.BITSHUFFLE)),
}
LEFT = {  # to the library
    "contiguous": {"chunks": None},
    "plain chunks": {},
    "fletcher32": {"compression": "gzip", "fletcher32": True},
    "scale and offset": {"scaleoffset": 3},
    "lz4": dict(hdf5plugin.LZ4()),
    "gzip twice": {},
}
DTYPES = ["u1", "?", "<i2", ">i4", "<u8", "<f2", ">f4", "<f4", "<f8", ">f8"]


def values(shape, dtype, seed=0):
    """Rows that compress in part: some columns have few values."""
    wanted = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    if wanted.kind == "f":
        rows = rng.normal(size=shape)
    else:
        rows = rng.integers(0, 2 if wanted.kind == "b" else 100, shape)
    rows[..., ::2] = rows[..., ::2].round() // 3
    return rows.astype(wanted)


@pytest.fixture
def file():
    """A file in memory."""
    with h5py.File("rows.h5", "w", driver="core", backing_store=False) as handle:
        yield handle


@pytest.fixture(autouse=True, params=["small", "large"])
def _cut_finely(request, monkeypatch):
    """Chunks of a few hundred bytes make more than one task, and may count as large."""
    monkeypatch.setattr(hdf5_chunks, "TASK_BYTES", 600)
    if request.param == "large":
        for name, size in {"LARGE_BYTES": 64, "FED_BYTES": 50, "MADE_BYTES": 40}.items():
            monkeypatch.setattr(hdf5_filters, name, size)


@pytest.fixture
def left(monkeypatch):
    """A list of what is left to the library: the bounds of rows."""
    found = []

    def read_rows(dataset, low, high, where):
        found.append((low, high))
        return dataset[low:high]

    monkeypatch.setattr(hdf5_chunks, "read_rows", read_rows)
    return found


def read(dataset, ranges, step):
    """Rows of ranges, read `step` at a time."""
    with readers([Plain(dataset), None], ranges, ["rows", "none"]) as (rows, none):
        assert none is None
        return [
            rows.read(low, min(low + step, stop))
            for start, stop in ranges
            for low in range(start, stop, step)
        ]


@st.composite
def layouts(draw):
    """Shape, chunks of which some are cut at the edges, ranges of rows and rows at a time."""
    rank = draw(st.integers(1, 3))
    shape = [draw(st.integers(1, 300)), *(draw(st.integers(1, 7)) for _ in range(rank - 1))]
    chunks = tuple(draw(st.integers(1, size)) for size in shape)
    bounds = draw(st.lists(st.integers(0, shape[0]), min_size=2, max_size=6, unique=True))
    bounds = sorted(bounds[: len(bounds) // 2 * 2])
    ranges = list(zip(bounds[::2], bounds[1::2], strict=True))
    return tuple(shape), chunks, ranges, draw(st.integers(1, 200))


@given(layouts(), st.sampled_from(sorted(KNOWN)), st.sampled_from(DTYPES), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_rows_are_those_of_the_library(layout, known, dtype, seed):
    shape, chunks, ranges, step = layout
    with h5py.File("rows.h5", "w", driver="core", backing_store=False) as file:
        dataset = file.create_dataset(
            "X", data=values(shape, dtype, seed), chunks=chunks, **KNOWN[known]
        )
        assert Bands.of(dataset, 2) is not None
        found = read(dataset, ranges, step)
        expected = [dataset[a : min(a + step, e)] for s, e in ranges for a in range(s, e, step)]
    assert [rows.dtype for rows in found] == [rows.dtype for rows in expected]
    assert all(map(np.array_equal, found, expected))


@pytest.mark.parametrize("known", KNOWN)
def test_known_filters_are_not_left_to_the_library(known, file, left):
    dataset = file.create_dataset("X", data=values((500, 6), "f4"), chunks=(40, 4), **KNOWN[known])
    assert np.array_equal(np.concatenate(read(dataset, [(0, 500)], 70)), dataset[:])
    assert left == []


@pytest.mark.parametrize("unknown", LEFT)
def test_other_layouts_are_left_to_the_library(unknown, file, left):
    options = {"chunks": (40, 4), **LEFT[unknown]}
    made = None
    if unknown == "gzip twice":
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_chunk((40, 4))
        made.set_deflate(1)
        made.set_deflate(4)
        space = h5py.h5s.create_simple((100, 6))
        h5py.h5d.create(file.id, b"X", h5py.h5t.IEEE_F32LE, space, made)
        file["X"][:] = values((100, 6), "f4")
    else:
        file.create_dataset("X", data=values((100, 6), "f4"), **options)
    assert Bands.of(file["X"], 2) is None
    assert np.array_equal(read(file["X"], [(0, 100)], 100)[0], file["X"][:])
    assert left == [(0, 100)]


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype([("a", "f4"), ("b", "i2")]),
        h5py.string_dtype(),
        np.dtype("S3"),
        np.dtype("c8"),
        h5py.enum_dtype({"no": 0, "yes": 1}, basetype="i2"),
    ],
)
def test_values_of_no_known_width_are_left_to_the_library(dtype, file):
    dataset = file.create_dataset("y", (300,), dtype, chunks=(100,), compression="gzip")
    assert (Bands.of(dataset, 2) is None) == (dtype.kind in "Oc")
    assert read(dataset, [(0, 300)], 300)[0].tolist() == dataset[:].tolist()


def test_numbers_that_the_library_converts_are_left_to_it(file):
    odd = h5py.h5t.IEEE_F32LE.copy()
    odd.set_size(4)
    odd.set_fields(31, 23, 8, 0, 23)
    odd.set_ebias(100)
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk((50,))
    made.set_deflate(4)
    h5py.h5d.create(file.id, b"y", odd, h5py.h5s.create_simple((100,)), made)
    file["y"][:] = np.arange(100.0)
    assert Bands.of(file["y"], 2) is None
    assert np.array_equal(read(file["y"], [(0, 100)], 100)[0], np.arange(100.0))


def test_chunks_never_written_are_the_fill_value(file, left):
    options = {"chunks": (50, 6), "compression": "gzip", "fillvalue": 7}
    dataset = file.create_dataset("X", (400, 6), "f4", **options)
    dataset[100:200] = values((100, 6), "f4")
    assert np.array_equal(np.concatenate(read(dataset, [(0, 400)], 50)), dataset[:])
    assert (100, 150) not in left
    assert (0, 50) in left


@pytest.mark.parametrize("known", ["gzip, shuffle", "lzf, shuffle"])
@pytest.mark.parametrize("mask", [0b01, 0b10, 0b11])
def test_filters_that_a_chunk_went_without_are_passed_over(known, mask, file, left):
    dataset = file.create_dataset("X", (300, 6), "f4", chunks=(100, 6), **KNOWN[known])
    rows = values((300, 6), "f4")
    dataset[:] = rows
    plain = rows[100:200].tobytes()
    shuffled = np.frombuffer(plain, np.uint8).reshape(-1, 4).T.tobytes()
    data = plain if mask & 1 else shuffled
    if not mask & 2:
        with h5py.File("other.h5", "w", driver="core", backing_store=False) as other:
            bare = {name: value for name, value in KNOWN[known].items() if name != "shuffle"}
            bytes_ = np.frombuffer(data, np.uint8)
            one = other.create_dataset("X", data=bytes_, chunks=bytes_.shape, **bare)
            unfiltered, data = one.id.read_direct_chunk((0,))
            mask |= unfiltered << 1
    dataset.id.write_direct_chunk((100, 0), data, mask)
    assert np.array_equal(np.concatenate(read(dataset, [(0, 300)], 100)), rows)
    assert left == []


@pytest.mark.parametrize("known", sorted({*KNOWN} - {"shuffle"}))  # of which nothing tells
def test_damage_is_told_by_the_library(known, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=values((1000, 20), "f4"), chunks=(100, 20), **KNOWN[known])
        info = file["X"].id.get_chunk_info(5)
    with open(path, "r+b") as raw:
        raw.seek(info.byte_offset)
        raw.write(bytes(range(255, 155, -1)))
    source = HDF5Source(path, y=None)
    blocks = source.blocks(block_rows=100)
    for _ in range(5):
        next(blocks)
    with pytest.raises(CorruptFileError, match=r"dataset 'X': rows 500 to 599 cannot be read"):
        next(blocks)
    assert len(list(source.blocks(600, block_rows=100))) == 4


@pytest.mark.parametrize("n_rows", [1, 50, 99])
@pytest.mark.parametrize("known", [*KNOWN, "left out"])
def test_a_chunk_that_ends_early_is_refused(known, n_rows, tmp_path, monkeypatch):
    """The library reads on, in whatever is in memory after it."""
    rows, layout = values((1000, 20), "f4"), KNOWN.get(known, KNOWN["gzip"])
    with h5py.File("other.h5", "w", driver="core", backing_store=False) as other:
        one = other.create_dataset("X", data=rows[:n_rows], chunks=(n_rows, 20), **layout)
        mask, data = one.id.read_direct_chunk((0, 0))
    if known == "left out":
        mask, data = 0b11, rows[:n_rows].tobytes()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", data=rows, chunks=(100, 20), **layout)
        file["X"].id.write_direct_chunk((500, 0), data, mask)
        sparse = file.create_dataset("sparse", (300, 20), "f4", chunks=(100, 20), **layout)
        sparse[:100] = rows[:100]
        sparse.id.write_direct_chunk((200, 0), data, mask)
    monkeypatch.setattr(hdf5_chunks, "TASK_BYTES", 1 << 20)
    for name in "X", "sparse":
        source = HDF5Source(tmp_path / "a.h5", name, y=None, allow_sparse=True)
        with pytest.raises(CorruptFileError, match=f"{name!r}: a chunk of the rows .* fewer bytes"):
            list(source.blocks(block_rows=100))


@pytest.mark.parametrize("more", [0, 11, 500])
def test_chunks_that_are_stored_in_more_bytes_than_they_have_are_read(more, file):
    rows = np.random.default_rng(0).integers(0, 256, (200, 10), np.uint8)
    dataset = file.create_dataset("X", data=rows, chunks=(50, 10), compression="gzip")
    stored = zlib.compress(rows[50:100].tobytes(), 0) + bytes(more)
    assert len(stored) > 501
    dataset.id.write_direct_chunk((50, 0), stored)
    found = read(dataset, [(0, 200)], 70)
    assert np.array_equal(np.concatenate(found), rows)


@pytest.mark.parametrize("more", [1, 3, 49, 50, 51, 500])
@pytest.mark.parametrize("level", [0, 1, 9])
def test_bytes_after_the_end_of_compressed_data_are_passed_over(level, more, file, left):
    """Of large chunks they were looked at for ever."""
    rows = np.zeros((200, 10), np.float64)
    rows[50:100, 0] = np.arange(50)
    dataset = file.create_dataset("X", data=rows, chunks=(50, 10), compression="gzip")
    dataset.id.write_direct_chunk(
        (50, 0), zlib.compress(rows[50:100].tobytes(), level) + bytes(more)
    )
    assert np.array_equal(np.concatenate(read(dataset, [(0, 200)], 70)), rows)


@pytest.mark.parametrize("body", [bytes(3 << 20), np.arange(5 << 17).tobytes()], ids=["0", "many"])
def test_bytes_after_the_end_are_passed_over_wherever_pieces_end(body):
    """zlib has unconsumed input after the end where a piece is full there."""
    out = np.empty(len(body) + 1, np.uint8)
    for more in (0, 1, 3, 1 << 16, 70_001):
        found = hdf5_filters.COMPRESSIONS[1](zlib.compress(body, 1) + bytes(more), out)
        assert found.tobytes() == body


@pytest.mark.parametrize("n_lost", [1, 4, 30])
def test_compressed_data_that_are_cut_are_left_to_the_library(n_lost, file, left):
    rows = values((200, 10), "f4")
    dataset = file.create_dataset("X", data=rows, chunks=(50, 10), compression="gzip")
    dataset.id.write_direct_chunk((50, 0), zlib.compress(rows[50:100].tobytes())[:-n_lost])
    with pytest.raises(OSError, match="filter"):
        read(dataset, [(0, 200)], 50)
    assert left == [(50, 100)]


def test_chunks_that_have_more_entries_are_left_to_the_library(file, left):
    rows = values((200, 10), "f4")
    dataset = file.create_dataset("X", data=rows, chunks=(50, 10), compression="gzip")
    dataset.id.write_direct_chunk((50, 0), zlib.compress(rows[50:120].tobytes()))
    read(dataset, [(0, 200)], 50)
    assert left == [(50, 100)]


def test_memory_is_used_again_when_nothing_refers_to_it(monkeypatch):
    buffers = hdf5_filters.Buffers(2 * hdf5_filters.LARGE_BYTES)
    array = buffers.array((10, 2), np.dtype("f4"))
    view, address = array[3:].T, array.ctypes.data
    del array
    others = [buffers.array((10, 2), np.dtype("f4")) for _ in range(3)]
    places = {other.ctypes.data for other in others}
    assert len(places | {address}) == 4  # a view is left
    del view
    assert buffers.array((10, 2), np.dtype("f4")).ctypes.data == address


def test_a_decompressor_that_fails_does_not_lose_rows(file, left, monkeypatch):
    dataset = file.create_dataset("X", data=values((500, 6), "f4"), chunks=(40, 6), **KNOWN["gzip"])
    monkeypatch.setitem(hdf5_filters.COMPRESSIONS, 1, lambda data, out: bytes(len(out)))
    assert np.array_equal(np.concatenate(read(dataset, [(0, 500)], 100)), dataset[:])
    assert len(left) == 5


def test_the_library_is_called_by_the_reading_thread_alone(file, monkeypatch):
    dataset = file.create_dataset("X", data=values((500, 6), "f4"), chunks=(40, 6), **KNOWN["gzip"])
    seen = set()
    inflate = hdf5_filters.COMPRESSIONS[1]

    def watched(data, out):
        seen.add(threading.current_thread().name)
        return inflate(data, out)

    monkeypatch.setitem(hdf5_filters.COMPRESSIONS, 1, watched)
    read(dataset, [(0, 500)], 100)
    assert all(name.startswith("streamrf-chunks") for name in seen)
    assert not any(thread.name.startswith("streamrf-chunks") for thread in threading.enumerate())


def test_bands_ahead_keep_to_their_memory(file, monkeypatch):
    data = values((4000, 8), "f4")
    dataset = file.create_dataset("X", data=data, chunks=(100, 8), **KNOWN["gzip"])
    bands = Bands.of(dataset, 3)
    assert (bands.n_rows, bands.n_bytes, bands.n_ahead) == (100, 3200, 3)
    monkeypatch.setattr(hdf5_chunks, "AHEAD_BYTES", 2 * 3200)
    assert Bands.of(dataset, 3).n_ahead == 2
    with readers([Plain(dataset)], [(0, 4000)], ["rows"]) as (rows,):
        for low in range(0, 4000, 50):
            rows.read(low, low + 50)
            assert len(rows._readers[0]._begun) <= 3
    monkeypatch.setattr(hdf5_chunks, "AHEAD_BYTES", 3199)
    assert Bands.of(dataset, 3) is None


def test_what_is_held_ahead_is_in_the_plan_of_memory(tmp_path, monkeypatch):
    """Of large chunks 686 MiB were measured where 465 were planned."""
    kinds = {"rows": None, "one": (4000, 8), "many": (1000, 8), "gzip": (1000, 8)}
    for name, chunks in kinds.items():
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            packed = {"compression": "gzip"} if name == "gzip" else {}
            file.create_dataset("X", data=values((4000, 8), "f4"), chunks=chunks, **packed)
    least, one, many, ahead = (
        HDF5Source(tmp_path / f"{name}.h5", y=None).buffer_bytes for name in kinds
    )
    with h5py.File(tmp_path / "gzip.h5") as file:
        assert ahead == least + Bands.of(file["X"], n_granted()).held_bytes
    monkeypatch.setattr(hdf5_chunks, "AHEAD_BYTES", 1)
    library = HDF5Source(tmp_path / "gzip.h5", y=None).buffer_bytes
    chunk = 1000 * 8 * 4  # of which one is in the library's cache
    assert (one, many, library) == (least, least + chunk, least + 2 * chunk)


def test_threads_are_granted_to_one_reading_only():
    def counts():
        while True:
            yield n_granted()

    one, all_ = read_ahead(counts(), n_threads=1), read_ahead(counts())
    assert [next(one), next(all_), next(one)] == [1, n_granted(), 1]
    one.close()
    all_.close()


def test_no_more_threads_are_granted_than_there_are():
    def asked():
        grant(1 << 20)
        return n_granted()

    from contextvars import copy_context

    assert copy_context().run(asked) == n_granted()


FORKED = """
import os, sys
import numpy as np
from streamrf.sources import HDF5Source
source = HDF5Source(sys.argv[1], y=None)
held = source.blocks(block_rows=100)
ours = [next(held).X]
child = os.fork()
if not child:
    again = np.concatenate([block.X for block in source.blocks()])
    os._exit(int(again.sum() != float(sys.argv[2])))
ours += [block.X for block in held]
assert np.concatenate(ours).sum() == float(sys.argv[2])
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_reads_with_threads_of_its_own(tmp_path):
    rows = values((4000, 8), "u1").astype("f4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", data=rows, chunks=(100, 8), compression="gzip")
    done = subprocess.run(
        [sys.executable, "-c", FORKED, tmp_path / "a.h5", str(rows.sum(dtype="f8"))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["0"]
