"""How finely features are rounded: by precision and totals, kept in files, told where it binds."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

import streamrf as srf
from integers import accumulate, assert_same_bytes, features, rounded
from streamrf.cli import app
from streamrf.errors import MergeError, StreamrfWarning
from streamrf.preprocessing.rounding import Centring, CoarseRounding, FineRounding, Rounding
from streamrf.report.measuring import measure

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:.*were clipped"),  # rows are few and tails are heavy
]

FORMAT_1 = Path(__file__).parent / "fixtures" / "format-1"
CASES = {
    ("exact", "float64"): FineRounding,
    ("coarse", "float64"): CoarseRounding,
    ("float64", "float64"): Centring,
    ("exact", "int32"): Rounding,
    ("coarse", "int32"): CoarseRounding,
}


@pytest.fixture(scope="module")
def source():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6)).astype(np.float32)
    return srf.ArraySource(X, X[:, 0] * X[:, 1] + np.sin(X[:, 2]))


def regression(source, **settings):
    return accumulate(source, features(40), regression=True, **settings)


@pytest.mark.parametrize(("precision", "totals"), CASES)
def test_precision_and_totals_say_how_finely(source, tmp_path, precision, totals):
    statistics = regression(source, precision=precision, totals=totals)
    kind = CASES[precision, totals]
    statistics.save(tmp_path / "s.h5")
    for found in (statistics, srf.load_statistics(tmp_path / "s.h5")):
        assert type(found.encoder.calibration) is kind
    like = srf.load_statistics(tmp_path / "s.h5")
    twice = accumulate(source, like=like, regression=True, window=(0, 10))
    assert type(twice.encoder.calibration) is kind
    assert np.abs(twice.gram).max() > 0


def test_sums_in_other_steps_are_not_added(source):
    fine, coarse = (regression(source, precision=word) for word in ("exact", "coarse"))
    with pytest.raises(MergeError, match="calibrations"):
        fine + coarse


@pytest.mark.parametrize("name", ["classes", "values"])
def test_statistics_of_32_levels_go_on_within_their_limit(name):
    """Files written when all sums were of 32 levels hold no word of it but the class."""
    old = srf.load_statistics(FORMAT_1 / f"{name}.statistics.h5")
    calibration = old.encoder.calibration
    assert type(calibration) is Rounding
    assert (calibration.levels, calibration.limit) == (32, 4095)
    X = 1e4 * np.arange(20, dtype=np.float32).reshape(5, 4) - 7e4
    twin = rounded(old.encoder, X, np.ones(5) if calibration.mean_weight else None)
    Q = np.empty(twin.Q.shape, dtype=np.float32)
    old.encoder.encode(X, calibration.roots(np.ones(5), 5), Q)
    assert np.abs(Q).max() <= 4095
    np.testing.assert_array_equal(Q, twin.Q)
    both = old + type(old)(old.encoder, old.sums, type(old.ledger)())
    assert_same_bytes((both - old).sums.to_tree(), old.sums.to_tree())


# ---- the penalty that rounding amounts to -------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_the_penalty_is_in_the_unit_of_alpha(rng, weighted):
    X, weights = rng.normal(size=(500, 3)), rng.uniform(0.5, 2, 500) if weighted else None
    statistics = accumulate(srf.ArraySource(X, X[:, 0] > 0, weights), features(12))
    calibration = statistics.encoder.calibration
    noise = 500 * calibration.step**2 / 12 * (calibration.mean_weight or 1.0)
    assert statistics.rounding_alpha == pytest.approx(noise.mean())
    # 1 / (12 levels^2) of the mean squared norm of a feature, but for floors
    relative = statistics.rounding_alpha / statistics.alpha_scale()
    assert relative == pytest.approx(1 / (12 * 512**2), rel=0.1)


def test_scaled_sums_have_a_scaled_penalty(source):
    statistics = regression(source)
    assert statistics.scale(0.25).rounding_alpha == pytest.approx(statistics.rounding_alpha / 4)
    assert regression(source, precision="float64").rounding_alpha == 0


def test_coefficients_without_a_penalty_are_those_of_that_alpha(rng):
    """A feature that is nearly the sum of others: only the rounding keeps its coefficient small."""
    n = 100_000
    x = rng.uniform(-1, 1, size=(n, 2))
    X = np.column_stack((x, x.sum(axis=1) + 1e-3 * rng.uniform(-1, 1, n))).astype(np.float32)
    y = x[:, 0] + 1000 * (X[:, 2] - x.sum(axis=1))
    map_ = srf.RandomMaclaurin(srf.Polynomial(degree=1, coef0=0.0), 8, random_state=0)
    statistics = accumulate(srf.ArraySource(X, y), map_, regression=True, precision="coarse")
    Z = statistics.encoder.features.transform(X).astype(np.float64)
    noise = n * statistics.encoder.calibration.step**2 / 12  # by feature; the alpha is their mean
    model = statistics.solve(1e-6 * statistics.rounding_alpha)
    expected = Ridge(1.0, solver="cholesky").fit(Z / np.sqrt(noise), y)
    outputs = [model.predict(X), expected.predict(Z / np.sqrt(noise))]
    assert np.std(outputs[0] - outputs[1]) < 0.05 * np.std(y - outputs[1])


def test_a_penalty_below_the_rounding_is_told_with_the_cure(source):
    cures = {
        ("exact", "float64"): "precision='float64' (--precision float64) does not round",
        (
            "coarse",
            "float64",
        ): "sum again by precision='exact' (--precision exact), which rounds to 512",
        (
            "exact",
            "int32",
        ): "sum again by precision='exact' (--precision exact) with totals='float64'",
    }
    for (precision, totals), cure in cures.items():
        statistics = regression(source, precision=precision, totals=totals)
        bound = statistics.rounding_alpha
        assert statistics.rounding_advice(2 * bound) is None
        for alpha in (bound / 2, [bound / 2, 10 * bound]):
            assert cure in statistics.rounding_advice(alpha)
    assert regression(source, precision="float64").rounding_advice(0.0) is None


def test_steps_that_an_outlier_makes_too_wide_are_told(tmp_path):
    """One row in other units widens the steps, so that the others are rounded away."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)).astype(np.float32)
    X[7] *= 1e5
    y = X @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=2000)
    regressor = srf.RandomFeatureRegressor(srf.Identity(), alpha=1e-3, random_state=0)
    with pytest.warns(StreamrfWarning, match="are rounded to the same value"):
        fitted = regressor.fit(X, y)
    assert abs(fitted.coef_[0, 0] - 1) > 0.01
    regressor.set_params(precision="float64").fit(X, y)  # the cure
    assert regressor.coef_[0] == pytest.approx([1, 2, 3], abs=0.02)


