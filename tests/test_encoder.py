"""Raw rows become scaled rows, features and whole numbers as each step's definition says."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler, normalize

import naive
import streamrf as srf
from cases import KERNELS, MAPS
from streamrf import storage
from streamrf.errors import BadRowError, FormatError, ParameterError, ShapeError
from streamrf.features import RandomMaclaurin, usual_map
from streamrf.jit.threads import computing
from streamrf.kernels import Polynomial
from streamrf.preprocessing.encoder import Encoder
from streamrf.preprocessing.rounding import (
    ROOT_LEVELS,
    TARGET_LEVELS,
    Calibration,
    Centring,
    CoarseRounding,
    FineRounding,
    Rounding,
    calibration_class,
)
from streamrf.preprocessing.scaling import CHOICES, Preprocessing
from streamrf.sources import ArraySource

pytestmark = pytest.mark.usefixtures("one_thread")

DTYPES = [np.uint8, np.int16, np.float32, np.float64]
PRECISIONS = {"exact": FineRounding, "coarse": CoarseRounding, "float64": Centring}
ROUNDINGS = [Rounding, FineRounding, CoarseRounding]
every_rounding = pytest.mark.parametrize("kind", ROUNDINGS)


def raw_rows(rng, n_rows=100, n_features=6, dtype=np.float64):
    return (rng.gamma(1.0, 30.0, (n_rows, n_features)) % 256).astype(dtype)


def sample_of(X, y=None, weights=None):
    """All rows as calibration rows."""
    return ArraySource(X, y, weights).sample(len(X))


def make_encoder(X, features=None, *, y=None, weights=None, **settings):
    features = RandomMaclaurin(n_components=40, random_state=0) if features is None else features
    return Encoder.calibrate(
        features, sample_of(X, y, weights), **{"normalize": "l2", "random_state": 0, **settings}
    )


def encode(encoder, X, weights=None):
    """The rows encoded, and the number of entries clipped."""
    roots = encoder.calibration.roots(weights, len(X))
    out = np.full((len(X), len(encoder.calibration.shift)), np.nan, encoder.calibration.dtype)
    return out, encoder.encode(X, roots, out)


def assert_same_tree(tree, other):
    assert type(tree) is type(other)
    if isinstance(tree, dict):
        assert tree.keys() == other.keys()
        for key in tree:
            assert_same_tree(tree[key], other[key])
    elif isinstance(tree, np.ndarray):
        np.testing.assert_array_equal(tree, other, strict=True)
    else:
        assert tree == other


# Rows before the map.


def scaled_by_definition(normalize_, X, calibration_rows):
    X, calibration_rows = X.astype(np.float64), calibration_rows.astype(np.float64)
    match normalize_:
        case "l2":
            return normalize(X)
        case "l1":
            return normalize(X, norm="l1")
        case "max":
            return X / np.linalg.norm(calibration_rows, axis=1).max()
        case "standard":
            return StandardScaler().fit(calibration_rows).transform(X)
        case "asinh":
            return np.arcsinh(StandardScaler().fit(calibration_rows).transform(X))
        case "quantile":
            return np.stack([scores(*c) for c in zip(X.T, calibration_rows.T, strict=True)], axis=1)
        case None:
            return X


def scores(column, rows):
    """Normal scores by the definition, of fewer rows than there are knots."""
    knots = np.unique(rows)
    if len(knots) == 1:
        return np.clip(column - knots[0], -1, 1)
    levels = [((rows < at).mean() + (rows <= at).mean()) / 2 for at in knots]
    return np.interp(column, knots, stats.norm.ppf(np.clip(levels, 0.005, 0.995)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("normalize_", CHOICES)
def test_rows_are_scaled_as_scikit_learn_scales_them(rng, normalize_, dtype):
    X, calibration_rows = raw_rows(rng, 37, dtype=dtype), raw_rows(rng, 50, dtype=dtype)
    X[3] = 0
    X[:, 2] = calibration_rows[:, 2] = 7  # a constant column keeps its scale
    actual = Preprocessing.learn(normalize_, calibration_rows).apply(X)
    expected = scaled_by_definition(normalize_, X, calibration_rows)
    assert actual.dtype == np.float32
    # One rounding to float32; where a mean is taken away, float64 sums in another order. Between
    # knots, which are float32, there are more.
    tolerance = 2e-5 if normalize_ == "quantile" else 1e-12
    np.testing.assert_allclose(actual, expected, rtol=2**-23, atol=tolerance)


def test_a_constant_that_float64_cannot_hold_is_still_constant(rng):
    X = raw_rows(rng, 1000)
    X[:, 1] = 1e6 + 0.1
    scaled = Preprocessing.learn("standard", X).apply(X)
    np.testing.assert_allclose(scaled[:, 1], 0, atol=1e-6)


def test_columns_far_from_zero_keep_their_digits(rng):
    X = rng.standard_normal((200, 3)) + 1e9
    scaled = Preprocessing.learn("standard", X).apply(X)
    np.testing.assert_allclose(scaled, StandardScaler().fit_transform(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("normalize_", CHOICES)
def test_rows_of_nothing_but_zeros_stay_zero(normalize_):
    X = np.zeros((5, 3))
    assert not Preprocessing.learn(normalize_, X).apply(X).any()


def test_an_unknown_scaling_is_named():
    with pytest.raises(ParameterError, match=r"normalize must be one of .*'l2'.*, got 'l3'"):
        Preprocessing.learn("l3", np.ones((3, 2)))


@pytest.mark.parametrize("normalize_", CHOICES)
def test_preprocessing_survives_its_tree(rng, normalize_):
    X = raw_rows(rng)
    preprocessing = Preprocessing.learn(normalize_, X)
    again = Preprocessing.from_tree(preprocessing.to_tree())
    assert_same_tree(again.to_tree(), preprocessing.to_tree())
    np.testing.assert_array_equal(again.apply(X), preprocessing.apply(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"normalize": "l3"}, "'normalize' is 'l3'"), ({"shift": np.zeros(7)}, "'inverse_scale' is")],
)
def test_a_tree_that_is_no_preprocessing_is_refused(rng, change, message):
    tree = Preprocessing.learn("l2", raw_rows(rng)).to_tree()
    with pytest.raises(FormatError, match=message):
        Preprocessing.from_tree({**tree, **change})


# Features after the map.


@every_rounding
def test_shifts_and_steps_are_means_and_deviations(rng, kind):
    Z = rng.standard_normal((200, 7)).astype(np.float32) * np.arange(4, 11) + 3
    targets = rng.standard_normal((200, 2)) * 5 - 2
    rounding = kind.learn(*naive.moments(Z), targets)
    Z, targets = Z.astype(np.float64), targets.astype(np.float64)
    np.testing.assert_allclose(rounding.shift, Z.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(rounding.step, Z.std(axis=0) / kind.levels, rtol=1e-12)
    np.testing.assert_allclose(rounding.target_shift, targets.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(rounding.target_step, targets.std(axis=0) / TARGET_LEVELS)
    assert rounding.mean_weight is None


@every_rounding
def test_rounded_features_are_whole_numbers_of_steps(rng, kind):
    Z = rng.standard_normal((50, 7)).astype(np.float32)
    rounding = kind.learn(*naive.moments(Z))
    Q = np.empty((50, 7), dtype=np.float32)
    assert rounding.store(naive.lanes(Z), np.ones(50), Q) == 0
    np.testing.assert_array_equal(Q, np.rint(Q))
    restored = rounding.shift + Q * rounding.step
    assert (np.abs(restored - Z) <= rounding.step * 0.5000001).all()
    # White noise of 1/12 squared step: what DESIGN calls a tiny ridge.
    noise = np.square((restored - Z) / rounding.step).mean()
    assert noise == pytest.approx(1 / 12, rel=0.2)


@every_rounding
def test_a_feature_that_hardly_varies_takes_its_step_from_the_others(rng, kind):
    Z = rng.standard_normal((100, 6)).astype(np.float32)
    Z[:, 0] = 0.1  # constant
    Z[:, 1] *= 1e-6  # varies, hardly
    rounding = kind.learn(*naive.moments(Z))
    deviation = Z.std(axis=0, dtype=np.float64)
    floor = kind.floor * np.median(deviation[1:])
    np.testing.assert_allclose(rounding.step[:2], floor / kind.levels, rtol=1e-12)
    np.testing.assert_allclose(rounding.step[2:], deviation[2:] / kind.levels, rtol=1e-12)
    # A border pixel that turns on later, as strongly as the others vary, is not clipped.
    later = Z[:1].copy()
    later[0, 0] += np.median(deviation[1:])
    assert rounding.store(naive.lanes(later), np.ones(1), np.empty((1, 6), dtype=np.float32)) == 0


@every_rounding
def test_features_that_never_vary_round_to_zero(kind):
    Z = np.full((9, 3), 0.1, dtype=np.float32)
    rounding = kind.learn(*naive.moments(Z))
    np.testing.assert_array_equal(rounding.step, np.full(3, 1 / kind.levels))
    Q = np.empty((9, 3), dtype=np.float32)
    assert rounding.store(naive.lanes(Z), np.ones(9), Q) == 0
    assert not Q.any()


@pytest.mark.parametrize("kind", [Rounding, FineRounding, CoarseRounding])
def test_a_feature_of_known_span_is_never_clipped(kind):
    """Of these three, one is never there, one rarely, and the span of one is not known."""
    Z = np.zeros((50_000, 3))
    Z[0, 1:], spans = 1.0, np.array([2.0, 1.0, np.inf])
    rounding = kind.learn(*naive.moments(Z), spans=spans)
    np.testing.assert_allclose(rounding.step[:2], spans[:2] / kind.span_levels)
    assert rounding.step[2] == kind.learn(*naive.moments(Z)).step[2] < rounding.step[1]
    highest = np.array([[2.0, 1.0, 0.0]], dtype=np.float32)
    assert rounding.store(naive.lanes(highest), np.ones(1), np.empty((1, 3), np.float32)) == 0


@pytest.mark.parametrize("kind", [Rounding, FineRounding, CoarseRounding])
def test_nor_is_one_of_a_heavy_row(kind):
    """Up to sixteen times the mean weight; the step of rows of one weight stays."""
    Z, spans = np.zeros((50_000, 1)), np.ones(1)
    Z[0], weights = 1.0, np.ones(len(Z))
    weights[:100] = 16.0
    alone = kind.learn(*naive.moments(Z), weights=np.ones(len(Z)), spans=spans)
    rounding = kind.learn(*naive.moments(Z), weights=weights, spans=spans)
    assert alone.step == kind.learn(*naive.moments(Z), spans=spans).step
    assert alone.step <= rounding.step <= 4 * alone.step
    roots = rounding.roots(weights[:1], 1)
    highest = naive.lanes(np.ones((1, 1), dtype=np.float32))
    assert rounding.store(highest, roots, np.empty((1, 1), np.float32)) == 0


def test_targets_that_never_vary_have_a_step():
    targets = np.array([[5.0, 0.0]] * 4)
    rounding = Rounding.learn(*naive.moments(np.eye(4)), targets)
    np.testing.assert_array_equal(rounding.target_step, np.array([5.0, 1.0]) / TARGET_LEVELS)
    assert not rounding.targets(targets, np.ones(4)).any()


def test_targets_are_whole_numbers_of_steps(rng):
    targets = rng.standard_normal((60, 2)) * [1e-3, 1e6]
    rounding = Rounding.learn(*naive.moments(rng.standard_normal((60, 3))), targets)
    rounded = rounding.targets(targets, np.ones(60))
    np.testing.assert_array_equal(rounded, np.rint(rounded))
    error = rounding.target_shift + rounded * rounding.target_step - targets
    assert (np.abs(error) <= rounding.target_step * 0.5000001).all()


def test_roots_are_those_of_relative_weights(rng):
    weights = rng.gamma(2.0, 3.0, 80)
    weights[5] = 0
    Z = rng.standard_normal((80, 4)).astype(np.float32)
    exact, floating = (
        kind.learn(*naive.moments(Z), weights=weights) for kind in (FineRounding, Centring)
    )
    expected = np.sqrt(weights / weights.mean())
    np.testing.assert_allclose(floating.roots(weights, 80), expected, rtol=1e-12)
    roots = exact.roots(weights, 80)
    np.testing.assert_array_equal(roots, np.rint(roots))
    np.testing.assert_allclose(roots / exact.root_scale, expected, atol=0.51 / ROOT_LEVELS)
    # Both round root * (z - shift) / step, whatever the mean weight.
    Q = np.empty((80, 4), dtype=np.float32)
    exact.store(naive.lanes(Z), roots, Q)
    relative = (roots / ROOT_LEVELS)[:, np.newaxis]
    np.testing.assert_array_equal(Q, np.rint(relative * ((Z - exact.shift) * (1 / exact.step))))


@pytest.mark.parametrize("kind", PRECISIONS.values())
def test_rows_without_weights_have_roots_of_one(rng, kind):
    calibration = kind.learn(*naive.moments(rng.standard_normal((9, 2))))
    np.testing.assert_array_equal(calibration.roots(None, 5), np.ones(5))
    assert calibration.root_scale == 1


@pytest.mark.parametrize("kind", PRECISIONS.values())
def test_weights_that_are_all_zero_are_no_division_by_zero(rng, kind):
    calibration = kind.learn(*naive.moments(rng.standard_normal((9, 2))), weights=np.zeros(9))
    assert not calibration.roots(np.zeros(5), 5).any()


def test_centred_features_are_only_shifted(rng):
    Z = rng.standard_normal((50, 7)).astype(np.float32) + 1000
    centring = Centring.learn(*naive.moments(Z))
    out, roots = np.empty((50, 7)), rng.uniform(0, 2, 50)
    assert centring.store(naive.lanes(Z), roots, out) == 0
    expected = roots[:, np.newaxis] * (Z - Z.mean(axis=0, dtype=np.float64))
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", PRECISIONS.values())
@pytest.mark.parametrize("weighted", [False, True])
def test_calibrations_survive_their_trees(rng, kind, weighted):
    Z, targets = rng.standard_normal((30, 4)), rng.standard_normal((30, 1))
    calibration = kind.learn(
        *naive.moments(Z), targets, rng.uniform(1, 2, 30) if weighted else None
    )
    again = Calibration.from_tree(calibration.to_tree())
    assert type(again) is kind
    assert_same_tree(again.to_tree(), calibration.to_tree())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class": "Guessing"}, "'class' is 'Guessing'; expected one of"),
        ({"step": np.zeros(4)}, "'step' holds a step that is not positive"),
        ({"step": np.ones(3)}, "'step' is .* of shape"),
    ],
)
def test_a_tree_that_is_no_calibration_is_refused(rng, change, message):
    tree = Rounding.learn(*naive.moments(rng.standard_normal((30, 4)))).to_tree()
    with pytest.raises(FormatError, match=message):
        Calibration.from_tree({**tree, **change})


def test_integers_fit_their_bits():
    expected = ((Rounding, 13, 32), (FineRounding, 16, 512), (CoarseRounding, 8, 24))
    for kind, n_bits, levels in expected:
        assert (kind.limit, kind.levels) == (2 ** (n_bits - 1) - 1, levels)
        # A column that hardly varied may move by a median deviation of the others.
        assert kind.levels / kind.floor <= kind.limit


def test_totals_of_32_bits_take_coarser_steps():
    assert calibration_class("exact", "int32") is Rounding
    assert calibration_class("coarse", "int32") is CoarseRounding


@every_rounding
@pytest.mark.parametrize("weighted", [False, True])
def test_rounding_is_a_ridge_penalty(rng, kind, weighted):
    """The Gram of rounded rows has ``n step^2 / 12`` more on its diagonal, as a penalty adds."""
    n, width = 200_000, 4
    Z = rng.uniform(-1, 1, (n, width)).astype(np.float32)
    weights = rng.uniform(0.2, 3, n) if weighted else None
    calibration = kind.learn(*naive.moments(Z), weights=weights)
    roots = calibration.roots(weights, n)
    relative = (roots / calibration.root_scale)[:, np.newaxis]
    Q = np.empty((n, width), dtype=np.float32)
    calibration.store(naive.lanes(Z), roots, Q)
    exact = relative * ((Z.astype(np.float64) - calibration.shift) / calibration.step)
    noise = Q - exact
    unit = calibration.step**2 * (calibration.mean_weight or 1.0)
    added = np.square(noise).sum(axis=0) @ unit / width
    assert added == pytest.approx(calibration.noise_alpha(n), rel=0.02)
    # White: no products with the features or with each other, so the rest of the Gram stays.
    apart = np.corrcoef(np.hstack((noise, exact)).T)[:width]
    assert np.abs(apart - np.eye(width, 2 * width)).max() < 6 / np.sqrt(n)


def test_unrounded_features_have_no_penalty(rng):
    assert Centring.learn(*naive.moments(rng.standard_normal((9, 2)))).noise_alpha(10**9) == 0


def test_an_unknown_precision_is_named():
    with pytest.raises(ParameterError, match=r"precision must be one of .*, got 'double'"):
        calibration_class("double")
    assert {name: calibration_class(name) for name in PRECISIONS} == PRECISIONS


# Both around the map.


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("normalize_", CHOICES)
def test_encoded_rows_are_the_calibrated_features_of_the_scaled_rows(
    rng, normalize_, precision, weighted
):
    X = rng.uniform(0.1, 0.5, (70, 6))
    weights = rng.uniform(0.5, 2, 70) if weighted else None
    encoder = make_encoder(X, weights=weights, normalize=normalize_, precision=precision)
    Z = encoder.features.transform(encoder.preprocessing.apply(X))
    np.testing.assert_allclose(encoder.calibration.shift, Z.mean(axis=0, dtype=np.float64))
    roots = encoder.calibration.roots(weights, 70)
    expected = np.empty((70, 40), dtype=encoder.calibration.dtype)
    expected_clipped = encoder.calibration.store(naive.lanes(Z), roots, expected)
    actual, n_clipped = encode(encoder, X, weights)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)
    assert n_clipped == expected_clipped
    assert n_clipped == 0 or precision == "coarse"


def test_scaled_features_are_those_before_rounding(rng):
    X = raw_rows(rng)
    encoder = make_encoder(X)
    scaled = np.empty((100, 40), dtype=np.float32)
    encoder.scale(X, scaled)
    assert (np.abs(scaled - encode(encoder, X)[0]) <= 0.5001).all()


def test_calibrating_leaves_the_map_alone_and_seeds_a_copy(rng):
    X = raw_rows(rng)
    unseeded = RandomMaclaurin(n_components=40)
    encoder = make_encoder(X, unseeded, random_state=5)
    assert vars(unseeded) == vars(RandomMaclaurin(n_components=40))
    assert encoder.digests == make_encoder(X, unseeded, random_state=5).digests
    assert encoder.digests != make_encoder(X, unseeded, random_state=6).digests
    seeded = RandomMaclaurin(n_components=40, random_state=7)
    rows = Preprocessing.learn("l2", X).apply(X)
    for random_state in (5, 6, None):
        encoder = make_encoder(X, seeded, random_state=random_state)
        expected = clone(seeded).fit(rows).transform(rows)
        np.testing.assert_array_equal(encoder.features.transform(rows), expected)


def test_targets_are_calibrated_for_regression_alone(rng):
    X, y = raw_rows(rng), rng.standard_normal(100)
    assert make_encoder(X, y=y, regression=True).calibration.target_shift.shape == (1,)
    assert make_encoder(X, y=y).calibration.target_shift.shape == (0,)


@pytest.mark.parametrize("features", [None, "maclaurin", RandomMaclaurin, StandardScaler()])
def test_what_is_no_map_is_refused(rng, features):
    with pytest.raises(ParameterError, match="features must be a feature map such as"):
        Encoder.calibrate(features, sample_of(raw_rows(rng)))


@pytest.mark.parametrize(
    ("kernel", "cure"),
    [
        (srf.Gaussian("median"), "StructuredFourier(Gaussian(gamma='median'))"),
        (srf.Laplacian(), "RandomFourier(Laplacian())"),
        (srf.Polynomial(2), "RandomMaclaurin(Polynomial(degree=2))"),
        (srf.Chi2(), "AdditiveSampler(Chi2())"),
        (srf.ExpChi2(), "AdditiveFourier(ExpChi2())"),
        (srf.Linear(), "Identity(Linear())"),
    ],
)
def test_a_kernel_in_place_of_a_map_is_told_its_map(rng, kernel, cure):
    with pytest.raises(ParameterError, match="must be a feature map, got the kernel") as caught:
        Encoder.calibrate(kernel, sample_of(raw_rows(rng)))
    assert str(caught.value).endswith(f"; take {cure}")


@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
def test_the_usual_map_of_a_kernel_takes_it(case):
    kernel = case.make()
    make = usual_map(type(kernel))
    assert next(iter(inspect.signature(make).parameters)) == "kernel"
    assert make(kernel).kernel is kernel


def test_rows_of_another_width_are_refused(rng):
    encoder = make_encoder(raw_rows(rng))
    with pytest.raises(ShapeError, match="X has 5 features, but the model was made for 6"):
        encoder.scale(raw_rows(rng, n_features=5), np.empty((100, 40)))


@pytest.mark.parametrize("precision", ["exact", "coarse"])
def test_rows_unlike_the_calibration_rows_are_clipped_and_counted(rng, precision):
    X = rng.standard_normal((200, 6))
    encoder = make_encoder(X, normalize=None, precision=precision)
    limit = encoder.calibration.limit
    X[17] *= 1000
    scaled = np.empty((200, 40))
    encoder.scale(X, scaled)
    beyond = np.abs(np.rint(scaled)) > limit
    Q, n_clipped = encode(encoder, X)
    assert n_clipped == beyond.sum() > 0
    if precision == "exact":
        assert set(np.flatnonzero(beyond.any(axis=1))) == {17}
    np.testing.assert_array_equal(np.abs(Q[beyond]), limit)
    np.testing.assert_array_equal(np.sign(Q[beyond]), np.sign(scaled[beyond]))


OVERFLOWING = pytest.mark.parametrize(
    "features",
    [
        RandomMaclaurin(n_components=40, projection=projection, random_state=0)
        for projection in ("hadamard", "rademacher")
    ],
    ids=lambda features: features.projection,
)
ADVICE = r"too large.*scale them \(normalize='l2', 'max' or 'standard'\)"


@OVERFLOWING
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("size", [1e20, 1e300, np.nan])  # products, the rows themselves, no number
def test_features_that_overflow_are_refused(rng, features, precision, size):
    X = rng.standard_normal((50, 6))
    encoder = make_encoder(X, features, precision=precision, normalize=None)
    X[20] *= size
    with pytest.raises(BadRowError, match=ADVICE):
        encode(encoder, X)


@OVERFLOWING
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("size", [1e20, 1e300, np.nan])
def test_features_that_overflow_among_the_calibration_rows_are_refused(
    rng, features, precision, size
):
    X = rng.standard_normal((50, 6))
    X[20] *= size
    with pytest.raises(BadRowError, match=ADVICE):
        make_encoder(X, features, precision=precision, normalize=None)


@pytest.mark.parametrize("case", MAPS, ids=lambda case: case.name)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_bits_do_not_depend_on_threads_blocks_or_order(rng, monkeypatch, case, precision):
    X, weights = case.domain(rng.standard_normal((300, 6))), rng.uniform(0.5, 2, 300)
    n_components = case.exact_terms(6) + 40
    features = case.make(n_components=n_components, random_state=0)
    encoder = make_encoder(X, features, weights=weights, normalize=None, precision=precision)
    expected, n_clipped = encode(encoder, X, weights)
    assert n_clipped == 0 or precision == "coarse"
    order = rng.permutation(300)
    for n_threads in (1, 2):
        with computing(n_threads):
            again = make_encoder(X, features, weights=weights, normalize=None, precision=precision)
            assert again.digests == encoder.digests
            for cuts in ([], [1, 16, 33, 128, 290]):
                parts = [
                    encode(encoder, X[rows], weights[rows])[0] for rows in np.split(order, cuts)
                ]
                assert np.concatenate(parts).tobytes() == expected[order].tobytes()
    monkeypatch.setattr("streamrf.features.base.PANEL_BYTES", 1)
    assert encode(encoder, X, weights)[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("case", MAPS, ids=lambda case: case.name)
def test_an_encoder_survives_its_tree_and_a_file(rng, tmp_path, case):
    X = case.domain(rng.standard_normal((60, 6)))
    features = case.make(n_components=case.exact_terms(6) + 40, random_state=0)
    encoder = make_encoder(X, features, normalize="max", weights=rng.uniform(1, 2, 60))
    storage.write(tmp_path / "encoder.h5", "encoder", encoder.to_tree())
    for tree in (encoder.to_tree(), storage.read(tmp_path / "encoder.h5", "encoder")):
        again = Encoder.from_tree(tree)
        assert again.digests == encoder.digests
        again.features.attach(iter(encoder.features.code))
        assert (
            encode(again, X, np.ones(60))[0].tobytes()
            == encode(encoder, X, np.ones(60))[0].tobytes()
        )


def test_a_digest_differs_when_and_only_when_its_part_differs(rng):
    X = raw_rows(rng)
    encoder = make_encoder(X)
    other = make_encoder(
        raw_rows(rng), RandomMaclaurin(n_components=40, random_state=1), normalize="max"
    )
    assert make_encoder(X.copy()).digests == encoder.digests
    parts = {
        "feature maps": {"features": other.features},
        "preprocessing": {"preprocessing": other.preprocessing},
        "calibrations": {"calibration": other.calibration},
    }
    assert parts.keys() == encoder.digests.keys()
    for name, change in parts.items():
        digests = replace(encoder, **change).digests
        assert {key for key in digests if digests[key] != encoder.digests[key]} == {name}


@pytest.mark.parametrize(
    "features",
    [
        RandomMaclaurin(n_components=40, random_state=1),
        RandomMaclaurin(n_components=41, random_state=0),
        RandomMaclaurin(Polynomial(coef0=1.001), n_components=40, random_state=0),
        RandomMaclaurin(n_components=40, projection="rademacher", random_state=0),
        RandomMaclaurin(n_components=40, h01=True, random_state=0),
    ],
)
def test_a_digest_sees_every_setting_of_the_map(rng, features):
    X = raw_rows(rng)
    assert (
        make_encoder(X).digests["feature maps"] != make_encoder(X, features).digests["feature maps"]
    )


@pytest.mark.parametrize("name", ["signs_", "picks_", "scales_", "degrees_"])
def test_a_digest_sees_every_fitted_number(rng, name):
    X = raw_rows(rng)
    encoder, other = make_encoder(X), make_encoder(X)
    array = getattr(other.features, name)
    array.flat[-1] += 1
    assert other.digests["feature maps"] != encoder.digests["feature maps"]


@pytest.mark.parametrize("goes_on", [False, True], ids=["calibrates", "goes-on"])
def test_a_row_whose_features_overflow_is_named(goes_on, rng):
    X, y = rng.normal(size=(300, 3)), np.arange(300) % 2
    features = srf.StructuredFourier(srf.Gaussian(0.3), 64, random_state=0)
    like = srf.accumulate(srf.ArraySource(X, y), features) if goes_on else None
    X[217, 1] = 1e149
    with pytest.raises(BadRowError, match=r"X, row 217.*: the features overflow: rows are too la"):
        srf.accumulate(srf.ArraySource(X, y), None if goes_on else features, like=like)


def test_a_mean_weight_at_its_bound_is_saved_and_loaded(rng, tmp_path):
    """The mean of 59 equal weights was a bit above the weight, and its file was refused."""
    X = rng.normal(size=(59, 4))
    found = srf.accumulate(
        srf.ArraySource(X, X[:, 0], np.full(59, 1e150)),
        srf.RandomFourier(srf.Gaussian(0.1), 16, random_state=0),
        regression=True,
    )
    found.save(tmp_path / "s.h5")
    assert srf.load_statistics(tmp_path / "s.h5").n_rows == 59
