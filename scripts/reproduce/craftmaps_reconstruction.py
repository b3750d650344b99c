"""How far features are from their kernel: the error of the Gram matrix of a sample of rows."""

from functools import cache

import harness
import numpy as np
from craftmaps_maps import unit_rows

import streamrf as srf

SAMPLE = 1000  # rows, as in the paper


@cache
def sample(dataset: str, seed: int) -> np.ndarray:
    """Return 1,000 random training rows of a data set at unit length, float32."""
    X = harness.load(dataset).X
    picks = np.random.default_rng(seed).permutation(len(X))[:SAMPLE]
    return unit_rows(X[np.sort(picks)]).astype(np.float32)


def nrmse(features: srf.features.FeatureMap, X: np.ndarray) -> float:
    """Give the root mean square of ``<Z(x), Z(y)> - K(x, y)`` over the deviation of ``K(x, y)``.

    Over all pairs of rows, a row with itself included. The paper does not say what it divides by;
    of root mean square, mean, range and deviation of the kernel's values only the last comes to its
    figures.
    """
    Z = features.fit(X).transform(X).astype(np.float64)
    exact = features.kernel_(X.astype(np.float64))
    return float(np.sqrt(np.mean(np.square(Z @ Z.T - exact))) / exact.std())
