"""Columns by their ranks: scores, what they forgive, and when they are tried."""

import numpy as np
import pytest
from scipy import stats
from sklearn.preprocessing import QuantileTransformer

import naive
import streamrf as srf
from commands import answer
from streamrf.errors import FormatError, ParameterError
from streamrf.jit import hats
from streamrf.preprocessing import Preprocessing, has_heavy_columns
from streamrf.preprocessing.quantiles import N_KNOTS, TAIL

MISSING = -999.0


def scaled(rows, X=None):
    return Preprocessing.learn("quantile", rows).apply(rows if X is None else X)


def test_values_are_interpolated_as_by_numpy(rng):
    X = rng.standard_normal((37, 3)).astype(np.float32)
    ends = np.array([0, 2, 7, 10])
    knots = np.concatenate([np.sort(rng.standard_normal(n)) for n in (2, 5, 3)])
    values = rng.standard_normal(10).astype(np.float32)
    X[:10, 1] = knots[[2, 2, 3, 4, 5, 6, 6, 3, 4, 5]]
    lanes = np.full((4, 3, 16), np.nan, dtype=np.float32)
    hats.replace(X, ends, knots, values, lanes)
    found = naive.rows(lanes, 64)
    assert not found[len(X) :].any()
    expected = naive.replace(X.astype(np.float64), ends, knots, values)
    np.testing.assert_allclose(found[: len(X)], expected, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_many_rows_have_the_scores_of_scikit_learn(rng, dtype):
    rows = (100 * rng.exponential(size=(20_000, 2))).astype(dtype)
    theirs = QuantileTransformer(n_quantiles=N_KNOTS, subsample=len(rows)).fit_transform(rows)
    inner = (theirs > 0.02) & (theirs < 0.98)
    expected = stats.norm.ppf(theirs.clip(TAIL, 1 - TAIL))
    assert np.abs(scaled(rows) - expected)[inner].max() < 0.05
    assert np.abs(scaled(rows)).max() <= -stats.norm.ppf(TAIL) + 1e-6


def test_outliers_and_missing_values_are_no_farther_than_ranks(rng):
    rows = rng.standard_normal((5000, 3))
    rows[:700, 0], rows[7, 1] = MISSING, 1e300
    found = scaled(rows)
    assert np.isfinite(found).all()
    assert found[:700, 0] == pytest.approx(stats.norm.ppf(0.07), abs=1e-3)
    assert found[700:, 0].min() > found[0, 0]
    kept = np.delete(np.arange(5000), 7)
    assert stats.spearmanr(found[kept, 1], rows[kept, 1])[0] > 0.99999
    np.testing.assert_allclose(found[:, 2].std(), 1, atol=0.02)


@pytest.mark.parametrize("fill", [-999.0, 1e7, 9.96921e36])
def test_values_beside_a_fill_value_of_most_rows_keep_their_ranks(rng, fill):
    """At its distance they are one number of float32."""
    rows = rng.standard_normal((4000, 1))
    is_missing = rng.random(4000) < 0.6
    found = scaled(np.where(is_missing[:, None], fill, rows))
    assert stats.spearmanr(found[~is_missing], rows[~is_missing])[0] > 0.9999
    assert len(np.unique(found[is_missing])) == 1


def test_denormal_values_have_scores(rng):
    rows = np.abs(rng.standard_normal((4000, 1)))
    np.testing.assert_allclose(scaled(rows * 1e-310), scaled(rows), atol=1e-3)
    for normalize in ("standard", "asinh"):
        assert np.isfinite(Preprocessing.learn(normalize, rows * 1e-310).apply(rows * 1e-310)).all()


@pytest.mark.parametrize("value", [0.0, 7.5, -1e20, 1e300, np.finfo(np.float64).max])
def test_a_constant_column_is_zero_whatever_its_size(rng, value):
    rows = np.full((50, 2), value)
    rows[:, 1] = rng.standard_normal(50)
    assert not scaled(rows)[:, 0].any()
    assert np.abs(scaled(rows, np.array([[value / -2 - 3, 0.0]]))[0, 0]) == 1


def test_values_at_the_ends_of_float64_have_scores_and_files(rng, tmp_path):
    X = rng.standard_normal((400, 2))
    X[:8, 0], X[8:16, 0], X[16:24, 1] = 1e149, -1e149, 1e149
    found = scaled(X)
    assert np.isfinite(found).all()
    assert (found[8:16, 0].max() < found[16:, 0].min()) & (found[16:, 0].max() < found[:8, 0].min())
    sums = srf.accumulate(srf.ArraySource(X, X[:, 1] > 0), srf.Identity(), normalize="quantile")
    sums.save(tmp_path / "s.h5")
    again = srf.load_statistics(tmp_path / "s.h5")
    np.testing.assert_array_equal(again.encoder.preprocessing.apply(X), found)


def test_columns_far_from_0_keep_their_ranks(rng):
    rows = np.round(rng.standard_normal((1000, 2)), 3)
    np.testing.assert_allclose(scaled(rows + np.array([1.7e9, 0])), scaled(rows), atol=1e-4)


def test_the_same_row_has_the_same_bits_in_any_block(rng):
    rows = rng.standard_exponential((500, 5))
    learnt = Preprocessing.learn("quantile", rows)
    whole = learnt.apply(rows)
    for at in (0, 3, 17, 499):
        np.testing.assert_array_equal(learnt.apply(rows[at : at + 1])[0], whole[at])
    lanes = np.full((40, 5, 16), np.nan, dtype=np.float32)
    learnt.load(rows, lanes)  # with more room than there are rows
    assert not naive.rows(lanes, 640)[500:].any()


def changed(tree, **parts):
    return {**tree, "quantiles": {**tree["quantiles"], **parts}}


def test_scores_of_another_form_are_refused(rng):
    tree = Preprocessing.learn("quantile", rng.standard_normal((50, 2))).to_tree()
    parts = tree["quantiles"]
    for wrong, message in [
        (changed(tree, ends=parts["ends"] + 1), "ends' do not split 100 knots"),
        (changed(tree, ends=np.array([0, 99, 100])), "ends' do not split"),
        (changed(tree, ends=np.array([0, 120, 100])), "ends' do not split"),
        (changed(tree, knots=parts["knots"][::-1].copy()), "knots' do not ascend"),
        (changed(tree, scores=parts["scores"][1:]), "scores' is"),
        ({name: tree[name] for name in ("normalize", "shift", "inverse_scale")}, "quantiles"),
    ]:
        with pytest.raises(FormatError, match=message):
            Preprocessing.from_tree(wrong)


def test_scales_of_an_earlier_reading_are_no_ranks(rng):
    X = rng.standard_normal((300, 3))
    with pytest.raises(ParameterError, match=r"for normalize= .* 'standard' or 'asinh'"):
        srf.accumulate(
            srf.ArraySource(X, X[:, 0] > 0),
            srf.Identity(),
            normalize="quantile",
            scale_like=srf.moments(srf.ArraySource(X)),
        )


def log_normal(rng):
    return np.exp(2 * rng.standard_normal((600, 3)))


def with_missing(rng, share, value=MISSING):
    X = rng.standard_normal((600, 3))
    X[rng.random(600) < share, 1] = value
    return X


@pytest.mark.parametrize(
    ("make", "heavy"),
    [
        (log_normal, True),
        (lambda rng: -log_normal(rng), True),
        (lambda rng: with_missing(rng, 0.05), True),
        (lambda rng: with_missing(rng, 0.6), True),
        (lambda rng: with_missing(rng, 0.3, 9999), True),
        (lambda rng: np.where(rng.random((600, 3)) < 0.003, 1e6, rng.random((600, 3))), True),
        (lambda rng: np.hstack([log_normal(rng), rng.standard_normal((600, 12))]), True),
        (lambda rng: np.hstack([log_normal(rng), rng.standard_normal((600, 13))]), False),
        (lambda rng: rng.choice([0, 1e9], (600, 3)) + rng.random((600, 3)), True),
        (lambda rng: rng.standard_normal((600, 3)), False),
        (lambda rng: rng.exponential(size=(600, 3)), False),
        (lambda rng: rng.random((600, 3)) < 0.1, False),
        (lambda rng: rng.integers(0, 5, (600, 3)), False),
        (lambda rng: rng.choice([0, 100], (600, 3)) + rng.random((600, 3)), False),
        (lambda rng: with_missing(rng, 0.3, -4), False),
        (lambda rng: np.ones((600, 3)), False),
        (lambda rng: np.ones((1, 3)), False),
    ],
)
def test_columns_with_heavy_tails_or_far_values_are_found(rng, make, heavy):
    assert has_heavy_columns(make(rng)) == heavy


def select(X, y, **options):
    return srf.select(
        srf.ArraySource(X, y), n_components=64, budget=3, warp=None, random_state=0, **options
    )


def test_ranks_are_tried_where_columns_have_heavy_tails_and_win(rng):
    X = np.exp(3 * rng.standard_normal((2400, 4)))
    y = np.sin(np.log(X[:, 0]) / 2) * np.log(X[:, 1])
    found = select(X, y)
    assert found.normalize == "quantile"
    assert any(name.startswith("quantile") for name in found.table()["candidate"])
    plain = select(np.log(X), y)
    assert not any(name.startswith("quantile") for name in plain.table()["candidate"])
    few = select(X[:1900], y[:1900])
    assert not any(name.startswith("quantile") for name in few.table()["candidate"])
    assert select(X, y, normalize="asinh").normalize == "asinh"


def test_the_command_takes_ranks_and_files_keep_them(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.exp(2 * rng.standard_normal((400, 3)))
    y = (np.log(X[:, 0]) * np.log(X[:, 1]) > 0).astype(int)
    np.savez("rows.npz", X=X, y=y)
    words = ("--map", "structured-fourier", "--kernel", "gaussian", "--gamma", "median")
    answer(
        "fit", "rows.npz", *words, "--components", "256", "--normalize", "quantile",
        "--model", "m.h5", "--statistics", "s.h5",
    )  # fmt: skip
    model = srf.load_model("m.h5")
    assert model.encoder.preprocessing.normalize == "quantile"
    assert model.score(X, y) > 0.9
    again = srf.load_statistics("s.h5").solve(model.alpha)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
