"""Statistics put together and taken apart give the very sums of one pass, as files too."""

import copy
import os
import re
import tracemalloc
from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np
import pytest

import streamrf as srf
from cases import write_hdf5
from commands import answer, misused, refused, told
from integers import assert_same_bytes, features
from streamrf.errors import ConsumedError, DataError, FormatError, MergeError, ParameterError
from streamrf.preprocessing import Warp

N, D = 1200, 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)).astype(np.float32)
LABELS = (X[:, 0] > 0).astype(np.int64) + (X[:, 1] > 0.5)
WORDS = np.array(["red", "green", "blue"])[LABELS]
VALUES = np.stack((X[:, 0] * X[:, 1], 100 + X[:, 2]), axis=1).astype(np.float64)
WEIGHTS = RNG.random(N) + 0.01

# Kinds of sums: targets, weights, settings of the first pass.
KINDS = {
    "labels": (LABELS, None, {}),
    "words": (WORDS, WEIGHTS, {"normalize": "standard"}),
    "values": (VALUES, WEIGHTS, {"regression": True}),
    "bits": (LABELS, None, {"codes": srf.ErrorCorrectingCodes(2), "classes": [0, 1, 2]}),
    "folds": (LABELS, None, {"folds": 3}),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def pass_over(kind, rows=None, like=None, **changes):
    """Statistics of a range of rows; `changes` are other targets or weights."""
    y, weights, settings = KINDS[kind]
    y, weights = changes.get("y", y), changes.get("weights", weights)
    source = srf.ArraySource(X, y, weights)
    if like is not None:
        return srf.accumulate(source, like=like, rows=rows, regression=kind == "values")
    return srf.accumulate(source, features(20), random_state=0, rows=rows, **settings)


@every_kind
def test_what_was_added_is_removed_to_the_last_byte(kind, tmp_path):
    a = pass_over(kind, (0, 700))
    b = pass_over(kind, (700, None), like=a)
    whole = pass_over(kind, like=a)
    files = {"a": a, "back": a + b - b, "whole": whole, "both": b + a, "rest": whole - b}
    for name, statistics in files.items():
        statistics.save(tmp_path / name)
    found = {name: (tmp_path / name).read_bytes() for name in files}
    assert found["back"] == found["rest"] == found["a"]
    assert found["both"] == found["whole"] != found["a"]


@every_kind
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_absorb_others_as_the_operators_do(kind, sign):
    whole = pass_over(kind)
    b = pass_over(kind, (200, 500), like=whole)
    a = whole - b if sign > 0 else whole
    expected = a + b if sign > 0 else a - b
    before = copy.deepcopy(b.to_tree())
    assert_same_bytes(a.absorb(b, sign).to_tree(), expected.to_tree())
    assert_same_bytes(b.to_tree(), before)


@every_kind
def test_sums_are_marked_as_scaled_where_either_side_was(kind, tmp_path):
    """Of scaled sums no row can be removed, so a sum that forgets its scaled side is wrong."""
    a = pass_over(kind, (0, 700))
    b = pass_over(kind, (700, None), like=a)
    assert not (a + b).is_scaled
    for merged in (a.scale(0.5) + b, a + b.scale(0.5), a.scale(0.5) + b.scale(0.5)):
        assert merged.is_scaled
        assert not merged.sums.exact
        with pytest.raises(MergeError, match="side was scaled"):
            merged - b
        merged.save(tmp_path / "merged.h5")
        assert srf.load_statistics(tmp_path / "merged.h5").is_scaled


@pytest.mark.parametrize("n_folds", [None, 2])
def test_faded_rows_count_as_far_as_they_are_left_whatever_they_weigh(n_folds, tmp_path):
    """Those of weight 0 counted, and others in units of the mean weight of the first rows."""
    weights = np.where(np.arange(len(X)) % 2, 0.0, 0.01)
    source = srf.ArraySource(X, VALUES, weights)
    settings = {"regression": True, "random_state": 0, "folds": n_folds}
    a = srf.accumulate(source, features(20), rows=(0, 400), **settings)
    later = srf.ArraySource(X, VALUES, np.where(weights, 0.02, 0.0))
    b = srf.accumulate(later, like=a, rows=(400, 700))
    faded = a.scale(0.5).scale(0.5) + b
    assert faded.path().n_rows == 200 / 4 + 150
    faded.save(tmp_path / "faded.h5")
    assert srf.load_statistics(tmp_path / "faded.h5").path().n_rows == 200
    whole, scaled = (a + b).path([1.0]), (a + b).scale(1 - 1e-12).path([1.0])
    np.testing.assert_allclose(scaled.gcvs, whole.gcvs, rtol=1e-6)
    np.testing.assert_allclose(scaled.log_evidences, whole.log_evidences, rtol=1e-6)


def test_scaled_sums_of_early_files_are_counted_by_their_weights():
    a = srf.accumulate(srf.ArraySource(X, LABELS), features(20), random_state=0).scale(0.5)
    tree = a.to_tree()
    assert tree["sums"].pop("n_faded") == len(X) / 2
    early = srf.Statistics.from_tree(tree)
    assert early.path().n_rows == pytest.approx(len(X) / 2)
    tree["sums"]["n_faded"] = -1.0
    with pytest.raises(FormatError, match=r"'sums/n_faded' is -1\.0"):
        srf.Statistics.from_tree(tree)


@pytest.mark.parametrize("n_folds", [None, 2])
def test_to_absorb_takes_no_third_gram(n_folds):
    source, width = srf.ArraySource(X, LABELS), 800
    a = srf.accumulate(source, features(width), rows=(0, 700), folds=n_folds)
    b = srf.accumulate(source, like=a, rows=(700, None))
    tracemalloc.start()
    a.absorb(b)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * 8 * width * (width + 1) / 2


@every_kind
def test_rows_removed_with_other_targets_or_weights_are_refused(kind):
    """Of some rows the sums tell, if not always; of all rows of a store the ledger does."""
    whole = pass_over(kind)
    other = {
        "labels": {"y": np.zeros_like(LABELS)},
        "words": {"weights": 2 * WEIGHTS},
        "values": {"y": 2 * VALUES},
        "bits": {"y": np.zeros_like(LABELS)},
        "folds": {"y": np.zeros_like(LABELS)},
    }[kind]
    message = {
        "words": "more rows of class 'blue' would be removed than were counted",
        "values": "more would be removed than was counted: .* other targets or weights",
    }.get(kind, "more rows of class 0 would be removed than were counted: .* other labels")
    with pytest.raises(MergeError, match=message):
        whole - pass_over(kind, (0, 1100), like=whole, **other)
    with pytest.raises(MergeError, match="the rows of X were summed with other targets or weights"):
        whole - pass_over(kind, like=whole, **other)


def test_rows_left_out_on_one_side_alone_are_not_removed():
    dirty = X.copy()
    dirty[100, 0] = np.nan
    clean = srf.accumulate(srf.ArraySource(X, LABELS), features(20), random_state=0)
    other = srf.accumulate(
        srf.ArraySource(dirty, LABELS), like=clean, rows=(90, 110), on_bad_rows="skip"
    )
    with pytest.raises(MergeError, match=r"left out 1 of those .*not summed from the same data"):
        clean - other


def test_labels_of_another_kind_are_refused():
    a = pass_over("labels", (0, 700))
    for labels in (WORDS, LABELS.astype(np.float64)):
        b = pass_over("labels", (700, None), like=a, y=labels)
        with pytest.raises((MergeError, DataError), match="labels"):
            a + b


def test_unrounded_sums_of_which_nothing_is_left_can_be_saved(tmp_path):
    """Rounding leaves a little below 0 where nothing should be."""
    for y, settings in ((WORDS, {}), (VALUES, {"regression": True})):
        source = srf.ArraySource(X, y, WEIGHTS)
        a = srf.accumulate(source, features(20), precision="float64", rows=(0, 700), **settings)
        b = srf.accumulate(source, like=a, rows=(700, None), **settings)
        nothing = a + b - a - b
        nothing.save(tmp_path / "nothing.h5")
        assert srf.load_statistics(tmp_path / "nothing.h5").n_rows == 0
        assert np.abs(nothing.gram).max() < 1e-9 * np.abs(a.gram).max()


# ---- on the command line ------------------------------------------------------------------------

SMALL = ("--map", "maclaurin", "--components", "30", "--normalize", "l2")
QUARTERS = [f"quarter{i}.h5" for i in range(4)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Data in four files, their statistics of one calibration, and those of one pass over all."""
    place = tmp_path_factory.mktemp("files")
    before = os.getcwd()
    os.chdir(place)
    try:
        for i, name in enumerate(QUARTERS):
            rows = slice(300 * i, 300 * (i + 1))
            write_hdf5(Path(name), X[rows], LABELS[rows])
        answer("fit", QUARTERS[0], *SMALL, "--statistics", "s0.h5")
        for i in (1, 2, 3):
            answer("fit", QUARTERS[i], "--like", "s0.h5", "--statistics", f"s{i}.h5")
        answer("fit", *QUARTERS, "--like", "s0.h5", "--alpha", "0.01", "--statistics", "whole.h5",
               "--model", "m.h5")  # fmt: skip
        answer("fit", QUARTERS[1], *SMALL, "--seed", "1", "--statistics", "map.h5")
        answer("fit", QUARTERS[1], *SMALL, "--normalize", "standard", "--statistics", "scaled.h5")
        answer("fit", QUARTERS[1], *SMALL, "--statistics", "calibrated.h5")
        answer("fit", QUARTERS[0], *SMALL, "--folds", "3", "--statistics", "folds.h5")
        write_hdf5(Path("words.h5"), X[300:600], WORDS[300:600])
        answer("fit", "words.h5", "--like", "s0.h5", "--statistics", "swords.h5")
    finally:
        os.chdir(before)
    return place


@pytest.fixture
def folder(tmp_path, monkeypatch, files):
    """An empty folder to stand in, beside the files made once."""
    monkeypatch.chdir(tmp_path)
    for file in files.iterdir():
        os.link(file, file.name)
    return tmp_path


def content(name):
    return Path(name).read_bytes()


@pytest.mark.usefixtures("folder")
def test_four_quarters_merge_to_the_bytes_of_the_whole():
    merged = answer("stats", "merge", "s2.h5", "s0.h5", "s3.h5", "s1.h5", "-o", "merged.h5")
    assert content("merged.h5") == content("whole.h5")
    assert (merged["n_rows"], merged["n_rows_each"]) == (1200, [300] * 4)
    assert (merged["labels"], merged["output"]) == ([0, 1, 2], "merged.h5")


@pytest.mark.usefixtures("folder")
def test_a_model_of_merged_files_predicts_as_that_of_one_pass():
    told("stats", "merge", *(f"s{i}.h5" for i in range(4)), "--output", "merged.h5")
    told("solve", "merged.h5", "--alpha", "0.01", "--model", "m2.h5")
    for model, found in (("m.h5", "p.h5"), ("m2.h5", "p2.h5")):
        told("predict", model, *QUARTERS, "-o", found, "--scores")
    with h5py.File("p.h5") as ours, h5py.File("p2.h5") as theirs:
        for name in ("y", "scores"):
            np.testing.assert_array_equal(ours[name], theirs[name], strict=True)
    assert content("m.h5") == content("m2.h5")


@pytest.mark.usefixtures("folder")
def test_a_part_subtracted_leaves_the_bytes_of_the_others():
    told("stats", "merge", "s0.h5", "s1.h5", "s3.h5", "-o", "others.h5")
    left = answer("stats", "subtract", "whole.h5", "s2.h5", "-o", "left.h5")
    assert content("left.h5") == content("others.h5")
    assert (left["n_rows"], left["n_rows_each"]) == (900, [1200, 300])
    told("stats", "subtract", "left.h5", "others.h5", "-o", "nothing.h5")
    assert answer("stats", "info", "nothing.h5")["n_rows"] == 0


def test_5000_rows_removed_are_those_of_a_pass_that_never_saw_them(data_dir, tmp_path):
    source = srf.HDF5Source(data_dir / "ijcnn1.h5", x="train/X", y="train/y")
    kernel = srf.Gaussian(gamma="median")
    whole = srf.accumulate(source, srf.RandomFourier(kernel, 64), random_state=0, folds=2)
    removed = srf.accumulate(source, like=whole, rows=(20_000, 25_000))
    before = srf.accumulate(source, like=whole, rows=(0, 20_000))
    after = srf.accumulate(source, like=whole, rows=(25_000, None))
    for name, statistics in {"left": whole - removed, "never": before + after}.items():
        statistics.save(tmp_path / name)
    assert (tmp_path / "left").read_bytes() == (tmp_path / "never").read_bytes()
    assert (whole - removed).n_rows == source.n_rows - 5000


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("merge", "s0.h5", "s1.h5", "s0.h5"), r"s0\.h5 cannot be added: rows 0 to 299 of quarter0"
         r".* are on both sides and would be counted twice; stores are told apart by their first"),
        (("merge", "s1.h5", "whole.h5"), "rows 0 to 299 of quarter1.* counted twice"),
        (("merge", "s0.h5", "map.h5"), r"map\.h5 cannot .* different feature maps; .*--like"),
        (("merge", "s0.h5", "scaled.h5"), "summed with different preprocessing; .*--like"),
        (("merge", "s0.h5", "calibrated.h5"), "summed with different calibrations; .*--like"),
        (("merge", "s0.h5", "swords.h5"), r"swords\.h5 cannot be added: labels must be"),
        (("merge", "s1.h5", "folds.h5"), "sums in no folds, the other in 3"),
        (("merge", "s0.h5", "m.h5"), r"m\.h5 holds a model, not statistics; give the"),
        (("merge", "s0.h5", "none.h5"), r"there is no file none\.h5"),
        (("merge", "s0.h5", "quarter1.h5"), r"quarter1\.h5 is an HDF5 file but not one of"),
        (("merge", "s0.h5", "s1.h5", "--memory-limit", "1 MiB"),
         r"holding two statistics of .* takes about .* above the memory limit of 1\.00 MiB; "
         "free memory or raise memory_limit"),
        (("subtract", "s0.h5", "s1.h5"), r"s1\.h5 cannot be removed: rows 0 to 299 of "
         "quarter1.* were never counted here"),
        (("subtract", "s1.h5", "whole.h5"), "were never counted here"),
        (("subtract", "s0.h5", "map.h5"), "summed with different feature maps"),
    ],
    ids=lambda value: "-".join(value[:3]) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(arguments, message, folder):
    before = set(folder.iterdir())
    earlier = content("s0.h5")
    Path("out.h5").write_bytes(earlier)
    line = refused("stats", *arguments, "-o", "out.h5")
    assert re.search(message, line), line
    assert content("out.h5") == earlier
    assert set(folder.iterdir()) - before == {folder / "out.h5"}


@pytest.mark.usefixtures("folder")
def test_no_input_is_overwritten():
    for words in (("merge", "s0.h5", "s1.h5", "-o", "s1.h5"),
                  ("subtract", "whole.h5", "s1.h5", "-o", "whole.h5")):  # fmt: skip
        before = content(words[-1])
        assert "is read from too; choose another name" in refused("stats", *words)
        assert content(words[-1]) == before
    assert "give two files or more" in misused("stats", "merge", "s0.h5", "-o", "new.h5")
    assert "Missing option '--output'" in misused("stats", "merge", "s0.h5", "s1.h5")


@pytest.mark.usefixtures("folder")
def test_a_merge_in_words():
    text = told("stats", "merge", "s0.h5", "s1.h5", "-o", "both.h5")
    assert re.fullmatch(
        r"read +300 rows of s0\.h5\nadded +300 rows of s1\.h5\nrows +600\nfeatures +30\n"
        r"classes +3\ntime +\S+ m?s\nwritten +both\.h5, \S+ kiB\n",
        text,
    )
    text = told("stats", "subtract", "both.h5", "s1.h5", "-o", "left.h5")
    assert "removed   300 rows of s1.h5\nrows      300\n" in text


@pytest.mark.usefixtures("folder")
def test_statistics_tell_what_they_hold():
    found = answer("stats", "info", "folds.h5")
    assert found == answer("info", "folds.h5")
    assert (found["n_folds"], found["n_rows"], found["is_scaled"]) == (3, 300, False)
    assert re.search(r"folds +3\n", told("stats", "info", "folds.h5"))
    srf.load_statistics("s0.h5").scale(0.5).save("half.h5")
    assert answer("stats", "info", "half.h5")["weight"] == 150
    assert "exact to rounding only" in told("stats", "info", "half.h5")
    assert "m.h5 holds a model, not statistics" in refused("stats", "info", "m.h5")


def test_faded_rows_count_as_far_as_they_are_left(rng):
    """Noise, deviations and penalties are those of as many fresh rows."""
    map_ = srf.StructuredFourier(srf.Gaussian(0.3), 32, random_state=0)

    def rows(n):
        A = rng.normal(size=(n, 2))
        return srf.ArraySource(A, np.sin(2 * A[:, 0]) + rng.normal(size=n))

    faded = first = srf.accumulate(rows(500), map_, regression=True)
    for _ in range(40):
        faded = faded.scale(0.5) + srf.accumulate(rows(500), like=first, regression=True)
    fresh = srf.accumulate(rows(1000), like=first, regression=True)
    assert faded.weight == pytest.approx(fresh.weight)
    alphas = [statistics.path().best_alpha() for statistics in (faded, fresh)]
    assert 0.01 < alphas[0] / alphas[1] < 100
    figures = faded.solve(alphas[0], uncertainty=True).evaluate(rows(2000), return_std=True)
    assert figures["coverage"]["0.95"] == pytest.approx(0.95, abs=0.03)
    assert faded.path().n_rows == pytest.approx(1000)


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_factors_beyond_what_sums_of_floats_hold_are_refused(factor):
    a = pass_over("values")
    with pytest.raises(ParameterError, match="makes the rows weigh"):
        a.scale(factor)


@pytest.mark.parametrize("n_folds", [None, 2])
def test_sums_that_absorbed_others_are_used_up(n_folds, tmp_path):
    source = srf.ArraySource(X, LABELS)
    a = srf.accumulate(source, features(64), rows=(0, 700), folds=n_folds)
    b = srf.accumulate(source, like=a, rows=(700, None))
    of_a = a.without_folds() if n_folds is None else a
    expected = (a + b).to_tree()
    both = a.absorb(b)
    for ask in (lambda: a.absorb(b), lambda: a.save(tmp_path / "a"), lambda: of_a.solve(1.0)):
        with pytest.raises(ConsumedError, match="absorb"):
            ask()
    assert_same_bytes(both.to_tree(), expected)


def test_minus_zero_is_the_label_zero():
    A = X[:200]
    sides = [np.where(LABELS[:200] % 2, 1.0, zero) for zero in (-0.0, 0.0)]
    a = srf.accumulate(srf.ArraySource(A, sides[0]), features(16))
    b = srf.accumulate(srf.ArraySource(A + 1, sides[1]), like=a)
    assert_same_bytes((a + b).to_tree(), (b + a).to_tree())
    assert not np.signbit(a.labels).any()


def like_this(y, **options):
    map_ = srf.RandomFourier(srf.Gaussian(0.5), 16)
    return srf.accumulate(srf.ArraySource(X, y), map_, random_state=0, **options)


WARP = Warp(np.eye(D, dtype=np.float32), np.ones(D))
WARPED = {"warp": "diagonal", "normalize": "standard"}


@pytest.mark.parametrize(
    ("earlier", "given", "match"),
    [
        ({}, {"regression": True}, "task='regression' .*, but the .* are of classes"),
        ({}, {"task": "regression"}, "task='regression' .*, but the .* are of classes"),
        ({"regression": True}, {"task": "classification"}, "'classification' .* are of values"),
        ({"regression": True}, {"codes": srf.OneVsRest()}, "codes=, .* are of values"),
        ({"regression": True}, {"classes": [0, 1]}, "codes=, classes= .* are of values"),
        ({}, {"normalize": "l2"}, "normalize='l2', but the .* have None; leave normalize out"),
        (WARPED, {"normalize": None}, "normalize=None, but the .* have 'standard'"),
        (WARPED, {"warp": "full"}, "warp='full', but the .* have 'diagonal'"),
        (WARPED, {"warp": None}, "warp=None, but the .* have 'diagonal'"),
        (
            {},
            {"warp": Warp(np.eye(D, dtype=np.float32), np.ones(D))},
            r"warp=Warp\(.*, but the .* have None",
        ),
        ({}, {"precision": "float64"}, "precision='float64', but the .* have 'exact'"),
        ({"precision": "coarse"}, {"precision": "float64"}, "but the .* have 'coarse'"),
        ({}, {"features": srf.RandomFourier(srf.Gaussian(0.6), 16)}, "0.6.*, but the .*0.5"),
        ({}, {"features": srf.RandomFourier(srf.Gaussian(0.5), 17)}, "=17.*, but the .*=16"),
        ({}, {"features": srf.TensorSketch()}, "features=TensorSketch.*, but the .*RandomFourier"),
        ({}, {"features": "auto", "n_components": 17}, "n_components=17, but the .* have 16"),
        ({}, {"features": "auto", "kernels": "gaussian"}, r"kernels \(--kernels\) choose"),
    ],
)
def test_settings_that_contradict_earlier_statistics_are_refused(earlier, given, match):
    """They were taken for those of the earlier statistics in silence, and values for labels."""
    y = X[:, 0] if earlier.get("regression") else LABELS
    first = like_this(y, **earlier)
    with pytest.raises(ParameterError, match=match):
        srf.accumulate(srf.ArraySource(X + 1, y), like=first, **given)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"codes": srf.ErrorCorrectingCodes(4, random_state=5)}, "codes=.*another code"),
        ({"codes": srf.ErrorCorrectingCodes(5, random_state=3)}, "4 bits of a code .* not of 5"),
        ({"classes": [0, 1]}, "classes=.*a code of"),
    ],
)
def test_another_code_book_than_that_of_earlier_sums_is_refused(given, match):
    """The book of the sums was taken in silence."""
    classes, labels = list(range(6)), np.arange(N) % 6
    code = srf.ErrorCorrectingCodes(4, random_state=3)
    first = like_this(labels, codes=code, classes=classes)
    source = srf.ArraySource(X + 1, labels)
    again = srf.accumulate(source, like=first, codes=code, classes=classes)
    assert_same_bytes(again.to_tree(), srf.accumulate(source, like=first).to_tree())
    with pytest.raises(ParameterError, match=match):
        srf.accumulate(source, like=first, **given)


def test_settings_of_earlier_statistics_may_be_said_again(tmp_path):
    same = {"normalize": "standard", "warp": "diagonal", "precision": "coarse"}
    like_this(LABELS, **same).save(tmp_path / "first.h5")
    first = srf.load_statistics(tmp_path / "first.h5")
    source = srf.ArraySource(X + 0.01, LABELS)
    expected = srf.accumulate(source, like=first).to_tree()
    map_ = srf.RandomFourier(srf.Gaussian(0.5), 16)
    for given in (
        {"features": map_, **same, "task": "classification"},
        {"features": "auto", "n_components": 16, "warp": "diagonal"},
        {"warp": first.encoder.preprocessing.warp},
    ):
        again = srf.accumulate(source, like=str(tmp_path / "first.h5"), **given)
        assert_same_bytes(again.to_tree(), expected)


@pytest.mark.parametrize("sign", [2, 0, -2, -1.0, True, 1 + 0j, np.array([-1])])
def test_sums_are_absorbed_once(sign):
    ours = pass_over("labels")
    with pytest.raises(
        ParameterError, match="sign must be 1, to add, or -1.* got " + re.escape(repr(sign))
    ):
        ours.absorb(pass_over("labels", (0, 100), like=ours), sign)


@pytest.mark.parametrize(
    "factor",
    [0, -1.0, np.inf, np.nan, True, "2", Fraction(1, 10**400), pytest.param(10**5000, id="huge")],
)
def test_what_rows_cannot_be_multiplied_by_is_refused(factor):
    a = srf.accumulate(srf.ArraySource(X, LABELS), features(20), random_state=0)
    with pytest.raises(ParameterError, match=r"factor must be a (number|float) above 0"):
        a.scale(factor)
