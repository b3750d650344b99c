"""Files of every format version give what they gave; spoilt ones load right or are refused."""

import json
import random
import re
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mutations
import streamrf as srf
from integers import assert_same_bytes
from streamrf import storage
from streamrf.engine import Checkpoint
from streamrf.errors import CheckpointError, FormatError, SolveError, StreamrfError
from streamrf.storage.base import FORMAT_VERSION
from streamrf.storage.fields import Fields, loading
from streamrf.training import begin, finish
from streamrf.training.job import Job
from streamrf.training.passes import Pass

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
sys.path.append(str(FIXTURES))

import make  # noqa: E402

NAMES = [
    "classes.model.h5",
    "classes.statistics.h5",
    "pass.checkpoint",
    "values.model.h5",
    "values.statistics.h5",
]
VERSIONS = range(1, FORMAT_VERSION + 1)
every_file = pytest.mark.parametrize("name", NAMES)


def fixture(name, version=FORMAT_VERSION):
    return FIXTURES / f"format-{version}" / name


def load(path):
    """What a file of any kind holds."""
    kind = storage.read_kind(path)
    if kind == "model":
        return srf.load_model(path)
    if kind == "statistics":
        return srf.load_statistics(path)
    checkpoint = Checkpoint(path, 0.0, {}, make.source("labels"))
    with pytest.raises(CheckpointError, match="is of another job"):
        checkpoint.read()
    with loading(path):
        return Pass.from_tree(Fields(storage.read(path, kind), str(path)).tree("state"))


# ---- files that people have ---------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_its_files(version):
    found = {path.name for path in fixture("", version).iterdir()}
    assert found == {*NAMES, "figures.json"}
    for name in NAMES:
        header = fixture(name, version).read_bytes()[:512]
        assert header.startswith(f"streamrf {version}\n".encode())


def assert_gives(found, expected, rtol):
    """The same words and whole numbers, and floats but for rounding."""
    assert found.keys() == expected.keys()
    for key in found:
        a, b = np.array(found[key]), np.array(expected[key])
        assert a.shape == b.shape, key
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=0, atol=rtol * np.abs(b).max(), err_msg=key)
        else:
            np.testing.assert_array_equal(a, b, err_msg=key)


@pytest.mark.parametrize("version", VERSIONS)
@every_file
def test_files_give_the_figures_recorded(name, version):
    """Features may differ by rounding on another processor: of a resumed pass by whole steps."""
    expected = json.loads(fixture("figures.json", version).read_text())[name]
    rtol = 1e-3 if name == "pass.checkpoint" else 1e-5
    assert_gives(make.figures(fixture(name, version)), expected, rtol)


def test_sums_in_a_file_are_those_of_its_rows():
    """By definition: ``q = rint((z - shift) / step)``, summed in whole numbers."""
    statistics = srf.load_statistics(fixture("classes.statistics.h5"))
    encoder = statistics.encoder
    calibration = encoder.calibration
    Z = encoder.features.transform(encoder.preprocessing.apply(make.ROWS)).astype(np.float64)
    Q = np.rint((Z - calibration.shift) / calibration.step).astype(np.int64)
    expected = np.array([Q[label == make.LABELS].sum(axis=0) for label in statistics.labels])
    assert np.abs(statistics.class_sums - expected).max() <= 1  # a step, on another processor


def keys_of(document):
    """The keys of a JSON document, without those of stores, settings of objects and arrays."""
    for key, value in document.items():
        if key == "params" or "$array" in document:
            continue
        if not re.fullmatch(r"[0-9a-f]{32}|\d+", key):
            yield key
        if isinstance(value, dict) and "$array" not in value:
            yield from keys_of(value)


@every_file
def test_every_key_is_described(name):
    page = (ROOT / "docs" / "formats.md").read_text()
    keys = set(keys_of(mutations.document_of(fixture(name).read_bytes())))
    assert len(keys) > 20
    assert [key for key in sorted(keys) if not re.search(rf"[`/]{key}[`/]", page)] == []


# ---- spoilt files -------------------------------------------------------------------------------

seeds = st.integers(0, 2**32 - 1)
on_files = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


@every_file
@on_files
@given(st.sampled_from(mutations.BLIND), seeds)
def test_a_spoilt_file_loads_right_or_is_refused(tmp_path, name, mutate, seed):
    original = fixture(name)
    path = tmp_path / name
    path.write_bytes(mutate(original.read_bytes(), random.Random(seed)))
    try:
        kind = storage.read_kind(path)
        tree = storage.read(path, kind)
    except StreamrfError:
        return
    assert_same_bytes(tree, storage.read(original, kind))  # only the header's remark was spoilt


