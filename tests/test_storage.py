"""Trees come back exactly, damage is found, and a file appears whole or not at all."""

import errno
import fcntl
import hashlib
import json
import math
import os
import random
import re
import resource
import signal
import stat
import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamrf import storage
from streamrf.errors import (
    FormatError,
    ParameterError,
    SourceNotFoundError,
    StorageError,
    StreamrfError,
)

MUTATIONS = int(os.environ.get("STREAMRF_MUTATIONS", "300"))  # of each kind

TREE = {
    "encoder": {
        "class": "RandomMaclaurin",
        "params": {"degree": 7, "coef0": 1.0, "p": 2.0, "random_state": None},
        "fitted": {"signs_": np.array([True, False, True]), "seed_": 2**127 - 1},
    },
    "labels": np.array(["zero", "één", "二"]),
    "gram": np.arange(40, dtype=np.float64),
    "names": {"mnist.h5/train": "mnist.h5", "$HOME": "x"},
    "alphas": [0.1, math.inf, 1, True, None, "auto"],
}


def same(a, b):
    """Equal in value, type and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return (a.dtype.str, a.shape, a.tobytes()) == (b.dtype.str, b.shape, b.tobytes())
    if isinstance(a, float):
        return a.hex() == b.hex()
    return a == b


dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    hnp.unicode_string_dtypes(endianness="?", min_len=1),
)
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
keys = st.one_of(
    st.text(), st.sampled_from(["", ".", "..", "a/b", "%2F", "$array", "$int", "$$x", "\ud83d"])
)
trees = st.dictionaries(
    keys,
    st.recursive(
        st.one_of(scalars, st.lists(scalars, max_size=4), arrays),
        lambda inner: st.dictionaries(keys, inner, max_size=4),
        max_leaves=8,
    ),
    max_size=5,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tree.h5"


@pytest.fixture
def saved(path):
    """A file of `TREE`."""
    storage.write(path, "model", TREE)
    return path


def seal(block_and_rest, tree_offset, tree_bytes, kind="model", version=1):
    """A file's bytes with a header that is right for them, as an attacker would make it."""
    rest = block_and_rest[512:]
    lines = f"streamrf {version}\nkind {kind}\nlength {512 + len(rest)}\n".encode()
    lines += f"tree {tree_offset} {tree_bytes}\n".encode()
    digest = hashlib.sha256(lines + rest).hexdigest().encode()
    return (lines + b"sha256 " + digest + b"\n").ljust(512) + rest


