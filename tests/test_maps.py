"""The laws of feature maps, over every row of the table in cases.py."""

import copy
import pickle

import joblib
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, normalize

from cases import EXPECTED_FAILED_CHECKS, MAPS, MIXTURES
from conventions import check_convention, conventions
from draws import errors_over_draws
from streamrf.errors import ParameterError, ShapeError
from streamrf.features import (
    DESCRIBED,
    TABLE,
    AdditiveSampler,
    Craft,
    Identity,
    RandomMaclaurin,
    TransformerMap,
)
from streamrf.jit.lanes import LANES
from streamrf.jit.threads import computing
from streamrf.kernels import TABLE as TABLE_OF_KERNELS
from streamrf.kernels import Polynomial
from streamrf.storage import describe

pytestmark = pytest.mark.usefixtures("one_thread")

N_FEATURES = 5

every_map = pytest.mark.parametrize("case", MAPS, ids=lambda case: case.name)
every_mixture = pytest.mark.parametrize("case", [*MAPS, *MIXTURES], ids=lambda case: case.name)
every_random = pytest.mark.parametrize(
    "case", [case for case in [*MAPS, *MIXTURES] if case.is_random], ids=lambda case: case.name
)
every_shrinking = pytest.mark.parametrize(
    "case", [case for case in [*MAPS, *MIXTURES] if case.shrinks], ids=lambda case: case.name
)


def rows_of(case, rng, n_rows, n_features=N_FEATURES):
    return case.domain(rng.standard_normal((n_rows, n_features)))


def of_width(case, n_random, random_state=0):
    """A map with `n_random` components besides those that are the same in every draw."""
    n_components = case.exact_terms(N_FEATURES) + n_random
    return case.make(n_components=n_components, random_state=random_state)


def fitted(case, X, n_random=64, random_state=0):
    return of_width(case, n_random, random_state).fit(X)


def greatest_z_score(errors):
    """The greatest mean error, in standard errors; float32 rounding counts as one more of these."""
    spread = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    return np.abs(errors.mean(axis=0) / np.hypot(spread, 1e-6)).max()


def z_bound(n_scores):
    """What the greatest of `n_scores` passes once in ten thousand times, by Bonferroni's bound."""
    return norm.isf(1e-4 / (2 * n_scores))


def test_every_map_has_a_row():
    assert {case.kind.__name__ for case in MAPS} == set(TABLE)
    assert len({case.name for case in [*MAPS, *MIXTURES]}) == len(MAPS) + len(MIXTURES)


def test_every_kernel_has_a_map():
    assert {name_of_kernel(case) for case in MAPS} == set(TABLE_OF_KERNELS)


def name_of_kernel(case):
    X = rows_of(case, np.random.default_rng(0), 4)
    return type(fitted(case, X).kernel_).__name__


@every_random
def test_products_of_features_are_unbiased(case, rng):
    n_draws = 100 if case.n_random > 9 else 300  # of more components a draw knows more
    errors = errors_over_draws(of_width(case, case.n_random), rows_of(case, rng, 5), n_draws)
    assert greatest_z_score(errors) < z_bound(errors.shape[1])


def enlarge(features):
    """Make every product a tenth too large."""
    features.scales_ *= np.float32(np.sqrt(1.1))


def repeat_signs(features):
    """Make the second factor of a feature its first once more."""
    n_first, n_second = (np.count_nonzero(features.degrees_ > level) for level in (0, 1))
    features.signs_[n_first : n_first + n_second] = features.signs_[:n_second]


@pytest.mark.parametrize("change", [enlarge, repeat_signs])
def test_a_bias_would_be_seen(rng, change):
    case = next(case for case in MAPS if case.name == "maclaurin-rademacher")
    errors = errors_over_draws(of_width(case, 96), rows_of(case, rng, 5), 100, change=change)
    assert greatest_z_score(errors) > z_bound(errors.shape[1])


