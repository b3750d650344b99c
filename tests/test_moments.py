"""Moments of raw columns: exact, mergeable, and what they say of the calibration rows."""

import math
import pickle
import warnings
from fractions import Fraction

import h5py
import numpy as np
import pyarrow
import pytest

import naive
import streamrf as srf
from commands import answer, streamrf
from streamrf.errors import (
    BadRowError,
    DataError,
    FormatError,
    MergeError,
    ParameterError,
    ShapeError,
    StreamrfWarning,
)
from streamrf.jit import columns
from streamrf.preprocessing import Moments, Sample
from streamrf.preprocessing.moments import SQUARE_UNIT, UNIT
from streamrf.training import peeking

pytestmark = pytest.mark.usefixtures("one_thread")


def strange_rows(rng, n=600):
    """Columns of many sizes and offsets: tiny, huge, constant at first, with outliers, of bytes."""
    X = rng.standard_normal((n, 8)) * [1, 1e-30, 1e20, 300, 1, 1, 1, 1e-45]
    X[:, 3] += 1.7e9
    X[: n // 2, 4] = 2.5
    X[:, 5] = -7
    X[n - 3 :, 6] = [1e9, -3e30, 1e60]
    return np.column_stack((X, rng.integers(0, 256, n)))


def counted(X, sample, block=None, order=None):
    found = Moments.zero(sample)
    X = X if order is None else X[order]
    for start in range(0, len(X), block or len(X)):
        found.add(X[start : start + (block or len(X))])
    return found.join()


def assert_same(a, b):
    assert a.n_rows == b.n_rows
    for name in ("sums", "squares", "outside"):
        assert getattr(a, name).tolist() == getattr(b, name).tolist()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.uint8])
def test_sums_of_columns_are_those_of_the_definition(rng, dtype):
    X = strange_rows(rng, 80)
    if np.dtype(dtype).kind != "f":
        X = np.clip(X, 0, 255)
    with np.errstate(over="ignore"):
        X = np.nan_to_num(X.astype(dtype))
    sample = Sample.of(X[:40])
    found = counted(X, sample)
    sums, outside = naive.add_columns(X, sample.centre, sample.reach, sample.grid)
    for j, (total, square_total) in enumerate(sums):
        assert Fraction(found.sums[j]) * Fraction(2) ** UNIT == total
        assert Fraction(found.squares[j]) * Fraction(2) ** SQUARE_UNIT == square_total
    assert found.outside.tolist() == outside.tolist()


def test_mean_and_deviation_are_those_of_the_rows(rng):
    X = strange_rows(rng)[:, [0, 1, 2, 3, 4, 5, 8]]
    found = counted(X, Sample.of(X[:300]))
    deviation = X.std(axis=0)
    np.testing.assert_allclose(found.mean, X.mean(axis=0), atol=1e-5 * deviation.max(), rtol=1e-7)
    assert (np.abs(found.mean - X.mean(axis=0)) <= 1e-6 * deviation).all()
    np.testing.assert_allclose(found.deviation, deviation, rtol=2e-6)


