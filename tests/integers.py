"""The sums in plain whole numbers, from their definition; and passes with chosen blocks."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import lapack

import streamrf as srf
from passes import add, begin
from streamrf.preprocessing.rounding import Centring

TARGET_LIMIT = 2**40
ROOT_LEVELS = 2**12


def features(n_components=24, degree=3, **settings):
    """A small map."""
    settings = {"random_state": 0, **settings}
    return srf.RandomMaclaurin(srf.Polynomial(degree=degree), n_components, **settings)


def accumulate(
    source,
    features=None,
    *,
    block_rows=4096,
    n_threads=None,
    window=(0, None),
    on_bad_rows="raise",
    **settings,
):
    """`srf.accumulate` with chosen blocks and rows."""
    pass_ = begin(source, features, on_bad_rows=on_bad_rows, **settings)
    start, stop = window
    return add(
        source,
        pass_,
        start=start,
        stop=stop,
        block_rows=block_rows,
        on_bad_rows=on_bad_rows,
        n_threads=n_threads,
    ).join()


@dataclass
class Rounded:
    """Rounded rows: Q (n, n_components), roots (n,), both int64, and the entries clipped."""

    Q: np.ndarray
    roots: np.ndarray
    n_clipped: int


def rounded(encoder, X, weights=None) -> Rounded:
    """The rows as the definition has them: ``q = clip(rint(root (z - shift) / step))``."""
    calibration = encoder.calibration
    Z = encoder.features.transform(encoder.preprocessing.apply(X)).astype(np.float64)
    if weights is None:
        scaled, roots = np.ones(len(X)), np.ones(len(X))
    else:
        roots = np.rint(np.sqrt(weights / calibration.mean_weight) * ROOT_LEVELS)
        scaled = roots / ROOT_LEVELS
    Q = np.rint(scaled[:, None] * ((Z - calibration.shift) * (1 / calibration.step)))
    clipped = np.clip(Q, -calibration.limit, calibration.limit)
    return Rounded(clipped.astype(np.int64), roots.astype(np.int64), int((clipped != Q).sum()))


def rounded_targets(encoder, y, rows: Rounded) -> np.ndarray:
    """Targets as whole numbers, int64 (n, n_targets)."""
    calibration = encoder.calibration
    y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    scaled = rows.roots / (1 if calibration.mean_weight is None else ROOT_LEVELS)
    t = np.rint(scaled[:, None] * ((y - calibration.target_shift) / calibration.target_step))
    return np.clip(t, -TARGET_LIMIT, TARGET_LIMIT).astype(np.int64)


def plain_problem(statistics, X, y, weights=None):
    """Features, targets and weights as floats: what the sums are exact sums of."""
    encoder = statistics.encoder
    calibration = encoder.calibration
    one_vs_rest = None
    if statistics.labels is not None:
        one_vs_rest = 2.0 * (y[:, np.newaxis] == statistics.labels) - 1
        one_vs_rest = one_vs_rest[:, 1:] if one_vs_rest.shape[1] == 2 else one_vs_rest
    if isinstance(calibration, Centring):
        Z = encoder.features.transform(encoder.preprocessing.apply(X)).astype(np.float64)
        return Z, y if one_vs_rest is None else one_vs_rest, weights
    whole = rounded(encoder, X, weights)
    scale = 1 if weights is None else ROOT_LEVELS
    heavy = whole.roots > 0
    roots = whole.roots[heavy, np.newaxis] / scale
    Z = calibration.shift + calibration.step * whole.Q[heavy] / roots
    if one_vs_rest is None:
        t = rounded_targets(encoder, y, whole)[heavy]
        y = calibration.target_shift + calibration.target_step * t / roots
    else:
        y = one_vs_rest[heavy]
    mean_weight = 1.0 if weights is None else calibration.mean_weight
    return Z, y, roots[:, 0] ** 2 * mean_weight


def unpacked(gram, n) -> np.ndarray:
    """LAPACK's rectangular full packed format as a full matrix, by LAPACK itself."""
    full, info = lapack.dtfttr(n, gram, transr="N", uplo="L")
    assert info == 0
    return np.tril(full) + np.tril(full, -1).T


def packed(full) -> np.ndarray:
    """A full matrix in LAPACK's rectangular full packed format, by LAPACK itself."""
    result, info = lapack.dtrttf(np.asfortranarray(full), transr="N", uplo="L")
    assert info == 0
    return result


def class_sums(rows: Rounded, y) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, sums of root times q, and sums of root squared."""
    labels = np.unique(y)
    parts = [(rows.roots[y == label], rows.Q[y == label]) for label in labels]
    return (
        labels,
        np.array([roots @ Q for roots, Q in parts]),
        np.array([roots @ roots for roots, _ in parts]),
    )


def assert_same_bytes(a, b, where="tree"):
    """Trees with the same keys, types, dtypes, shapes and bytes."""
    assert type(a) is type(b), where
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same_bytes(a[key], b[key], f"{where}[{key!r}]")
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), where
        assert a.tobytes() == b.tobytes(), where
    else:
        assert a == b, where


def assert_close(a, b, rtol, where="tree"):
    """Trees with the same keys whose numbers agree to `rtol` of the greatest of their array."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_close(a[key], b[key], rtol, f"{where}[{key!r}]")
    elif isinstance(a, np.ndarray) and a.dtype.kind == "f":
        assert a.shape == b.shape, where
        atol = rtol * np.abs(b).max(initial=0)
        np.testing.assert_allclose(a, b, rtol=0, atol=atol, err_msg=where)
    elif isinstance(a, float | list):
        np.testing.assert_allclose(a, b, rtol=rtol, err_msg=where)
    else:
        assert_same_bytes(a, b, where)


def cut(n, cuts):
    """Slices of n rows between the cuts."""
    return [slice(*pair) for pair in pairwise((0, *sorted(cuts), n))]
