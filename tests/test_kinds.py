"""The kinds of candidates that can be named, each a row of one table."""

import json
import re

import h5py
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import streamrf as srf
from streamrf.cli import app
from streamrf.errors import BadRowError, CheckpointError, ParameterError
from streamrf.sources import as_source
from streamrf.training import kernel_names, kinds
from streamrf.training.candidates import Candidate, ScaledRows, crossed
from streamrf.training.images import image_shape, shape_of
from streamrf.training.judging import Judge, Trial, planned_seconds
from streamrf.training.kernel_names import DEFAULT
from streamrf.training.kind import Wanted
from streamrf.training.kinds import KINDS, NONNEGATIVE
from streamrf.training.ranking import order_of, spread
from streamrf.training.tournament import Tournament

OTHERS = [name for name in KINDS if name not in DEFAULT]
ADDITIVE = [name for name, kind in KINDS.items() if not kind.takes_negative]
every_kind = pytest.mark.parametrize("name", KINDS)


@pytest.fixture(scope="module")
def counts():
    """Images of 8 x 8 pixels, no negative entry, in two classes."""
    X, y = load_digits(return_X_y=True)
    return X[:900].astype(np.float32), (y[:900] > 4).astype(int)


@every_kind
def test_a_kind_that_is_named_is_tried_alone_and_wins_the_same_again(counts, name):
    source = srf.ArraySource(*counts)
    options = {"kernels": name, "n_components": 72, "warp": None, "budget": 0.4, "random_state": 0}
    found = srf.select(source, **options)
    assert {trial.candidate.kernel for trial in found.trials} == {name}
    assert found.winner.error < 0.3
    assert found.winner.candidate.normalize in KINDS[name].scalings
    assert srf.select(source, **options).table() == found.table()
    sums = srf.accumulate(source, found.features, normalize=found.normalize, random_state=0)
    assert sums.encoder.n_components == found.n_components
    width = KINDS[name].width_of(72, 64)
    assert found.n_components == width


@every_kind
def test_settings_near_those_tried_are_more_of_the_same_kind(name):
    kind = KINDS[name]
    seen, queue = set(), [Candidate(None, name, float(s)) for s in kind.first]
    while queue and len(seen) < 50:
        one = queue.pop()
        if one not in seen:
            seen.add(one)
            queue += one.neighbours()
            assert str(one).startswith(f"none, {name}")
    names = {str(one) for one in seen}
    assert len(names) == len(seen), "two settings have one name"
    assert set(kind.first) <= set(kind.every) | {one.setting for one in seen}
    assert all(s == int(s) for s in kind.every) or min(kind.every) > 0


@every_kind
def test_planned_seconds_grow_with_rows_and_width_of_what_has_one(name):
    one = Candidate(None, name, KINDS[name].first[0])
    seconds = [planned_seconds(one, width, 5000, 64) for width in (512, 1024)]
    assert planned_seconds(one, 512, 10_000, 64) > seconds[0]
    is_sized = KINDS[name].width_of(512, 64) == 512
    assert (seconds[1] > seconds[0]) == is_sized or name == "linear"


@every_kind
def test_the_unit_of_gamma_is_that_of_the_kernel(counts, name):
    """A kernel of gamma "median" has about the gamma of setting 1, where it has one."""
    if KINDS[name].label != kinds.GAMMA:
        return
    X = counts[0] / 10
    unit = ScaledRows(X, len(X), np.random.default_rng(0)).unit(None, name)
    made = KINDS[name].make(Wanted(1.0, unit, X.shape[1], 64, 0))
    made = made.maps[0] if isinstance(made, srf.Concatenate) else made
    learnt = type(made.kernel)(gamma="median").learn(X).checked_gamma
    assert made.kernel.gamma == pytest.approx(learnt, rel=0.15)


def test_the_field_is_named_widened_and_narrowed():
    assert kernel_names.names_of(None) == DEFAULT
    assert kernel_names.names_of("chi2, default,chi2") == ("chi2", *DEFAULT)
    assert {c.kernel for c in crossed(["gaussian", "exp-chi2"])} == {"gaussian", "exp-chi2"}
    assert [c.normalize for c in crossed(["arc-cosine"], "standard")] == []
    assert {c.normalize for c in crossed(["chi2"], "max")} == {"max"}
    assert len(crossed()) == 50  # docs/selection.md says so
    assert len(crossed(by_ranks=True)) == 64
    assert [c.normalize for c in crossed(["linear"], "quantile")] == ["quantile"]
    for wrong in ("rbf", ["gaussian", 3]):
        with pytest.raises(ParameterError, match="to choose from, which are gaussian, laplacian"):
            srf.accumulate(srf.ArraySource(np.eye(3), [0, 1, 1]), "auto", kernels=wrong)
    with pytest.raises(ParameterError, match="name one at least"):
        kernel_names.names_of([])