def test_the_permuted_layout_has_the_bias_of_shared_transforms(rng):
    """Two rows of one transform: the expected product by Isserlis' sum over the pairs of signs."""
    X = normalize(rng.standard_normal((5, N_FEATURES)))
    pairs, squares = np.square(X @ X.T), np.square(X) @ np.square(X).T
    n_rows = 8  # of the one transform, which gives two factors to each of four features
    bias = ((2 * squares - 1 - pairs) / (n_rows - 1))[np.triu_indices(len(X))]
    for projection, expected in (("permuted", bias), ("hadamard", 0.0)):
        features = RandomMaclaurin(Polynomial(degree=2, coef0=0), 4, projection=projection)
        errors = errors_over_draws(features, X, 1000)
        assert greatest_z_score(errors - expected) < z_bound(len(bias))
    assert np.abs(bias).max() > 0.2


@every_shrinking
def test_the_error_shrinks_as_one_over_the_root_of_the_width(case, rng):
    X = rows_of(case, rng, 12)
    narrow, wide = (
        np.sqrt(np.mean(errors_over_draws(of_width(case, n_random), X, 40) ** 2))
        for n_random in (32, 512)
    )
    # 40 draws of a heavy-tailed error know its root mean square to about a tenth, so the power
    # over a factor of 16 in width to about 0.05.
    assert 0.35 < np.log(narrow / wide) / np.log(16) < 0.65


@every_map
def test_features_are_float32_of_the_width_asked(case, rng):
    X = rows_of(case, rng, 33)
    features = fitted(case, X)
    for rows in (X, X.astype(np.float32), X[:1]):
        Z = features.transform(rows)
        assert Z.dtype == np.float32
        assert Z.shape == (len(rows), features.n_components)
        assert np.isfinite(Z).all()


@every_mixture
@pytest.mark.parametrize("n_random", [64, 100, 512])
def test_every_component_is_written(case, rng, n_random):
    X = rows_of(case, rng, LANES).astype(np.float32)
    features = fitted(case, X, n_random)
    z = np.full((1, features.n_components, LANES), np.nan, dtype=np.float32)
    features.map_lanes(np.ascontiguousarray(X.T)[np.newaxis], z)
    assert np.isfinite(z).all()


@every_mixture
def test_no_component_varies_by_more_than_its_span(case, rng):
    features = fitted(case, rows_of(case, rng, 33))
    Z = features.transform(rows_of(case, rng, 200)).astype(np.float64)
    assert features.spans.shape == (features.n_components,)
    assert (np.ptp(Z, axis=0) <= features.spans * (1 + 1e-6)).all()


@every_map
def test_out_is_filled_and_given_back(case, rng):
    X = rows_of(case, rng, 33)
    features = fitted(case, X)
    wide = np.full((33, features.n_components + 5), np.nan, dtype=np.float32)
    for out in (np.empty((33, features.n_components), dtype=np.float32), wide[:, 2:-3]):
        assert features.transform(X, out=out) is out
        np.testing.assert_array_equal(out, features.transform(X))
    assert np.isnan(wide[:, [0, 1, -3, -2, -1]]).all()


@every_map
def test_the_layout_of_the_rows_does_not_matter(case, rng):
    X = rows_of(case, rng, 40).astype(np.float32)
    features = fitted(case, X)
    expected = features.transform(X)
    read_only = X.copy()
    read_only.flags.writeable = False
    for same in (np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], read_only, X.astype(float)):
        np.testing.assert_array_equal(features.transform(same), expected)


@every_map
def test_the_same_seed_gives_the_same_features(case, rng):
    X = rows_of(case, rng, 8)
    Z = fitted(case, X, random_state=3).transform(X)
    np.testing.assert_array_equal(fitted(case, X, random_state=3).transform(X), Z)
    assert (fitted(case, X, random_state=4).transform(X) != Z).any() == case.is_random
    assert (fitted(case, X, random_state=None).transform(X) != Z).any() == case.is_random