@every_file
@on_files
@given(st.sampled_from(mutations.SEALED), seeds)
def test_a_forged_file_loads_or_is_refused_without_harm(tmp_path, name, mutate, seed):
    path = tmp_path / name
    path.write_bytes(mutate(fixture(name).read_bytes(), random.Random(seed)))
    told = f"{path} loaded"
    tracemalloc.start()
    try:
        load(path)
    except FormatError as error:
        told = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert str(path) in told
    assert "\n" not in told
    assert peak < 20e6  # the file has 30 kB


@every_file
def test_some_forged_files_load_and_some_do_not(tmp_path, name):
    """Or the test above would say nothing."""
    path = tmp_path / name
    loaded = 0
    for seed in range(60):
        path.write_bytes(mutations.revalued(fixture(name).read_bytes(), random.Random(seed)))
        try:
            load(path)
            loaded += 1
        except FormatError:
            pass
    assert 5 < loaded < 55


@every_file
def test_every_key_of_a_file_is_missed(tmp_path, name):
    """A key that a file may go without is a default that nobody sees."""
    data = fixture(name).read_bytes()
    document = mutations.document_of(data)
    path = tmp_path / name
    places = [
        (holder, key)
        for holder, key in mutations.places(document)
        if isinstance(holder, dict) and not {"$array", "dtype"} & holder.keys()
    ]
    assert len(places) > 30
    kept = []
    for holder, key in places:
        before = dict(holder)
        del holder[key]
        path.write_bytes(mutations.with_document(data, document))
        try:
            load(path)
            kept.append(key)
        except FormatError:
            pass
        holder.clear()
        holder.update(before)
    assert set(kept) <= {
        *("probabilities", "posterior"),  # not every model has them
        *("random_state", "n_components", "up", "kernel", "inner", "measure", "p", "projection"),
        *("tolerance", "h01", "paired", "degree", "gamma", "coef0"),  # settings have defaults
        *document.get("job", ()), "job", "y", "weights", "params", "fitted", "class",  # of the job
    }  # fmt: skip


@pytest.mark.slow
def test_fuzz():
    """`scripts/fuzz.py` in short."""
    script = ROOT / "scripts" / "fuzz.py"
    done = subprocess.run(
        [sys.executable, script, "--files", "1000", "--seed", "0"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["loaded"] + counts["refused"] == 1000
    assert min(counts["loaded"], counts["refused"]) > 50


@pytest.mark.parametrize("name", ["classes.statistics.h5", "values.statistics.h5"])
def test_sums_that_overflow_are_refused_when_they_are_solved(name):
    """A file may hold any finite step."""
    statistics = srf.load_statistics(fixture(name))
    calibration = statistics.encoder.calibration
    wide = replace(calibration, step=np.full_like(calibration.step, 1e160))
    statistics = replace(statistics, encoder=replace(statistics.encoder, calibration=wide))
    solves = [statistics.solve, lambda: statistics.path([1.0])]
    if statistics.n_folds:
        solves.append(lambda: statistics.cross_validate([1.0]))
    for solve in solves:
        with pytest.raises(SolveError), np.errstate(all="ignore"):
            solve()


def change(tree, *values):
    """The tree with other values at paths, None for a key left out."""
    for path, value in values:
        *folders, key = path.split("/")
        inner = tree
        for folder in folders:
            inner = inner[folder]
        inner.pop(key, None)
        if value is not None:
            inner[key] = value
    return tree


def without_features(tree):
    nothing, n_targets = np.empty(0), len(tree["sums"]["targets"]["sums"])
    return change(
        tree,
        ("encoder/picks", np.empty(0, dtype=np.int64)),
        ("encoder/calibration/shift", nothing),
        ("encoder/calibration/step", nothing),
        ("sums/gram", nothing),
        ("sums/targets/sums", np.empty((n_targets, 0))),
        ("sums/targets/feature_sums", nothing),
        ("sums/targets/rest", None),
    )


def without_targets(tree):
    width = tree["sums"]["targets"]["sums"].shape[1]
    return change(
        tree,
        ("encoder/calibration/target_shift", np.empty(0)),
        ("encoder/calibration/target_step", np.empty(0)),
        ("sums/targets/sums", np.empty((0, width))),
        ("sums/targets/rest", None),
        ("sums/targets/totals", []),
        ("sums/targets/squares", []),
    )


def of_a_map_of_any_width(tree):
    """A tensor sketch has no array of its width, so a file of 1 kB may claim any."""
    features = srf.TensorSketch(srf.Polynomial(), 16, random_state=0).fit(make.ROWS)
    statistics = srf.load_statistics(fixture("values.statistics.h5"))
    encoder = replace(statistics.encoder, features=features)
    tree["encoder"] = encoder.to_tree()
    return change(
        tree,
        ("encoder/picks", np.arange(statistics.encoder.n_components)),
        ("encoder/features/params/n_components", 2**30),
    )


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without_features, "calibration/shift' is empty"),
        (without_targets, "targets/sums' is of no targets"),
        (of_a_map_of_any_width, "features' has over 65535 components"),
    ],
)
def test_sums_that_could_answer_nothing_are_refused_at_the_door(spoil, message, tmp_path):
    path = tmp_path / "spoilt.h5"
    statistics = srf.load_statistics(fixture("values.statistics.h5")).without_folds()
    storage.write(path, "statistics", spoil(statistics.to_tree()))
    with pytest.raises(FormatError, match=message):
        srf.load_statistics(path)


