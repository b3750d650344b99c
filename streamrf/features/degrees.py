"""The degrees of random Maclaurin features: how many of each, and the factor that each carries.

A series ``sum_n a_n t^n`` is estimated by products of n random projections. Give degree n the share
``a_n / (factor of its products)^2`` and the sum is unbiased, whichever way degrees are chosen.
"""

import heapq
from numbers import Real

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from streamrf.errors import ParameterError
from streamrf.jit.arrays import F64, I64
from streamrf.jit.threads import on_single_blas_threads
from streamrf.kernels import MAX_TERMS, DotProductKernel

VARIANCE_ROWS = 2048  # two million pairs; their mean decides shares, not values
TILE = 128


def drawn(series: F64, weights: F64, n_products: int, rng: Generator) -> tuple[I64, F64]:
    """Draw each product's degree with probability proportional to `weights` where ``a_n > 0``.

    Returns
    -------
    degrees : (n_products,) int64, descending
    factors : (n_products,) float64, ``sqrt(a_n / P[n] / n_products)``
    """
    n = np.flatnonzero((series > 0) & (weights > 0))
    probabilities = weights[n] / weights[n].sum()
    indices = np.sort(rng.choice(len(n), size=n_products, p=probabilities))[::-1]
    factors = np.sqrt(series[n] / probabilities / n_products)
    return n[indices].astype(np.int64), factors[indices]


def optimized(series: F64, masses: F64, variances: F64, n_products: int) -> tuple[I64, F64]:
    """Give degree n ``c_n >= 1`` products that minimise ``sum_n masses_n^2 variances_n / c_n``.

    The real minimum is ``c_n ~ masses_n sqrt(variances_n)``. The integers start a little below it,
    where each product lowers the sum by more than any of the rest can, and the rest are added one
    by one where they lower it most: the minimum over integers, because the terms are convex.

    Parameters
    ----------
    series : (n_degrees,) ``a_n``
    masses : (n_degrees,) ``a_n bound^n``
    variances : (n_degrees,) of one product, of rows of squared length ``1 / bound``
    n_products : int, at least the number of degrees with ``a_n > 0``

    Returns
    -------
    degrees : (n_products,) int64, descending
    factors : (n_products,) float64, ``sqrt(a_n / c_n)``
    """
    n = np.flatnonzero(series > 0)
    if n_products < len(n):
        raise ParameterError(
            f"measure='optimized' gives every degree of the series a feature: {len(n)} degrees "
            f"need more than {n_products} random features; raise n_components or the tolerance"
        )
    roots = masses[n] * np.sqrt(variances[n])
    counts = np.ones(len(n), dtype=np.int64)
    share = (n_products - 2 * len(n)) / (roots.sum() or 1.0)
    if share > 0:
        counts = np.maximum(counts, np.floor(share * roots).astype(np.int64))
    gains = [
        (-(root**2) / (c * (c + 1)), k)
        for k, (root, c) in enumerate(zip(roots, counts, strict=True))
    ]
    heapq.heapify(gains)
    for _ in range(n_products - int(counts.sum())):
        k = gains[0][1]
        counts[k] += 1
        heapq.heapreplace(gains, (-(roots[k] ** 2) / (counts[k] * (counts[k] + 1)), k))
    factors = np.sqrt(series[n] / counts)
    return np.repeat(n, counts)[::-1].astype(np.int64), np.repeat(factors, counts)[::-1]


def product_variances(X: NDArray[np.floating], n_degrees: int, signs: str) -> F64:
    """Return the variance of ``prod_(j<=n) <w_j, x> <w_j, y>``, a mean over pairs of rows.

    With ``s = sum_i x_i^2 y_i^2``, random signs have
    ``E[<w,x>^2 <w,y>^2] = |x|^2 |y|^2 + 2 <x,y>^2 - 2 s``. For entries of {1, -1, i, -i} the
    estimate is the real part of ``prod <w,x> conj(<w,y>)``, whose square has the mean
    ``((|x|^2 |y|^2 + <x,y>^2 - s)^n + (2 <x,y>^2 - s)^n) / 2``. Both less ``<x,y>^(2n)``.

    Returns (n_degrees,) float64, by degree from 0, the same bits for any number of threads, from
    at most `VARIANCE_ROWS` evenly spaced rows. `signs` is "real" or "complex".
    """
    rows = np.asarray(X[:: -(-len(X) // VARIANCE_ROWS)], dtype=np.float64)
    n_rows = len(rows)
    squares = np.square(rows)
    lengths = squares.sum(axis=1)
    starts = range(0, n_rows, TILE)
    totals = np.zeros((len(starts), n_degrees))

    def tile(start: int) -> None:
        part = slice(start, start + TILE)
        product = np.square(rows[part] @ rows.T)
        lengthy = np.multiply.outer(lengths[part], lengths)
        shared = squares[part] @ squares.T
        for values in (product, lengthy, shared):
            np.fill_diagonal(values[:, start:], 0.0)  # a row is no pair with itself
        if signs == "real":
            fourth = conjugate = lengthy + 2 * product - 2 * shared
        else:
            fourth, conjugate = lengthy + product - shared, 2 * product - shared
        powers = [np.ones_like(product) for _ in range(3)]
        for n in range(1, n_degrees):
            for power, base in zip(powers, (fourth, conjugate, product), strict=True):
                power *= base
            totals[start // TILE, n] = ((powers[0] + powers[1]) / 2 - powers[2]).sum()

    on_single_blas_threads(tile, starts)
    return np.maximum(totals.sum(axis=0), 0.0) / max(1, n_rows * (n_rows - 1))


def check_tolerance(tolerance: object) -> None:
    """Raise ParameterError unless the tail at which a series is cut lies between 0 and 1."""
    if not (isinstance(tolerance, Real) and 0 < float(tolerance) < 1):
        raise ParameterError(f"tolerance must lie between 0 and 1, got {tolerance!r}")


def weights_of(own: DotProductKernel, kernel: DotProductKernel, n_blocks: int) -> F64:
    """Return ``b_n / a_n`` by degree for a kernel ``sum b_n t^n``, where `own` has ``sum a_n t^n``.

    Float64 (n_blocks,); an infinite series ends there, as that of the map does. ParameterError if
    `kernel` has terms that `own` does not have.
    """
    kernel.check_settings()
    series = [k.series(MAX_TERMS) for k in (own, kernel)]
    n_terms = n_blocks if len(series[0]) == MAX_TERMS else MAX_TERMS  # infinite, it was cut
    ours, theirs = (np.pad(s, (0, MAX_TERMS - len(s)))[:n_terms] for s in series)
    missing = np.flatnonzero((theirs > 0) & (ours == 0))
    if len(missing):
        raise ParameterError(
            f"block_weights={kernel!r} has a term of degree {missing[0]}, and the map, for "
            f"{own!r}, has none; name a kernel without it, such as DotProduct(coefficients)"
        )
    weights: F64 = np.zeros(n_blocks)
    np.divide(theirs[:n_blocks], ours[:n_blocks], out=weights, where=ours[:n_blocks] > 0)
    return weights