@every_map
def test_fitting_again_draws_the_same(case, rng):
    X = rows_of(case, rng, 8)
    features = fitted(case, X)
    expected = features.transform(X)
    np.testing.assert_array_equal(features.fit(X).transform(X), expected)


@every_map
@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_rows_bits_do_not_depend_on_its_place_or_the_threads(case, rng, monkeypatch, n_threads):
    X = rows_of(case, rng, 300)  # more than two dense tiles of 128
    features = fitted(case, X, 72)
    expected = features.transform(X)
    order = rng.permutation(len(X))
    with computing(n_threads):
        for cuts in ([], [1], [15, 16, 33, 128, 200]):
            parts = [features.transform(part) for part in np.split(X[order], cuts)]
            assert np.concatenate(parts).tobytes() == expected[order].tobytes()
        monkeypatch.setattr("streamrf.features.base.PANEL_BYTES", 1)
        assert features.transform(X[order]).tobytes() == expected[order].tobytes()


@every_map
def test_a_row_of_many_columns_has_the_same_bits_at_every_place(case, rng):
    """Kernels of BLAS for AVX2 give the rows of one product other bits by their place in it."""
    X = rows_of(case, rng, 40, 48)
    features = case.make(n_components=case.exact_terms(48) + 70, random_state=0).fit(X)
    if features.code:
        pytest.skip("its products are not ours")
    Z = features.transform(np.repeat(X[:3], 300, axis=0))
    for same in np.split(Z, 3):
        assert (same == same[0]).all()


@every_map
def test_a_described_map_gives_the_same_features(case, rng):
    X = rows_of(case, rng, 40)
    features = fitted(case, X, random_state=np.random.RandomState(0))
    tree = describe.to_tree(features)
    again = describe.from_tree(tree, DESCRIBED)
    again.attach(iter(features.code))
    assert type(again) is type(features)
    assert again.transform(X).tobytes() == features.transform(X).tobytes()
    assert describe.digest(describe.to_tree(again)) == describe.digest(tree)
    np.testing.assert_array_equal(again.kernel_(X), features.kernel_(X))


@every_map
def test_a_pickled_map_gives_the_same_features(case, rng):
    X = rows_of(case, rng, 40)
    features = fitted(case, X)
    again = pickle.loads(pickle.dumps(features))
    assert again.transform(X).tobytes() == features.transform(X).tobytes()


@every_map
def test_a_map_that_joblib_maps_into_memory_is_not_locked(case, rng, tmp_path):
    X = rows_of(case, rng, 40)
    features = fitted(case, X)
    joblib.dump(features, tmp_path / "features")
    again = joblib.load(tmp_path / "features", mmap_mode="r")
    assert all(v.flags.writeable for v in vars(again).values() if isinstance(v, np.ndarray))
    assert again.transform(X).tobytes() == features.transform(X).tobytes()


@every_map
def test_a_clone_draws_the_same(case, rng):
    X = rows_of(case, rng, 40)
    features = fitted(case, X)
    assert clone(features).fit(X).transform(X).tobytes() == features.transform(X).tobytes()


@every_map
def test_fitting_leaves_the_settings_alone(case, rng):
    X = rows_of(case, rng, 40)
    features = of_width(case, 64, random_state=None)
    before = copy.deepcopy(features.get_params(deep=False))
    features.fit(X).transform(X)
    after = features.get_params(deep=False)
    assert before.keys() == after.keys()
    for name, value in before.items():
        if hasattr(value, "get_params"):
            assert vars(value).keys() == vars(after[name]).keys()  # no fitted attribute
            assert repr(value) == repr(after[name])
        elif isinstance(value, list):
            assert repr(value) == repr(after[name])
        else:
            assert value == after[name]