@pytest.mark.parametrize(
    "map_",
    [srf.Identity(), srf.RandomFourier(), srf.RandomMaclaurin(srf.Polynomial(3))],
    ids=lambda map_: type(map_).__name__,
)
@pytest.mark.parametrize("draw", ["normal", "poisson", "levels", "rare", "lognormal"])
def test_steps_of_usual_columns_are_not_told(map_, draw):
    rng = np.random.default_rng(0)
    X = {
        "normal": rng.normal(size=(900, 5)),
        "poisson": rng.poisson(0.05, (900, 5)),
        "levels": np.eye(40)[rng.integers(0, 40, 900)],
        "rare": np.eye(5)[np.zeros(900, int)] + (np.arange(900) == 3)[:, np.newaxis],
        "lognormal": np.exp(rng.normal(size=(900, 5))),
    }[draw]
    srf.accumulate(srf.ArraySource(X, X[:, 0]), map_, task="regression", random_state=0)


def test_a_penalty_below_the_rounding_is_told_by_solve_and_report(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    sums = srf.accumulate(srf.ArraySource(X, X[:, 0]), srf.Identity(), task="regression")
    sums.save(tmp_path / "s.h5")
    says = (
        "so the rounding decides (errors on rows held out include this) and a smaller alpha "
        "changes little; precision='float64' (--precision float64) does not round"
    )
    words = ["solve", tmp_path / "s.h5", "--model", tmp_path / "m.h5", "--alpha"]
    run = [*map(str, words), str(sums.rounding_alpha / 2)]
    assert says in CliRunner().invoke(app, run, catch_exceptions=False).stderr
    found = measure(srf.load_model(tmp_path / "m.h5"), sums, None, stage=lambda name: None)
    assert any(says in note for note in found.notes)
    run[-1] = str(2 * sums.rounding_alpha)
    assert not CliRunner().invoke(app, run, catch_exceptions=False).stderr
    found = measure(srf.load_model(tmp_path / "m.h5"), sums, None, stage=lambda name: None)
    assert not any(says in note for note in found.notes)


def test_a_penalty_that_rows_chose_below_the_rounding_is_no_warning(tmp_path):
    """Nobody chose it, and errors on rows held out include the rounding."""
    x = np.linspace(0, 1, 4000)[:, np.newaxis]
    np.savez(tmp_path / "rows.npz", X=x, y=x[:, 0])
    features = ("--map", "maclaurin", "--kernel", "polynomial", "--components", "64")
    words = ["fit", str(tmp_path / "rows.npz"), *features, "--regression", "--model"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "m.h5")], catch_exceptions=False)
    assert "warning" not in done.stderr
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("rounding")]
    assert "which is more; precision='float64' (--precision float64) does not round" in told
    named = [*words, str(tmp_path / "n.h5"), "--alpha", "1e-12"]
    assert "so the rounding decides" in CliRunner().invoke(app, named).stderr