@pytest.mark.parametrize(
    ("name", "key"), [("values", "feature_sums"), ("classes", "sums"), ("classes", "weights")]
)
def test_sums_that_no_rows_have_are_refused_at_the_door(name, key):
    tree = srf.load_statistics(fixture(f"{name}.statistics.h5")).without_folds().to_tree()
    targets = tree["sums"]["targets"]
    targets[key] = np.full_like(targets[key], 9e299)
    with pytest.raises(FormatError, match="targets' holds sums too great to be of rows"):
        srf.Statistics.from_tree(tree)


def test_a_loss_that_overflows_is_refused():
    statistics = srf.load_statistics(fixture("classes.statistics.h5"))
    model = statistics.solve(1.0)
    huge = replace(model, coef=np.full_like(model.coef, 1e300))
    labels = np.resize(model.labels, len(make.ROWS))
    weights = None if model.encoder.calibration.mean_weight is None else np.ones(len(labels))
    source = srf.ArraySource(make.ROWS, labels, weights)
    for loss in ("logistic", "squared_hinge"):
        with pytest.raises(SolveError, match="loss overflows"), np.errstate(all="ignore"):
            srf.refine(huge, source, loss)


def test_an_estimator_of_another_number_of_columns_is_refused(tmp_path):
    X = make.ROWS
    features = srf.RandomFourier(n_components=8, random_state=0)
    srf.RandomFeatureRegressor(features, alpha=1.0).fit(X, X[:, 0]).save(tmp_path / "one.h5")
    model = srf.load_model(tmp_path / "one.h5", estimator=False)
    tree = {**model.estimator, "n_features_in_": X.shape[1] + 1}
    replace(model, estimator=tree).save(tmp_path / "one.h5")
    with pytest.raises(FormatError, match=r"n_features_in_' is not the model"):
        srf.load_model(tmp_path / "one.h5")


def test_an_array_without_bytes_cannot_claim_more_columns_than_the_file_has_bytes(tmp_path):
    data = fixture("classes.statistics.h5").read_bytes()
    document = mutations.document_of(data)
    arrays = [holder[key] for holder, key in mutations.places(document) if key == "$array"]
    arrays[0]["shape"] = [0, 2**40]
    path = tmp_path / "spoilt.h5"
    path.write_bytes(mutations.with_document(data, document))
    with pytest.raises(FormatError, match=r"shape \[0, 1099511627776\]"):
        srf.load_statistics(path)


def test_sums_of_targets_that_overflow_are_refused_by_every_question():
    """Each is a finite number, and so loads; in the features' units they are not."""
    statistics = srf.load_statistics(fixture("values.statistics.h5"))
    tree = statistics.without_folds().to_tree()
    step, sums = tree["encoder"]["calibration"]["step"], tree["sums"]["targets"]["sums"]
    change(tree, ("encoder/calibration/step", 1e10 * step))
    change(tree, ("sums/targets/sums", np.full_like(sums, 1e300)))
    spoilt = srf.Statistics.from_tree(tree)
    questions = [
        lambda: spoilt.solve(1.0),
        lambda: spoilt.path([1.0]),
        lambda: spoilt.prune(2),
        lambda: spoilt.prune(2, 1.0),
    ]
    for question in questions:
        with pytest.raises(SolveError, match="overflow"), np.errstate(all="ignore"):
            question()


def test_held_out_errors_that_overflow_choose_no_penalty(rng):
    X = rng.normal(size=(96, 4))
    source = srf.ArraySource(X, X[:, 0])
    features = srf.RandomFourier(n_components=8, random_state=0)
    settings = srf.Settings(features=features, regression=True, hold_out=True, random_state=0)
    job = Job.of(source, settings)
    tree = job.fold(begin(job)).to_tree()
    for rows in tree["holdout"]["held"].values():
        rows["y"] = np.full_like(rows["y"], 1e200)
    with pytest.raises(SolveError, match="held out overflow"), np.errstate(all="ignore"):
        finish(Pass.from_tree(tree), "auto")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--places", "8", "--cuts", "8"], ["--cuts", "30", "--spoil"]])
def test_disk_faults(words):
    """`scripts/disk_faults.py` in short; where nothing is forced to disk it finds torn files."""
    script = ROOT / "scripts" / "disk_faults.py"
    words = ["--places", "0", *words]
    done = subprocess.run([sys.executable, script, *words], capture_output=True, text=True)
    counts = json.loads(done.stdout)
    assert done.returncode == ("--spoil" in words), done.stderr
    assert (counts["torn"] > 0) == ("--spoil" in words)