@every_map
def test_a_map_works_in_a_pipeline(case):
    X, y = load_digits(return_X_y=True)
    n_components = case.exact_terms(X.shape[1]) + 512
    pipeline = make_pipeline(
        FunctionTransformer(case.domain),
        case.make(n_components=n_components, random_state=0),
        RidgeClassifier(alpha=0.1),
    )
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    accuracy = pipeline.fit(X_train, y_train).score(X_test, y_test)
    assert accuracy > case.accuracy  # of the rows themselves, scaled alike: 0.936


@every_map
def test_features_have_names(case, rng):
    features = fitted(case, rows_of(case, rng, 4))
    assert len(set(features.get_feature_names_out())) == features.n_components


@every_map
@pytest.mark.parametrize("n_components", [0, -1, 2.5, "8", None, True])
def test_a_width_that_is_no_count_is_refused(case, rng, n_components):
    features = case.make(n_components=64, random_state=0)
    if isinstance(features, AdditiveSampler | Identity | TransformerMap):
        pytest.skip("its width is no setting")
    own = features if "n_components" in features.get_params(deep=False) else features.maps[0]
    own.set_params(n_components=n_components)
    with pytest.raises(ParameterError, match=r"n_components must be an integer above 0, got"):
        features.fit(rows_of(case, rng, 4))


@every_map
def test_an_out_of_another_shape_or_dtype_is_refused(case, rng):
    X = rows_of(case, rng, 4)
    features = fitted(case, X)
    width = features.n_components
    for out in (np.empty((4, width + 1), np.float32), np.empty((5, width), np.float32)):
        with pytest.raises(ShapeError, match=rf"out must be float32 of shape \(4, {width}\), got"):
            features.transform(X, out=out)
    with pytest.raises(ShapeError, match=r"got float64 of shape"):
        features.transform(X, out=np.empty((4, width)))


# What holds of one class alone.


@pytest.mark.parametrize("projection", ["hadamard", "rademacher"])
def test_the_exact_terms_are_those_of_the_series(rng, projection):
    X = rng.standard_normal((20, N_FEATURES)).astype(np.float32)
    kernel = Polynomial(degree=3, gamma=0.5, coef0=2.0)
    Z = RandomMaclaurin(kernel, 50, projection=projection, h01=True).fit_transform(X)
    np.testing.assert_allclose(Z[:, 0], np.sqrt(2.0**3), rtol=1e-6)
    np.testing.assert_allclose(Z[:, 1 : 1 + N_FEATURES], np.sqrt(3 * 0.5 * 2.0**2) * X, rtol=1e-6)