def test_moments_are_the_same_for_any_order_block_and_flush(rng, monkeypatch):
    X = strange_rows(rng)
    sample = Sample.of(X[:300])
    whole = counted(X, sample)
    assert_same(counted(X, sample, 7, rng.permutation(len(X))), whole)
    monkeypatch.setattr("streamrf.preprocessing.moments.JOIN_ROWS", 2 * columns.MAX_ROWS)
    assert_same(counted(X, sample, 50), whole)
    many = np.tile(X, (-(-5 * columns.MAX_ROWS // len(X)), 1))
    assert_same(counted(many, sample, len(many)), counted(many, sample, 50))


def test_moments_add_and_subtract(rng):
    X = strange_rows(rng)
    sample = Sample.of(X[:300])
    a, b, whole = counted(X[:200], sample), counted(X[200:], sample), counted(X, sample)
    assert_same(a + b, whole)
    assert_same(a + b - b, a)
    assert_same(pickle.loads(pickle.dumps(a)), a)
    with pytest.raises(MergeError, match="never counted"):
        a - whole
    with pytest.raises(MergeError, match="different grids"):
        a + counted(X, Sample.of(X[:100]))


def test_integers_are_summed_without_rounding(rng):
    X = rng.integers(0, 256, (500, 3)).astype(np.uint8)
    found = counted(X, Sample.of(X[:100]))
    np.testing.assert_allclose(found.mean, X.mean(axis=0), rtol=1e-15)
    np.testing.assert_allclose(found.deviation, X.std(axis=0), rtol=1e-14)


def test_only_columns_that_chance_does_not_explain_are_unfair(rng):
    n, first = 20_000, 2000
    X = rng.standard_normal((n, 6))
    X[:first, 1] = 3.0  # constant, then not
    X[:first, 2] *= 0.01  # tiny, then not
    X[:, 3] = rng.random(n) < 1e-3  # rare, and none in the sample
    X[:first, 3] = 0
    X[:, 4] = rng.standard_cauchy(n)  # heavy tails
    X[first:, 5] *= 5  # wider, by less than ten
    found = counted(X, Sample.of(X[:first]))
    assert found.unfair_columns().tolist() == [1, 2]
    spread = counted(X, Sample.of(X[rng.permutation(n)[:first]]))
    assert spread.unfair_columns().tolist() == []


def test_drift_is_found_and_chance_is_not(rng):
    X = np.column_stack((rng.standard_normal((3000, 4)), rng.random(3000) < 0.002))
    sample = Sample.of(X[:500])
    X[:1000, 4] = 0
    day, night = X[:1000], X[1000:].copy()
    night[:, 1] += 1.5
    night[:, 2] *= 12
    night[:, 3] *= 2
    assert counted(night, sample).drifted_columns(counted(day, sample)).tolist() == [1, 2]
    assert counted(X[1000:], sample).drifted_columns(counted(day, sample)).tolist() == []
    for row in np.split(X[1000:1050], 50):  # alone it has no deviation; 4 was constant
        assert {*counted(row, sample).drifted_columns(counted(day, sample)).tolist()} <= {4}


# Passes


def unfair_rows(n=5000, first=1500):
    """Rows of which one column is constant and another tiny at first; values need both."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n + 1000, 4))
    X[:first, 1] = 0
    X[:first, 2] *= 1e-3
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.05 * rng.standard_normal(len(X))
    X = X * [1, 100, 1, 1]
    return (X[:n], y[:n]), (X[n:], y[n:])


def stream(X, y, size=250):
    return srf.IteratorSource(
        lambda: ((X[s : s + size], y[s : s + size]) for s in range(0, len(X), size))
    )


def fitted(source, **settings):
    features = srf.RandomFourier(srf.Gaussian(gamma=0.3), 300)
    model = srf.RandomFeatureRegressor(
        features, normalize="standard", alpha=1.0, random_state=0, **settings
    )
    return model.fit(source)


@pytest.fixture
def short_peek(monkeypatch):
    """A peek of 1,000 rows."""
    monkeypatch.setattr(peeking, "PEEK_ROWS", 1000)


@pytest.mark.usefixtures("short_peek")
def test_unfair_first_rows_are_told_and_cured_by_moments_of_all_rows():
    train, test = unfair_rows()
    fair = fitted(srf.ArraySource(*train)).score(*test)
    with pytest.warns(
        StreamrfWarning, match=r"columns 1, 2 varied at most a tenth.*scale_like="
    ) as w:
        model = fitted(stream(*train))
    assert len(w) == 1
    assert w[0].filename == __file__
    assert model.statistics_.unfair_columns.tolist() == [1, 2]
    moments = srf.moments(stream(*train))
    with pytest.warns(StreamrfWarning, match="columns 1, 2|clipped"):
        cured = fitted(stream(*train), scale_like=moments)
    np.testing.assert_array_equal(cured.statistics_.encoder.preprocessing.shift, moments.mean)
    silent, good = model.score(*test), cured.score(*test)
    assert fair > 0.85 > 0.5 > silent
    assert good > fair - 0.03


@pytest.mark.usefixtures("short_peek")
def test_an_iterator_keeps_the_first_rows_of_the_peek_for_calibration():
    (X, y), _ = unfair_rows(n=1200, first=0)
    model = fitted(stream(X, y))
    assert model.statistics_.moments.sample.n_rows == 1000
    np.testing.assert_allclose(model.statistics_.encoder.preprocessing.shift, X[:1000].mean(axis=0))


@pytest.mark.usefixtures("short_peek")
def test_partial_fit_draws_nothing_before_the_first_rows_are_there():
    (X, y), (Xt, yt) = unfair_rows(n=3000, first=300)
    model = srf.RandomFeatureRegressor(
        srf.RandomFourier(srf.Gaussian(gamma=0.3), 300), normalize="standard", alpha=1.0
    )
    buffer = np.empty((250, 4))
    for start in range(0, 3000, 250):
        buffer[:] = X[start : start + 250]  # used again and again
        model.partial_fit(buffer, y[start : start + 250])
        assert (model._pass is not None) == (start >= 750)
    assert model.statistics_.moments.sample.n_rows == 1000
    assert model.statistics_.n_rows == 3000
    assert model.score(Xt, yt) > 0.7
    early = srf.RandomFeatureRegressor(
        srf.RandomFourier(srf.Gaussian(gamma=0.3), 30), normalize="standard", alpha=1.0
    ).partial_fit(X[:500], y[:500])
    early.predict(Xt)
    assert early.partial_fit(X[500:700], y[500:700]).statistics_.n_rows == 700
    assert early.statistics_.moments.sample.n_rows == 500


def accumulated(X, **options):
    y = (X[:, 0] > 0).astype(int)
    options = {"features": srf.RandomFourier(n_components=16), "random_state": 0} | options
    return srf.accumulate(srf.ArraySource(X, y), **options)


@pytest.mark.parametrize("hold_out", [False, True])
def test_statistics_hold_the_moments_of_their_rows(rng, tmp_path, hold_out):
    X = rng.standard_normal((900, 3)).astype(np.float32)
    whole = accumulated(X, hold_out=hold_out, folds=3)
    assert whole.moments.n_rows == whole.n_rows == 900
    assert_same(whole.moments, counted(X, whole.moments.sample))
    parts = [
        accumulated(X, rows=rows, hold_out=hold_out, folds=3) for rows in [(0, 400), (400, 900)]
    ]
    for total in (parts[0] + parts[1], parts[1].absorb(parts[0]) if not hold_out else whole):
        assert_same(total.moments, whole.moments)
    assert_same((whole - parts[0]).moments, counted(X[400:], whole.moments.sample))
    whole.save(tmp_path / "s.h5")
    assert_same(srf.load_statistics(tmp_path / "s.h5").moments, whole.moments)


def test_a_cluster_sums_the_same_moments(rng, two_workers):
    X = rng.standard_normal((900, 3)).astype(np.float32)
    found = accumulated(X, engine=two_workers, parts=5)
    assert_same(found.moments, counted(X, found.moments.sample))
    alone = srf.moments(srf.ArraySource(X), run=srf.RunOptions(engine=two_workers, parts=3))
    assert_same(alone, counted(X, alone.sample))


def test_old_statistics_have_no_moments_and_nothing_pretends_otherwise(rng):
    X = rng.standard_normal((300, 3))
    new = accumulated(X, rows=(0, 100))
    tree = new.to_tree()
    del tree["moments"], tree["n_too_long"]
    old = srf.Statistics.from_tree(tree)
    assert old.moments is None
    assert old.to_tree().keys() == tree.keys()
    assert (old + accumulated(X, rows=(100, 300))).moments is None
    assert accumulated(X, rows=(100, 300), like=old, features=None).moments is None
    with pytest.raises(ParameterError, match="holds no moments"):
        accumulated(X, scale_like=old, normalize="standard")


def test_drift_from_the_statistics_continued_is_told(rng):
    X = rng.standard_normal((900, 3))
    first = accumulated(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accumulated(rng.standard_normal((500, 3)), like=first, features=None)
    X = rng.standard_normal((500, 3))
    X[:, 1] += 3
    with pytest.warns(StreamrfWarning, match="column 1 drifted: .* 900 rows of"):
        accumulated(X, like=first, features=None)


def test_clipping_is_told_in_python(rng):
    X = rng.standard_normal((6000, 4))
    X[5000:5020] *= 50
    y = X[:, 0]
    features = srf.RandomMaclaurin(srf.Polynomial(4), 64)
    with pytest.warns(StreamrfWarning, match=r"entries of features \(\S+ %\) were clipped.*like="):
        srf.accumulate(
            srf.ArraySource(X, y), features, like=accumulated_maclaurin(X[:4096]), regression=True
        )


def test_targets_that_are_clipped_are_told(rng):
    """A target of 1e20 among later rows was clipped in silence, and spoilt the model."""
    X = rng.standard_normal((2000, 2))
    y = X.copy()
    first = srf.accumulate(srf.ArraySource(X, y), srf.RandomFourier(n_components=16))
    y[70, 1] = -1e20
    with pytest.warns(
        StreamrfWarning, match=r"1 targets so far are over 1,048,576 times as far .* check"
    ):
        srf.accumulate(srf.ArraySource(X[:500], y[:500]), like=first)


def accumulated_maclaurin(X):
    features = srf.RandomMaclaurin(srf.Polynomial(4), 64)
    source = srf.ArraySource(X, X[:, 0])
    return srf.accumulate(source, features, regression=True, random_state=0)


# Rows too long for a series


@pytest.mark.parametrize("bound", [0.5, 1.0, 20.0])
@pytest.mark.parametrize("kernel", [srf.Exponential(1.0), srf.VovkInfinite(0.04), srf.ArcCosine(0)])
def test_the_longest_row_is_where_the_series_misses_a_hundredth(kernel, bound):
    bound = min(bound, 0.9 * kernel.radius)
    series = kernel.maclaurin(bound, 1e-4)
    longest = kernel.longest(series, bound)
    assert bound < longest <= kernel.radius

    def missed(t):
        partial = sum(a * t**n for n, a in enumerate(series))
        return 1 - partial / float(kernel.function(np.array(t)))

    assert (
        missed(0.999 * longest) < 0.01 < missed(min(1.001 * longest, (longest + kernel.radius) / 2))
    )


def test_whole_series_are_right_everywhere():
    kernel = srf.Polynomial(3)
    assert kernel.longest(kernel.maclaurin(1.0), 1.0) == math.inf


@pytest.mark.parametrize("compact", [False, True])
def test_rows_longer_than_the_series_are_counted_and_told(rng, tmp_path, compact):
    X = rng.standard_normal((3000, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    features = srf.RandomMaclaurin(srf.Exponential(1.0), 256, random_state=0)
    features = srf.Craft(features, 64) if compact else features
    first = accumulated(X, features=features)
    assert first.n_too_long == 0
    longer = X.copy()
    longer[:30] *= 3
    longer[30:60] *= 1.01  # a little longer, and all but right
    told = r"30 rows \(1 %\) are longer than 1\.\d+.*'l2'|were clipped"
    with pytest.warns(StreamrfWarning, match=told) as warned:
        found = accumulated(longer, like=first, features=None)
    assert any("30 rows" in str(one.message) for one in warned)
    assert found.n_too_long == 30
    found.save(tmp_path / "s.h5")
    loaded = srf.load_statistics(tmp_path / "s.h5")
    assert loaded.n_too_long == 30
    assert loaded.encoder.features.longest == found.encoder.features.longest < math.inf
    assert (first + accumulated(X[:0:-1], like=first, features=None)).n_too_long == 0


# Moments alone


def test_moments_of_a_source_go_through_a_file(rng, tmp_path):
    X = strange_rows(rng, 500)[:, :5]
    found = srf.moments(srf.ArraySource(X))
    assert_same(found, counted(X, found.sample))
    found.save(tmp_path / "m.h5")
    loaded = srf.load_moments(tmp_path / "m.h5")
    with pytest.raises(FormatError, match=r"holds moments of columns, .*streamrf\.load_moments"):
        srf.load_statistics(tmp_path / "m.h5")
    assert_same(loaded, found)
    assert loaded.sample.equals(found.sample)
    with pytest.raises(ShapeError, match="moments of 5 columns"):
        accumulated(X[:, :3], scale_like=tmp_path / "m.h5", normalize="standard")
    with pytest.raises(ParameterError, match=r"scale_like= \(--scale-like\) is for normalize="):
        accumulated(X, scale_like=found, normalize="l2")
    with pytest.raises(ParameterError, match="have their scales already"):
        accumulated(X, scale_like=found, like="s.h5", normalize="standard")


def test_moments_check_the_rows(rng):
    X = rng.standard_normal((5000, 2))
    X[4500, 1] = np.nan
    with pytest.raises(BadRowError, match="row 4500"):
        srf.moments(srf.ArraySource(X))
    assert srf.moments(srf.ArraySource(X), on_bad_rows="skip").n_rows == 4999


def test_rows_that_are_added_by_hand_are_checked(rng):
    """Rows of another width were read and written beyond the arrays; NaN was counted."""
    X = rng.standard_normal((300, 4))
    found = srf.moments(srf.ArraySource(X))
    for wrong in (np.ones((1, 3)), np.ones((2, 20_000)), np.ones(4)):
        with pytest.raises(ShapeError):
            found.add(wrong)
    for value in (np.nan, np.inf):
        with pytest.raises(BadRowError, match="X, row 1: column 2"):
            found.add(np.where(np.arange(12).reshape(3, 4) == 6, value, 0.0))
    with pytest.raises(DataError, match=r"X is a Table.*give it to streamrf\.moments"):
        found.add(pyarrow.table(dict(zip("dcba", X.T, strict=True))))
    assert found.n_rows == 300
    found.add(X.astype(">f8").tolist())
    np.testing.assert_allclose(found.mean, X.mean(axis=0), atol=1e-4)
    assert found.n_rows == 600


def test_moments_on_the_command_line(rng, tmp_path):
    X = rng.standard_normal((500, 3)) * [1, 10, 100]
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["X"], file["y"] = X, X[:, 0]
    data, path, output = (str(tmp_path / name) for name in ("d.h5", "m.h5", "s.h5"))
    found = answer("moments", data, "--out", path)
    np.testing.assert_allclose(found["deviation"], X.std(axis=0), rtol=1e-5)
    assert "500 of 3 columns" in streamrf("info", path).stdout
    given = ["--map", "fourier", "--components", 8, "--normalize", "standard", "--regression"]
    assert answer("fit", data, *given, "--scale-like", path, "--statistics", output)
    scaling = srf.load_statistics(output).encoder.preprocessing
    np.testing.assert_array_equal(scaling.shift, srf.load_moments(path).mean)


def test_moments_leave_out_the_columns_that_fit_is_told_are_targets_and_weights(rng, tmp_path):
    table = np.column_stack((rng.standard_normal((60, 2)), rng.integers(1, 9, (60, 2))))
    path, output = tmp_path / "t.csv", str(tmp_path / "m.h5")
    np.savetxt(path, table, delimiter=",", header="a,b,w,label", comments="")
    found = answer("moments", str(path), "--y", "label", "--weights", "w", "--out", output)
    np.testing.assert_allclose(found["mean"], table[:, :2].mean(axis=0), rtol=1e-5)


def test_moments_that_no_rows_have_are_refused(rng):
    X = 1e150 * rng.normal(size=(300, 2)).clip(-1, 1)
    moments = Moments.zero(Sample.of(X))
    moments.add(X)
    tree = moments.to_tree()
    assert srf.Moments.from_tree(tree).deviation.max() > 1e30
    for key in ("sums", "squares"):
        with pytest.raises(FormatError, match="sums' or the squares are too great to be of rows"):
            srf.Moments.from_tree(tree | {key: [2**999, 0]})


@pytest.mark.parametrize("scale", [1e-38, 1e40])
def test_columns_that_the_sums_do_not_hold_are_refused(rng, scale):
    """They were summed as 2^130, or as 0, in silence."""
    X = rng.standard_normal((200, 3)) * [1, scale, 1]
    with pytest.raises(DataError, match=r"column 1 has values of about .*multiply the column"):
        srf.moments(srf.ArraySource(X))


# Columns of tables go by their names


def named(X, names="ab", **more):
    """A table of columns called by letters."""
    return pyarrow.table({**dict(zip(names, X.T, strict=True)), **more})


@pytest.mark.parametrize("made", ["moments", "statistics", "moments of statistics"])
@pytest.mark.parametrize("kept", [True, False], ids=["file", "memory"])
def test_columns_of_a_table_are_scaled_by_the_moments_of_their_names(rng, tmp_path, made, kept):
    """They were by those of the same places."""
    X = rng.standard_normal((300, 2)) * [1, 1e6] + [0, 5e6]
    y = X[:, 0] + X[:, 1] / 1e6
    other = srf.open_source(named(X[:, ::-1], "ba", more=rng.random(300), z=y), x="-z", y="z")
    scales = srf.moments(other)
    if made != "moments":
        scales = srf.accumulate(other, srf.Identity())
    if kept:
        scales.save(tmp_path / "scales.h5")
        scales = tmp_path / "scales.h5"
    if made == "moments of statistics":
        scales = srf.load_moments(scales) if kept else scales.moments
    source = srf.open_source(named(X, y=y), y="y")
    features = srf.RandomFourier(srf.Gaussian(1.0), 8, random_state=0)
    options = {"normalize": "standard", "task": "regression"}
    found = srf.accumulate(source, features, scale_like=scales, **options)
    expected = srf.accumulate(source, features, scale_like=srf.moments(source), **options)
    for name in ("shift", "inverse_scale"):
        ours, theirs = (getattr(s.encoder.preprocessing, name) for s in (found, expected))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    np.testing.assert_array_equal(found.moments.mean, expected.moments.mean)


def test_moments_of_other_columns_are_refused_by_name(rng, tmp_path):
    X, y = rng.standard_normal((200, 2)), rng.random(200)
    source = srf.open_source(named(X, "ab", y=y), y="y")
    others = srf.moments(srf.open_source(named(X, "bc")))
    others.save(tmp_path / "m.h5")
    with pytest.raises(ShapeError, match=r"no moments of a, columns of Table; .* those of b, c:"):
        accumulated_table(source, srf.load_moments(tmp_path / "m.h5"))
    with pytest.raises(MergeError, match="columns of other names"):
        others + srf.moments(srf.open_source(named(X)))
    # where one side has no names, columns go by their places, as of files of earlier versions
    unnamed = srf.Moments.from_tree({k: v for k, v in others.to_tree().items() if k != "names"})
    assert unnamed.names == ()
    assert (unnamed + others).names == ("b", "c")
    found = accumulated_table(source, unnamed)
    np.testing.assert_array_equal(found.encoder.preprocessing.shift, others.mean)
    with pytest.warns(srf.StreamrfWarning, match="moments of b, c, and X has no names of columns"):
        found = accumulated_table(srf.ArraySource(X, y), others)
    np.testing.assert_array_equal(found.encoder.preprocessing.shift, others.mean)
    with pytest.raises(FormatError, match="names"):
        srf.Moments.from_tree(others.to_tree() | {"names": ["b"]})


def accumulated_table(source, scales):
    return srf.accumulate(source, srf.Identity(), normalize="standard", scale_like=scales)


def test_statistics_of_tables_hold_the_names_of_columns_once(rng):
    X, y = rng.standard_normal((200, 2)), rng.random(200)
    first = srf.accumulate(srf.open_source(named(X, y=y), y="y"), srf.Identity())
    assert first.moments.names == ("a", "b")
    assert "names" not in first.to_tree()["moments"]
    loaded = srf.Statistics.from_tree(first.to_tree())
    again = srf.accumulate(srf.open_source(named(X[::-1], y=y), y="y"), like=loaded)
    assert (first + again).moments.names == again.moments.names == ("a", "b")


def test_a_made_column_of_the_name_of_another_has_its_own_scale(rng):
    pandas = pytest.importorskip("pandas")
    age = np.where(rng.random(400) < 0.2, np.nan, 40 + 10 * rng.standard_normal(400))
    names = {"age": age, "age missing": 1000.0 + np.isnan(age)}
    y = rng.integers(0, 2, 400)
    for order in (names, dict(reversed(names.items()))):
        source = srf.open_source(pandas.DataFrame(order).assign(y=y), y="y")
        assert sorted(source.columns.outputs) == ["age", "age missing", "age missing_"]
        plain, scaled = (
            srf.accumulate(source, srf.Identity(), normalize="standard", scale_like=like)
            for like in (None, srf.moments(source))
        )
        shifts = [found.encoder.preprocessing.shift for found in (plain, scaled)]
        np.testing.assert_allclose(*shifts, rtol=1e-6)