def forge(document, payload=b""):
    """A sealed file of a JSON document, written at byte 512, and bytes after it."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return seal(bytes(512) + text + payload, 512, len(text))


# ---- round trips --------------------------------------------------------------------------------


@given(trees)
@example({"": {"": {"": np.array(1.5, dtype=">f2")}}})
@example({"n": [2**63, -(2**64), 10**5000, -(10**400), 2**53, -(2**53) + 1]})
@example({"x": [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1]})
@example({"x": np.array([np.nan, -np.nan, -0.0, np.inf])})
@example({"s": "\ud83d\ude00 \x00", "t": np.array(["\ud83d\ude00", "a\x00b", ""])})
@example({"e": np.empty((2, 0, 3), dtype="<U7"), "wide": np.array(["a"], dtype="<U900")})
@example({"deep": np.zeros((1,) * 32, dtype=np.int8)})
@example({"%": np.zeros(1), "": np.zeros(2), ".": np.zeros(3), "%2E": np.zeros(4)})
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_trees_come_back_exactly(path, tree):
    storage.write(path, "model", tree)
    assert same(storage.read(path, "model"), tree)


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(24, dtype=np.int16).reshape(4, 6)[::2, ::-1],
        np.broadcast_to(np.float32(3), (5, 7)),
        np.arange(6, dtype=np.uint8).reshape(2, 3).T,
    ],
)
def test_arrays_of_any_layout_come_back_in_c_order(path, array):
    storage.write(path, "model", {"a": array})
    np.testing.assert_array_equal(storage.read(path, "model")["a"], array, strict=True)


def test_an_array_larger_than_a_piece_comes_back(path, rng):
    array = rng.integers(0, 256, (3000, 7000), dtype=np.uint8)
    storage.write(path, "model", {"a": array, "t": array.T})
    tree = storage.read(path, "model")
    np.testing.assert_array_equal(tree["a"], array)
    np.testing.assert_array_equal(tree["t"], array.T)


def test_numpy_scalars_become_pythons(path):
    tree = {"a": np.float64(0.1), "b": [np.int64(3), np.bool_(True)], "c": np.str_("x")}
    storage.write(path, "model", tree)
    assert same(storage.read(path, "model"), {"a": 0.1, "b": [3, True], "c": "x"})


def test_arrays_read_may_be_changed(saved):
    tree = storage.read(saved, "model")
    tree["gram"] += 1
    assert tree["gram"][0] == 1


def test_the_same_tree_gives_the_same_bytes(saved, tmp_path):
    storage.write(tmp_path / "again.h5", "model", storage.read(saved, "model"))
    assert (tmp_path / "again.h5").read_bytes() == saved.read_bytes()


def test_other_programs_find_the_arrays(saved):
    with h5py.File(saved) as file:
        assert file.attrs["format"] == "streamrf"
        assert (file.attrs["kind"], file.attrs["format_version"]) == ("model", 1)
        np.testing.assert_array_equal(file["arrays/gram"][:], TREE["gram"])
        np.testing.assert_array_equal(file["arrays/labels"].asstr()[:], TREE["labels"])
        np.testing.assert_array_equal(file["arrays/encoder/fitted/signs_"][:], [True, False, True])
        document = json.loads(file["tree"].asstr()[()])
    assert document["encoder"]["params"] == TREE["encoder"]["params"]
    assert document["gram"]["$array"]["shape"] == [40]


@pytest.mark.parametrize("action", ["write", "read"])
def test_no_array_is_copied(path, action):
    tree = {"a": np.zeros(2**23), "b": np.zeros((2**11, 2**11)).T}
    storage.write(path, "model", tree)
    tracemalloc.start()
    if action == "write":
        storage.write(path, "model", tree)
        allowed = 40e6  # pieces of 16 MiB
    else:
        tree = storage.read(path, "model")
        allowed = 96 * 2**20 + 4e6  # the arrays
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < allowed


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": {"b": 1j}}, "tree['a']['b'] is a complex"),
        ({"a": [1, [2]]}, "tree['a'] is a list; files hold"),
        ({"a": (1, 2)}, "tree['a'] is a tuple"),
        ({"a": {1: 2}}, "tree['a'] has the key 1"),
        ({"a": np.array([None])}, "tree['a'] is a ndarray of object"),
        ({"a": np.zeros(2, complex)}, "of complex128"),
        ({"a": np.zeros(2, "M8[s]")}, "of datetime64[s]"),
        ({"a": np.zeros(2, "i4,i4")}, "files hold plain arrays"),
        ({"a": np.ma.masked_array([1, 2])}, "is a MaskedArray"),
        ({"a": np.zeros((1,) * 33)}, "has rank 33"),
        ({"a": np.longdouble(1)}, "is a longdouble"),
    ],
)
def test_what_no_file_holds_is_named_and_leaves_the_file_alone(saved, tree, message):
    before = saved.read_bytes()
    with pytest.raises(ParameterError, match=re.escape(message)):
        storage.write(saved, "model", tree)
    assert saved.read_bytes() == before


def test_a_tree_without_end_is_refused(path):
    tree = {}
    tree["a"] = tree
    with pytest.raises(ParameterError, match="lies deeper than 32 dicts"):
        storage.write(path, "model", tree)


def test_a_kind_is_a_word(path):
    with pytest.raises(ParameterError, match="lowercase letters, not 'My model\\\\n'"):
        storage.write(path, "My model\n", {})


# ---- damaged and foreign files ------------------------------------------------------------------


def loads_right_or_refuses(path, data, tree):
    """Whether the bytes load to the tree (True) or are refused by our error (False)."""
    path.write_bytes(data)
    try:
        loaded = storage.read(path, "model")
    except StreamrfError:
        return False
    assert same(loaded, tree)
    return True


def test_a_file_with_flipped_bytes_loads_right_or_is_refused(saved):
    original = saved.read_bytes()
    remark = range(original.index(b"\n\n") + 1, 512)  # the only bytes that are free to change
    draw = random.Random(0)
    places = [*range(200), *(draw.randrange(len(original)) for _ in range(MUTATIONS))]
    for place in places:
        data = bytearray(original)
        data[place] ^= 1 << draw.randrange(8)
        loaded = loads_right_or_refuses(saved, bytes(data), TREE)
        assert loaded == (place in remark)


def test_a_file_with_a_stretch_overwritten_is_refused(saved):
    original = saved.read_bytes()
    draw = random.Random(1)
    for _ in range(MUTATIONS):
        data = bytearray(original)
        start = draw.randrange(len(data))
        stretch = draw.randbytes(draw.randint(1, 64))
        data[start : start + len(stretch)] = stretch
        loads_right_or_refuses(saved, bytes(data), TREE)


def test_a_truncated_file_is_refused(saved):
    original = saved.read_bytes()
    for length in [*range(0, 600, 7), *range(600, len(original), 97), len(original) - 1]:
        assert not loads_right_or_refuses(saved, original[:length], TREE)


def test_flipped_bytes_with_a_right_digest_do_no_harm(saved):
    original = saved.read_bytes()
    with h5py.File(saved) as file:
        offset, size = file["tree"].id.get_offset(), file["tree"].dtype.itemsize
    draw = random.Random(2)
    outcomes = set()
    for _ in range(MUTATIONS):
        data = bytearray(original)
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(offset, offset + size)] = draw.choice(b'0123456789"$[]{}-,:eNIU<|')
        saved.write_bytes(seal(bytes(data), offset, size))
        try:
            storage.read(saved, "model")
            outcomes.add("another tree")
        except FormatError as error:
            outcomes.add(str(error).partition(" (")[0].removeprefix(f"{saved} "))
    assert outcomes == {"another tree", "has a correct digest but does not describe a tree"}


def an_array(**changes):
    return {"a": {"$array": {"dtype": "<f8", "shape": [2], "offset": 512} | changes}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (an_array(shape=[2**40]), "array float64 of shape [1099511627776]"),
        (an_array(shape=[2**32, 2**32, 2**32]), "array float64"),
        (an_array(shape=[-1, -2]), "array float64"),
        (an_array(shape=[True]), "array float64"),
        (an_array(shape=[1.0]), "array float64"),
        (an_array(shape=["1"]), "describe a tree ("),
        (an_array(shape=3), "describe a tree ("),
        (an_array(shape=[1] * 65), "describe a tree ("),
        (an_array(shape=[0, 2**63]), "describe a tree ("),
        (an_array(offset=0), "at byte 0"),
        (an_array(offset=-8), "at byte -8"),
        (an_array(offset=10**6), "at byte 1000000"),
        (an_array(offset="512"), "at byte 512"),
        (an_array(dtype="O"), "an array of 'O'"),
        (an_array(dtype="|V8"), "an array of '|V8'"),
        (an_array(dtype="<M8[s]"), "an array of"),
        (an_array(dtype="<f8,<f8"), "an array of"),
        (an_array(dtype=8), "describe a tree ("),
        (an_array(dtype="|b1"), "a bool that is neither 0 nor 1"),
        (an_array(dtype="<U4"), "in None bytes"),
        (an_array(dtype="<U4", width=3), "in 3 bytes"),
        (an_array(dtype="<U999999999", width=2**40), "describe a tree ("),
        (an_array(dtype="<U999999999", width=2**40, shape=[0]), "describe a tree ("),
        (an_array(extra=1), "unexpected keyword"),
        ({"a": {"$array": None}}, "describe a tree ("),
        ({"a": {"$array": {}, "b": 1}}, "'$array' out of place"),
        ({"a": {"$run": "rm"}}, "'$run' out of place"),
        ({"$int": "0x1"}, "'$int' out of place"),
        ({"a": {"$int": "zz"}}, "invalid literal"),
        ({"a": {"$int": 1}}, "describe a tree ("),
        ({"a": {"$int": "0x1", "b": 1}}, "where a scalar belongs"),
        ({"a": {"$float": "1"}}, "where a scalar belongs"),
        ({"a": [[1]]}, "where a scalar belongs"),
        ({"a": [{}]}, "where a scalar belongs"),
        ([], "outermost value is no object"),
        (b'{"a": NaN}', "the constant NaN"),
        (b'{"a": ' + b"1" * 5000 + b"}", "4300 digits"),
        (b'{"a": "\xff"}', "codec can't decode"),
        (b'{"a": 1', "delimiter"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "nested too deep"),
        (b'{"a":' + b"[" * 100_000, "recursion"),
    ],
)
def test_a_forged_document_is_refused_before_anything_large_is_allocated(path, document, message):
    path.write_bytes(forge(document, bytes(16)))
    tracemalloc.start()
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        storage.read(path, "model")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
    assert "has a correct digest but does not describe a tree" in str(caught.value)


def test_arrays_that_overlap_cannot_need_more_memory_than_the_file(path):
    entry = {"$array": {"dtype": "|u1", "shape": [10**6], "offset": 20_000}}
    path.write_bytes(forge({"a": entry}, bytes(10**6 + 20_000)))
    assert storage.read(path, "model")["a"].size == 10**6
    path.write_bytes(forge({str(i): entry for i in range(100)}, bytes(10**6 + 20_000)))
    with pytest.raises(FormatError, match="array uint8 of shape"):
        storage.read(path, "model")


def test_text_that_is_not_utf8_is_refused(path):
    document = an_array(dtype="<U2", width=2, shape=[1], offset=600)
    path.write_bytes(forge(document, b"\xff" * 200))
    with pytest.raises(FormatError, match="codec can't decode"):
        storage.read(path, "model")


def test_reading_leaves_libhdf5_alone(saved, monkeypatch):
    """Links, filters, references, false shapes in the HDF5 part: none is ever looked at."""
    with h5py.File(saved) as file:
        offset, size = file["tree"].id.get_offset(), file["tree"].dtype.itemsize
        kept = [(offset, size)]
        file.visititems(
            lambda _, item: (
                kept.append((item.id.get_offset(), item.id.get_storage_size()))
                if isinstance(item, h5py.Dataset)
                else None
            )
        )
    original = saved.read_bytes()
    data = bytearray(b"\xff" * len(original))
    for start, count in kept:
        data[start : start + count] = original[start : start + count]
    saved.write_bytes(seal(bytes(data), offset, size))
    monkeypatch.setattr(h5py, "File", None)
    assert same(storage.read(saved, "model"), TREE)


def test_a_file_that_another_program_changed_is_refused_and_said_so(saved):
    with h5py.File(saved, "r+") as file:
        file["arrays/gram"][3] = 7
    with pytest.raises(FormatError, match=r"tree\.h5 is damaged or was changed by another program"):
        storage.read(saved, "model")


def test_a_file_that_another_program_made_longer_is_refused_and_said_so(saved):
    with h5py.File(saved, "r+") as file:
        file["more"] = np.zeros(1000)
    with pytest.raises(FormatError, match="is cut short or has grown: it should have"):
        storage.read(saved, "model")


@pytest.mark.parametrize("act", [lambda path: storage.read(path, "model"), storage.read_kind])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty; give a file that streamrf has saved"),
        (b"label,x\n1,2\n", "is no file of streamrf"),
        (b"streamrf 1\nkind Model\n" + bytes(600), "or its start is damaged"),
        (b"\x89HDF\r\n\x1a\n" + bytes(600), "is an HDF5 file but not one of streamrf"),
    ],
)
def test_foreign_files_are_refused(path, act, data, message):
    path.write_bytes(data)
    with pytest.raises(FormatError, match=message):
        act(path)


@pytest.mark.parametrize("act", [lambda path: storage.read(path, "model"), storage.read_kind])
def test_what_is_no_file_is_refused(tmp_path, act):
    with pytest.raises(SourceNotFoundError, match=r"there is no file .*none\.h5; check the path"):
        act(tmp_path / "none.h5")
    for name, shown in (
        ("", "there is no file ''; check"),
        ("a\0b", r"no file 'a\\x00b', as names"),
    ):
        with pytest.raises(SourceNotFoundError, match=shown):
            act(name)
    with pytest.raises(FormatError, match="is no regular file"):
        act(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="is no regular file"):
        act(tmp_path / "pipe")


def test_a_disk_that_fails_while_reading_is_told(saved, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fail)
        with pytest.raises(StorageError) as caught:
            storage.read(saved, "model")
    assert str(caught.value) == f"cannot read {saved}: Input/output error"


@pytest.mark.parametrize(
    ("kind", "wanted", "message"),
    [
        ("statistics", "model", "holds statistics, not a model; load it with streamrf.load_stat"),
        ("model", "statistics", "holds a model, not statistics; load it with streamrf.load_model"),
        ("sketch", "model", "holds a sketch, not a model; load it with what wrote it"),
    ],
)
def test_a_file_of_another_kind_says_what_loads_it(path, kind, wanted, message):
    storage.write(path, kind, {})
    assert storage.read_kind(path) == kind
    with pytest.raises(FormatError, match=message):
        storage.read(path, wanted)


def test_a_file_of_a_later_version_asks_for_an_upgrade(path):
    path.write_bytes(seal(forge({}), 512, 2, version=2))
    with pytest.raises(FormatError, match=r"has format version 2 and this .* upgrade streamrf"):
        storage.read(path, "model")


# ---- all or nothing -----------------------------------------------------------------------------


def test_a_full_disk_leaves_the_old_file_whole(saved, tmp_path):
    """The kernel itself refuses to let the new file grow, in the middle of an array."""
    before = saved.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
    try:
        with pytest.raises(StorageError, match=r"cannot write .*tree\.h5: File too large; make ro"):
            storage.write(saved, "model", {"a": np.zeros(2**20)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == ["tree.h5"]
    assert saved.read_bytes() == before


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), StorageError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_failure_at_the_end_leaves_the_old_file_whole(
    saved, tmp_path, monkeypatch, call, failure, raised
):
    def fail(*_):
        raise failure

    before = saved.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(raised) as caught:
            storage.write(saved, "model", {"a": 1})
    assert os.listdir(tmp_path) == ["tree.h5"]
    assert saved.read_bytes() == before
    if raised is StorageError:
        assert re.fullmatch(
            r"cannot write .*tree\.h5: No space left on device; make room for [\d,]+ bytes or "
            r"choose another folder; any earlier file there is unchanged",
            str(caught.value),
        )


def test_a_disk_that_can_hold_no_more_files_is_told(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    disk = os.statvfs(tmp_path)
    for n_left, advice in (
        (7, r"make room for [\d,]+ bytes or "),
        (0, "for no more files: delete"),
    ):
        left = SimpleNamespace(f_files=10, f_favail=n_left, f_bavail=disk.f_bavail + 1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "statvfs", lambda folder, left=left: left)
            patch.setattr(os, "fsync", full)
            with pytest.raises(StorageError, match=advice):
                storage.write(tmp_path / "tree.h5", "model", {"a": 1})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_process_killed_before_the_end_leaves_the_old_file_whole(saved, call):
    program = (
        "import os, signal, sys\n"
        "from streamrf import storage\n"
        f"os.{call} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "storage.write(sys.argv[1], 'model', {'a': 1})\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(saved)])
    assert done.returncode == -signal.SIGKILL
    assert same(storage.read(saved, "model"), TREE)


def test_a_folder_that_cannot_be_synced_does_no_harm(saved, monkeypatch):
    synced = []
    real = os.fsync

    def refuse_folders(descriptor):
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    storage.write(saved, "model", {"a": 1})
    assert len(synced) == 2
    assert storage.read(saved, "model") == {"a": 1}


def test_a_missing_folder_is_told(tmp_path):
    with pytest.raises(StorageError, match=r"there is no folder .*; make it first"):
        storage.write(tmp_path / "none" / "tree.h5", "model", {})


def test_a_name_in_bytes_is_that_of_the_same_file(tmp_path):
    storage.write(os.fsencode(tmp_path / "tree.h5"), "model", {"a": 1})
    assert storage.read(tmp_path / "tree.h5", "model") == {"a": 1}


def test_a_name_with_a_null_byte_is_refused(tmp_path):
    with pytest.raises(StorageError, match=r"a\\x00b': a file's name holds no null byte"):
        storage.write(tmp_path / "a\0b", "model", {})


def test_nothing_but_a_regular_file_is_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(StorageError, match="it exists and is no regular file"):
            storage.write(place, "model", {})
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_link_stays_and_its_target_is_replaced(saved, tmp_path):
    link = tmp_path / "link.h5"
    link.symlink_to(saved)
    storage.write(link, "model", {"a": 1})
    assert link.is_symlink()
    assert storage.read(saved, "model") == {"a": 1}


def test_a_new_file_has_the_usual_rights(saved, tmp_path):
    (tmp_path / "plain").touch()
    assert saved.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_file_that_was_private_stays_private(saved):
    saved.chmod(0o600)
    storage.write(saved, "model", {"a": 1})
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", [81 * "漢", 255 * "m"])
def test_the_longest_names_can_be_written_and_locked(name, tmp_path):
    """Hidden files next to them were cut to 200 characters, which may be 800 bytes."""
    storage.write(tmp_path / name, "model", {"a": 1})
    assert storage.read(tmp_path / name, "model") == {"a": 1}
    with storage.alone(tmp_path / name) as first, storage.alone(tmp_path / name) as second:
        assert (first, second) == (True, False)
    assert os.listdir(tmp_path) == [name]


def test_a_lock_is_no_way_to_files_elsewhere(tmp_path):
    """Who may write to the folder could have an empty file made anywhere, or all wait."""
    (tmp_path / ".a.lock").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / ".b.lock")
    for name in ("a", "b"):
        with storage.alone(tmp_path / name) as is_alone:
            assert is_alone
    assert not os.listdir(tmp_path)


def test_a_file_that_is_being_written_is_not_swept_away(saved, monkeypatch):
    """A second writer of the same name sweeps up what killed writers left, and no more."""
    real = os.fsync

    def write_once_more(descriptor):
        monkeypatch.setattr(os, "fsync", real)
        storage.write(saved, "model", {"a": 2})
        real(descriptor)

    monkeypatch.setattr(os, "fsync", write_once_more)
    storage.write(saved, "model", {"a": 1})  # ends last
    assert storage.read(saved, "model") == {"a": 1}


def test_what_a_killed_writer_left_is_swept_away(saved, tmp_path):
    left = tmp_path / ".tree.h5.0123456789ab.tmp"
    for name in (left.name, ".tree.h5.tmp", ".other.h5.0123456789ab.tmp"):
        (tmp_path / name).write_bytes(b"half of a file")
    storage.write(saved, "model", {"a": 1})
    assert sorted(os.listdir(tmp_path)) == [".other.h5.0123456789ab.tmp", ".tree.h5.tmp", "tree.h5"]


def test_a_whole_file_is_not_swept_away_before_it_is_renamed(saved, monkeypatch):
    """The lock was dropped just before."""
    real = os.replace

    def write_once_more(*names):
        monkeypatch.setattr(os, "replace", real)
        storage.write(saved, "model", {"a": 2})
        real(*names)

    monkeypatch.setattr(os, "replace", write_once_more)
    storage.write(saved, "model", {"a": 1})
    assert storage.read(saved, "model") == {"a": 1}


def test_a_file_swept_away_before_it_is_locked_is_made_again(saved, monkeypatch):
    real = fcntl.flock

    def sweep_first(file, how):
        monkeypatch.setattr(fcntl, "flock", real)
        os.unlink(file.name)
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    storage.write(saved, "model", {"a": 1})
    assert storage.read(saved, "model") == {"a": 1}


def test_a_writer_holds_the_lock_of_its_temporary_file(saved, monkeypatch):
    real, held = os.fsync, []

    def look(descriptor):
        for path in saved.parent.glob(".*.tmp"):
            with open(path, "rb") as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.append(path)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    storage.write(saved, "model", {"a": 1})
    assert held