@pytest.mark.parametrize("coef0", [0.0, 1.5])
def test_exact_terms_alone_give_the_linear_kernel(rng, coef0):
    X = rng.standard_normal((20, N_FEATURES))
    kernel = Polynomial(degree=1, coef0=coef0)
    Z = RandomMaclaurin(kernel, N_FEATURES + (coef0 > 0), h01=True).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, kernel(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("h01", [False, True])
@pytest.mark.parametrize("p", [1.5, 2.0, 4.0])
def test_degrees_are_geometric_over_those_of_the_series(rng, p, h01):
    n = 20_000
    exact = 1 + N_FEATURES if h01 else 0
    kernel = Polynomial(degree=4)
    features = RandomMaclaurin(kernel, n + exact, h01=h01, p=p, random_state=0)
    features.fit(rng.standard_normal((2, N_FEATURES)))
    degrees = np.arange(2 if h01 else 0, 5)
    chances = p ** -(degrees + 1.0)
    chances /= chances.sum()
    counts = np.bincount(features.degrees_, minlength=5)
    assert counts[degrees].sum() == n
    deviations = (counts[degrees] - n * chances) / np.sqrt(n * chances * (1 - chances))
    assert np.abs(deviations).max() < z_bound(len(degrees))
    assert (np.diff(features.degrees_) <= 0).all()


def test_craft_keeps_the_seed_of_its_up_projection(rng):
    X = rng.standard_normal((4, N_FEATURES))
    up = RandomMaclaurin(Polynomial(), 64, random_state=7)
    expected = clone(up).fit(X).transform(X)
    for random_state in (0, 1, None):
        craft = Craft(up, 8, random_state=random_state).fit(X)
        np.testing.assert_array_equal(craft.up_.transform(X), expected)
    assert craft.kernel_ is craft.up_.kernel_


def test_craft_seeds_an_up_projection_without_a_seed(rng):
    X = rng.standard_normal((4, N_FEATURES))
    craft = Craft(Craft(RandomMaclaurin(Polynomial(), 64), 32), 8, random_state=0)
    np.testing.assert_array_equal(clone(craft).fit(X).transform(X), craft.fit(X).transform(X))


def test_craft_of_full_width_keeps_every_product(rng):
    """With all rows of the Hadamard matrix, going down is a rotation."""
    X = rng.standard_normal((10, N_FEATURES))
    craft = Craft(RandomMaclaurin(Polynomial(), 64), 64, random_state=0).fit(X)
    Z, up = craft.transform(X), craft.up_.transform(X)
    np.testing.assert_allclose(Z @ Z.T, up @ up.T, rtol=1e-4, atol=1e-4)


def test_too_few_components_for_the_exact_terms_say_what_to_do(rng):
    X = rng.standard_normal((4, N_FEATURES))
    with pytest.raises(ParameterError) as caught:
        RandomMaclaurin(Polynomial(), 6, h01=True).fit(X)
    message = str(caught.value)
    assert "h01=True keeps 6 exact terms for rows of 5 features" in message
    assert "n_components must be more than 6, got 6" in message
    for advice in (
        "raise n_components",
        "set h01=False",
        "Craft(RandomMaclaurin(..., n_components=48, h01=True), n_components=6)",
    ):
        assert advice in message
    # The advice, followed:
    RandomMaclaurin(Polynomial(), 7, h01=True).fit(X)
    RandomMaclaurin(Polynomial(), 6).fit(X)
    Craft(RandomMaclaurin(Polynomial(), n_components=48, h01=True), n_components=6).fit(X)


def test_more_components_than_the_exact_terms_of_a_linear_kernel_are_refused(rng):
    features = RandomMaclaurin(Polynomial(degree=1), 9, h01=True)
    with pytest.raises(ParameterError, match=r"n_components must be exactly 6, got 9"):
        features.fit(rng.standard_normal((4, N_FEATURES)))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            Craft(RandomMaclaurin(n_components=32), 33),
            r"down from the 32 components .* must not exceed that, got 33; .* 264 \(8 times",
        ),
        (RandomMaclaurin(p=1.0), r"p must be above 1, got 1\.0"),
        (RandomMaclaurin(p=np.nan), r"p must be above 1, got nan"),
        (RandomMaclaurin(projection="gauss"), r"projection must be .*'hadamard'.* got 'gauss'"),
        (RandomMaclaurin(Polynomial(coef0=-1)), r"coef0 must not be negative, got -1"),
        (RandomMaclaurin(Polynomial(degree=0)), r"degree must be an integer above 0, got 0"),
        (RandomMaclaurin(Polynomial(gamma=0.0)), r"gamma must be positive, got 0\.0"),
    ],
)
def test_a_setting_that_cannot_work_is_named(rng, features, message):
    with pytest.raises(ParameterError, match=message):
        features.fit(rng.standard_normal((4, N_FEATURES)))


@pytest.mark.parametrize(
    ("case", "estimator", "check"),
    [
        pytest.param(case, estimator, check, id=f"{case.name}-{check.func.__name__}")
        for case in MAPS
        if case.takes_any_rows
        for estimator, check in conventions(case.make(n_components=64, random_state=0))
    ],
)
def test_scikit_learn_conventions(case, estimator, check):
    check_convention(check, estimator, EXPECTED_FAILED_CHECKS.get(case.name, {}))


def test_expected_failures_are_those_of_rows():
    assert set(EXPECTED_FAILED_CHECKS) <= {case.name for case in MAPS}
