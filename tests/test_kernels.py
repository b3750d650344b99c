"""The exact kernels: what other libraries say, positive semidefinite, sums of their series."""

import numpy as np
import pytest
from numpy.polynomial.polynomial import polyval
from sklearn.base import clone

from cases import KERNELS
from streamrf.errors import DataError, ParameterError
from streamrf.kernels import TABLE, ArcCosine, DotProductKernel, Polynomial
from streamrf.storage import describe

every_kernel = pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
every_series = pytest.mark.parametrize(
    "case",
    [case for case in KERNELS if issubclass(case.kind, DotProductKernel)],
    ids=lambda case: case.name,
)


def rows_of(case, rng, n_rows, n_features=6):
    return case.domain(rng.standard_normal((n_rows, n_features)))


def test_every_kernel_has_a_row():
    assert {case.kind.__name__ for case in KERNELS} == set(TABLE)
    assert len({case.name for case in KERNELS}) == len(KERNELS)


@every_kernel
def test_a_kernel_is_that_of_its_reference(case, rng):
    kernel = case.make()
    X, Y = rows_of(case, rng, 30), rows_of(case, rng, 20)
    near = {"rtol": 1e-9, "atol": case.rounding}
    np.testing.assert_allclose(kernel(X, Y), case.reference(X, Y), **near)
    np.testing.assert_allclose(kernel(X), case.reference(X, X), **near)


@every_kernel
@pytest.mark.parametrize("kind", ["dates", "objects", "mask", "complex"])
def test_a_kernel_takes_numbers_alone(case, kind, rng):
    """A missing date was 9e18, a masked entry what lies below the mask."""
    rows = rows_of(case, rng, 4)
    objects = rows.astype(object)
    objects[0, 0] = np.datetime64("NaT")
    wrong = {
        "dates": np.full(rows.shape, "NaT", "M8[D]"),
        "objects": objects,
        "mask": np.ma.array(rows, mask=np.arange(rows.size).reshape(rows.shape) == 3),
        "complex": rows + 1j,
    }[kind]
    kernel = case.make()
    for arguments in ((wrong,), (rows, wrong)):
        with pytest.raises(DataError, match=r"masked entries|X has dtype"):
            kernel(*arguments)


@every_kernel
def test_a_kernel_is_float64_whatever_the_rows(case, rng):
    kernel = case.make()
    X = rows_of(case, rng, 5).astype(np.float32)
    assert kernel(X).dtype == np.float64
    np.testing.assert_array_equal(kernel(X), kernel(X.astype(np.float64)))
    np.testing.assert_array_equal(kernel(X.tolist(), X[:2].tolist()), kernel(X, X[:2]))


@every_kernel
def test_a_kernel_is_symmetric_and_positive_semidefinite(case, rng):
    X = rows_of(case, rng, 80)
    X = np.concatenate((X, X[:10], case.domain(-X[:10])))  # rows twice, and opposite rows
    K = case.make()(X)
    np.testing.assert_allclose(K, K.T, rtol=1e-12)
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues[0] > -case.rounding * eigenvalues[-1]


@every_kernel
def test_a_described_kernel_is_the_same(case, rng):
    kernel, X = case.make(), rows_of(case, rng, 10)
    for again in (clone(kernel), describe.from_tree(describe.to_tree(kernel), TABLE)):
        assert type(again) is type(kernel)
        again.set_params(**{name: getattr(kernel, name) for name in named(kernel)})
        np.testing.assert_array_equal(again(X), kernel(X))


def named(kernel):
    """The settings that are code, of which files hold the name."""
    return getattr(kernel, "code_names", {})


@every_series
def test_the_series_sums_to_the_kernel(case, rng):
    kernel, X = case.make(), rows_of(case, rng, 40)
    series = kernel.maclaurin(tolerance=max(case.series_error, 1e-4))
    assert series.dtype == np.float64
    assert (series >= 0).all()
    K = kernel(X)
    error = np.abs(polyval(X @ X.T, series) - K).max()
    assert error <= case.series_error * np.abs(K).max()


def test_the_polynomial_at_known_places():
    x = [[1.0, 2.0]]
    y = [[3.0, -1.0]]  # <x, y> = 1
    assert Polynomial(degree=3)(x, y) == 8
    assert Polynomial(degree=2, gamma=0.5, coef0=2)(x, y) == 6.25
    np.testing.assert_array_equal(Polynomial(degree=3).maclaurin(), [1, 3, 3, 1])
    np.testing.assert_array_equal(Polynomial(degree=2, coef0=0).maclaurin(), [0, 0, 1])
    np.testing.assert_array_equal(Polynomial(degree=2, gamma=2, coef0=3).maclaurin(), [9, 12, 4])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"degree": 0}, r"degree must be an integer above 0, got 0"),
        ({"degree": 2.5}, r"degree must be an integer above 0, got 2\.5"),
        ({"degree": "3"}, r"degree must be an integer above 0, got '3'"),
        ({"gamma": 0.0}, r"gamma must be positive, got 0\.0"),
        ({"gamma": -1}, r"gamma must be positive, got -1"),
        ({"gamma": np.nan}, r"gamma must be positive, got nan"),
        ({"gamma": "scale"}, r"must be a positive number, got 'scale': only the Gaussian"),
        ({"coef0": -0.5}, r"coef0 must not be negative, got -0\.5: the series"),
        ({"coef0": np.nan}, r"coef0 must not be negative, got nan"),
    ],
)
def test_settings_without_a_series_are_refused(settings, message):
    kernel = Polynomial(**settings)
    for use in (kernel.maclaurin, lambda: kernel(np.eye(2)), lambda: kernel.diagonal(np.eye(2))):
        with pytest.raises(ParameterError, match=message):
            use()


def test_the_step_arc_cosine_kernel_is_one_less_the_angle():
    kernel = ArcCosine(order=0)
    angles = np.array([0.0, 0.3, 1.0, 2.0, 3.0])
    X = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    expected = 1 - np.abs(np.subtract.outer(angles, angles)) / np.pi
    np.testing.assert_allclose(kernel(X), expected, atol=1e-7)  # arccos near 1
    tolerance = 0.02  # its series ends slowly: tails of 1/sqrt(n)
    series = kernel.maclaurin(1.0, tolerance)
    assert np.abs(polyval(X @ X.T, series) - kernel(X)).max() <= tolerance