@pytest.mark.parametrize("width", [1, 2, 65])
def test_half_of_the_features_are_gaussian_and_half_of_columns(counts, width):
    made = KINDS["gaussian-piecewise"].make(Wanted(1.0, 1e-3, 64, width, 0)).fit(counts[0])
    assert made.n_components == width
    Z = made.transform(counts[0])
    gaussian = srf.StructuredFourier(srf.Gaussian(gamma=1e-3), width - width // 2, random_state=0)
    of_columns = [srf.PiecewiseLinear(width // 2)] if width > 1 else []
    parts = [one.fit(counts[0]).transform(counts[0]) for one in (gaussian, *of_columns)]
    np.testing.assert_array_equal(Z, np.hstack(parts))


def test_of_a_kind_as_many_go_on_as_its_row_says():
    names = ("gaussian-piecewise", "piecewise-linear", "gaussian")
    settings = [(n, s) for s in ("standard", "asinh", None, "l2") for n in (1.0, 2.0, 4.0)]
    losses = np.ones((2, 4))
    ranked = [
        Trial(Candidate(scaling, name, n), 256, 2000, 0.1, 0.1, 1.0, 1.0, losses)
        for name in names
        for n, scaling in settings
    ]
    kept = spread(ranked, 12)
    assert [sum(c.kernel == name for c in kept) for name in names] == [2, 1, 4]
    assert [c.normalize for c in kept[-4:]] == ["standard", "standard", "asinh", "asinh"]
    assert spread(ranked, 2) == kept[:2]


@pytest.mark.parametrize("name", ADDITIVE)
def test_rows_that_a_kernel_of_histograms_does_not_take_are_one_sentence(counts, name):
    X, y = counts
    assert set(KINDS[name].scalings) <= set(NONNEGATIVE)
    bad = X.copy()
    bad[700, 5] = -2.5
    with pytest.raises(ParameterError, match=f"kernels='{name}'.*column 5 has -2.5; leave it out"):
        srf.select(srf.ArraySource(bad, y), kernels=["gaussian", name])
    sparse = as_source(csr_array(np.pad(bad, ((0, 0), (0, 4100)))), y)
    with pytest.raises(ParameterError, match=r"column 5 has -2\.5"):
        srf.select(sparse, kernels=name)
    source = srf.ArraySource(X, y)
    for options in ({"normalize": "standard"}, {"warp": "full"}):
        with pytest.raises(ParameterError, match=f"'{name}' takes no negative entries, and"):
            srf.select(source, kernels=name, **options)


def test_a_warp_of_weights_leaves_histograms_what_they_are(counts):
    found = srf.select(
        srf.ArraySource(*counts),
        kernels="exp-chi2",
        warp="diagonal",
        warp_rounds=1,
        n_components=64,
        budget=0.3,
        random_state=0,
    )
    assert found.warp.kind == "diagonal"
    assert np.isfinite(found.winner.error)


def test_columns_that_are_no_square_are_not_convolved(counts):
    X, y = counts
    for n_columns in (63, 50, 4):
        rows = X[:, -n_columns:]
        with pytest.raises(ParameterError, match=rf"{n_columns} columns are no.*=Convolution\(sh"):
            srf.select(srf.ArraySource(rows, y), kernels="convolution")


@pytest.mark.parametrize(("n_columns", "shape"), [(64, (8, 8)), (9, (3, 3)), (48, (4, 4, 3))])
def test_convolutions_that_are_named_take_the_square_of_columns(counts, n_columns, shape):
    """Pixels that do not vary with their neighbours may still be images."""
    X, y = counts
    rows = X[:, np.random.default_rng(0).permutation(64)[:n_columns]]
    assert shape_of(rows) is None
    options = {"n_components": 72, "warp": None, "budget": 0.4, "random_state": 0}
    found = srf.select(srf.ArraySource(rows, y), kernels=["convolution"], **options)
    assert found.features.shape == shape
    assert kernel_names.for_rows(None, rows, image_shape(rows, (), False), "X") == DEFAULT


@pytest.mark.parametrize("form", ["file", "array", "iterator"])
def test_rows_that_are_stored_as_images_are_convolved_without_a_look(rng, tmp_path, form):
    X, y = rng.normal(size=(400, 8, 9)), np.arange(400) % 2
    source = srf.ArraySource(X, y)
    if form == "file":
        with h5py.File(tmp_path / "rows.h5", "w") as file:
            file["X"], file["y"] = X, y
        source = srf.HDF5Source(tmp_path / "rows.h5")
    elif form == "iterator":
        source = srf.IteratorSource([(X[:150], y[:150]), (X[150:], y[150:])])
    options = {"n_components": 72, "warp": None, "random_state": 0}
    assert srf.select(source, kernels="convolution", **options).features.shape == (8, 9)
    sums = srf.accumulate(source, "auto", kernels="convolution", **options)
    assert sums.encoder.features.shape == (8, 9)
    assert kernel_names.for_rows(None, X, (8, 9), "X") == (*DEFAULT, "convolution")


@pytest.mark.parametrize(
    ("stored", "shape"),
    [
        ((6, 8), (6, 8)),
        ((4, 4, 3), (4, 4, 3)),
        ((6, 8, 1), (6, 8, 1)),
        ((48,), None),
        ((), None),
    ],
)
def test_shapes_of_stored_rows_that_are_those_of_images(rng, stored, shape):
    X = rng.normal(size=(50, 48))
    assert image_shape(X, stored, must=False) == shape
    assert image_shape(X, stored, must=True) == (shape or (4, 4, 3))


@pytest.mark.parametrize(
    ("stored", "cure"),
    [((24, 2), ""), ((3, 4, 4), "; put channels last: X.transpose"), ((2, 2, 3, 4), "")],
)
def test_rows_stored_as_no_images_are_not_taken_for_others(rng, stored, cure):
    X = rng.normal(size=(50, 48))
    assert image_shape(X, stored, must=False) is None
    with pytest.raises(ParameterError, match=rf"are stored as {re.escape(str(stored))}{cure}"):
        image_shape(X, stored, must=True)


@pytest.mark.parametrize(
    ("shape", "window"),
    [((8, 8), 3), ((20, 9), 3), ((12, 12), 5), ((14, 14), 7), ((16, 16), 7), ((28, 28, 3), 7)],
)
def test_windows_begin_within_half_of_the_image(shape, window):
    (first,) = crossed(["convolution"], shape=shape)
    assert first.setting == window
    assert {c.setting for c in crossed(["gaussian"], shape=shape)} == {1 / 16, 1 / 4, 1, 4}


def test_windows_of_3_and_5_are_tried_on_images_of_8(counts):
    options = {"kernels": "convolution", "n_components": 72, "warp": None, "random_state": 0}
    found = srf.select(srf.ArraySource(*counts), **options)
    assert {3.0, 5.0} <= {trial.candidate.setting for trial in found.trials}


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_rows_that_are_images_are_convolved_without_being_asked_for(counts, form):
    X, y = counts
    found = srf.select(as_source(form(X), y), n_components=72, warp=None, random_state=0)
    assert "convolution" in {trial.candidate.kernel for trial in found.trials}
    named = srf.select(
        as_source(form(X), y), kernels="default", n_components=72, warp=None, random_state=0
    )
    assert {trial.candidate.kernel for trial in named.trials} == set(DEFAULT)


def _patches(shape, rng):
    """Return 300 smooth images of a shape, as rows."""
    noise = rng.normal(size=(300, shape[0] + 2, shape[1] + 2, *shape[2:]))
    smooth = noise[:, :-2] + noise[:, 1:-1] + noise[:, 2:]
    smooth = smooth[:, :, :-2] + smooth[:, :, 1:-1] + smooth[:, :, 2:]
    return smooth.reshape(300, -1)


@pytest.mark.parametrize("shape", [(8, 8), (12, 20), (20, 12), (16, 9, 3), (9, 24)])
def test_the_shape_of_images_is_found_from_the_rows(shape):
    rng = np.random.default_rng(0)
    rows = _patches(shape, rng)
    assert shape_of(rows) == shape
    assert shape_of(rows[:, rng.permutation(rows.shape[1])]) is None


def test_series_and_noise_are_no_images():
    rng = np.random.default_rng(0)
    time, turns = np.linspace(0, 1, 784), rng.uniform(1, 5, (300, 1))
    waves = np.sin(2 * np.pi * (turns * time + rng.random((300, 1))))
    walks = np.cumsum(rng.normal(size=(300, 784)), axis=1)
    for rows in (waves, walks, rng.normal(size=(300, 784)), np.zeros((3, 64)), np.eye(2, 7)):
        assert shape_of(rows) is None


def test_a_later_negative_row_stops_the_pass_with_what_to_do(counts):
    X, y = counts
    source = srf.ArraySource(X, y)
    sums = srf.accumulate(source, "auto", kernels="chi2", n_components=64, random_state=0)
    later = srf.IteratorSource(iter([(X, y), (-X, y)]))
    with pytest.raises(BadRowError, match="normalize='l1', 'max' or None"):
        srf.accumulate(later, like=sums)


@pytest.mark.parametrize(("shape", "window"), [((8, 8), 5), (None, None)])
def test_layers_of_a_skeleton_have_windows_on_images(shape, window):
    made = KINDS["skeleton"].make(Wanted(3.0, 1.0, 64, 128, 0, shape))
    layers = [made.kernel]
    while isinstance(layers[-1], srf.Skeleton):
        layers.append(layers[-1].inputs)
    assert [layer.activation for layer in layers[:-1]] == ["exponential", "relu", "relu"]
    assert [layer.window for layer in layers[:-1]] == [None, window, window]
    assert layers[-1].grid(64) == (shape or (64,))


def test_few_rows_take_the_first_that_is_named(counts):
    X, y = (part[:60] for part in counts)
    found = srf.select(srf.ArraySource(X, y), kernels=["exp-chi2", "gaussian"], n_components=32)
    assert (type(found.features), found.trials, found.winner) == (srf.AdditiveFourier, (), None)
    assert found.features.kernel.gamma > 0
    assert found.normalize in NONNEGATIVE


def test_estimators_and_checkpoints_know_the_field(counts, tmp_path):
    source = srf.ArraySource(*counts)
    clf = srf.RandomFeatureClassifier(kernels=["intersection"], random_state=0).fit(source)
    assert (type(clf.features_), clf.features_.n_components) == (srf.AdditiveSampler, 192)
    clf.save(tmp_path / "c.h5")
    assert srf.load_model(tmp_path / "c.h5").kernels == ["intersection"]
    with pytest.raises(ParameterError, match="leave it out where a map is named"):
        srf.RandomFeatureClassifier(srf.RandomFourier(), kernels="gaussian").fit(source)

    def stop(n_rows):
        raise KeyboardInterrupt

    options = {"checkpoint": tmp_path / "p", "checkpoint_every": 0.0, "n_components": 16}
    options |= {"random_state": 0, "warp": None}
    with pytest.raises(KeyboardInterrupt):
        srf.accumulate(source, "auto", kernels="chi2", progress=stop, **options)
    with pytest.raises(CheckpointError):
        srf.accumulate(source, "auto", kernels="linear", **options)
    assert srf.accumulate(source, "auto", kernels=("chi2",), **options).n_rows == 900


def test_the_width_is_sought_with_what_has_one():
    """A map whose width follows from the columns leads: the width is that of another."""
    rng = np.random.default_rng(1)
    X, y = rng.uniform(size=(600, 4)), rng.integers(0, 2, 600)
    asked = []

    class Judged(Judge):
        def try_(self, candidate, width, n_rows, n_held, split=0):
            asked.append((candidate.kernel, width, n_rows))
            error = 0.1 if candidate.kernel == "chi2" else 0.2
            return Trial(candidate, width, n_rows, error, error, 1.0, 0.1, np.zeros((2, 9)))

    judge = Judged(X, y, regression=False, seed=0)
    winner, _ = Tournament(judge, 1e6, crossed(["chi2", "gaussian"])).winner(None, 50_000)
    assert winner.candidate.kernel == "chi2"
    assert ("gaussian", 1024, judge.n_fitted) in asked
    landmarks = Tournament(Judged(X, y, regression=False), 1e6, crossed(["nystroem"]))
    landmarks._width = lambda candidate, n_rows: 8192
    assert landmarks.winner(None, 50_000)[1] == KINDS["nystroem"].max_width


def test_of_ties_the_cheaper_kind_wins():
    trials = [Trial(Candidate(None, n, 1.0), 64, 100, 0.1, 0.0, 1.0, 0.1) for n in KINDS]
    costs = [trial.candidate.kind.cost for trial in order_of(trials)]
    assert costs == sorted(costs)


def test_commands_take_the_field(counts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with h5py.File("rows.h5", "w") as file:
        file["X"], file["y"] = counts
    run = CliRunner().invoke
    words = ["rows.h5", "--kernels", "chi2,hellinger", "--json"]
    shown, fitted = run(app, ["select", *words]), run(app, ["fit", *words, "--model", "m.h5"])
    assert (shown.exit_code, fitted.exit_code) == (0, 0), shown.output + fitted.output
    figures = json.loads(shown.stdout)
    assert (figures["map"], figures["n_components"]) in [
        ("AdditiveSampler", 3 * 64),
        ("AdditiveSampler", 64),
    ]
    assert srf.load_model("m.h5").encoder.tried == figures["tried"]
    for extra in (["--map", "fourier"], ["--like", "m.h5"]):
        wrong = run(app, ["fit", *words[:3], *extra, "--model", "n.h5"])
        assert wrong.exit_code == 2
        assert "--kernels" in wrong.output


@pytest.mark.parametrize("name", ADDITIVE)
def test_few_rows_of_one_column_keep_their_size(rng, name):
    """Where nothing is tried rows were scaled to unit length, and the column was constant."""
    X = rng.poisson(20, (300, 1)).astype(float)
    y = np.log1p(X[:, 0])
    model = srf.RandomFeatureRegressor(kernels=name, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
