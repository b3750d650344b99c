"""The exact rows of CRAFTMaps Table 1: kernel ridge regression with as many rows as components."""

import warnings
from collections.abc import Callable

import numpy as np
from craftmaps_maps import unit_rows
from harness import DataSet, Row
from scipy import linalg
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import streamrf as srf

RELATIVE_ALPHAS = 10.0 ** np.arange(-9, 1)  # of the mean of the diagonal that alpha is added to
MOST_HELD = 5000
BLOCK_ROWS = 4096
ROUNDS = 4
ROUND_ALPHA = 1e-3  # relative, while rows are chosen
KMEANS_ITERATIONS = 30
WIDEST_OF_THREADS = 15_000  # columns; from 16,384 on OpenBLAS' `potrf` crashes with two threads


def random_ridge(data: DataSet, kernel: srf.Polynomial, n_rows: int, seed: int) -> Row:
    """Fit kernel ridge regression to `n_rows` training rows picked at random, and nothing else."""
    order = np.random.default_rng(seed).permutation(len(data.X))
    return _ridge(data, kernel, order[:n_rows], order[n_rows : n_rows + MOST_HELD])


def chosen_ridge(data: DataSet, kernel: srf.Polynomial, n_rows: int, seed: int) -> Row:
    """Fit kernel ridge regression to `n_rows` training rows chosen for it, and nothing else."""
    order = np.random.default_rng(seed).permutation(len(data.X))
    n_held = _n_held(len(order))
    pool = order[n_held:]
    X = unit_rows(data.X[pool])
    chosen = pool[choose_rows(X, data.y[pool], kernel, n_rows, seed)]
    return _ridge(data, kernel, chosen, order[:n_held])


def choose_rows(
    X: np.ndarray, y: np.ndarray, kernel: srf.Polynomial, n_rows: int, seed: int
) -> np.ndarray:
    """Choose rows that kernel ridge regression on nothing else learns well from.

    Half are prototypes of all rows. The others are added in rounds, each time prototypes of the
    hardest rows: those of least margin by the rows chosen so far, twice as many as are to be added,
    or all that are taken for another class if there are more of them.

    Returns
    -------
    (n_rows,) indices, without repeats; fewer where many rows are equal, as those share a cluster
    """
    chosen = _prototypes(X, y, np.arange(len(X)), n_rows // 2, seed)
    for n_left in range(ROUNDS, 0, -1):
        n_more = (n_rows - len(chosen)) // n_left
        margins = _margins(X, y, kernel, chosen)
        margins[chosen] = np.inf
        n_hard = max(2 * n_more, np.count_nonzero(margins < 0))
        n_hard = min(n_hard, len(X) - len(chosen))
        hard = np.argsort(margins, kind="stable")[:n_hard]
        chosen = np.concatenate((chosen, _prototypes(X, y, hard, n_more, seed)))
    return chosen


def _prototypes(X, y, rows, n_prototypes, seed):
    """Give those of `rows` nearest to the centres of k-means clusters, by class in proportion."""
    labels, counts = np.unique(y[rows], return_counts=True)
    shares = np.diff(np.cumsum(counts) * n_prototypes // len(rows), prepend=0)
    found = []
    for label, n_clusters in zip(labels, shares, strict=True):
        if n_clusters:
            own = rows[y[rows] == label]
            found.extend(own[_nearest_to_centres(X[own], int(n_clusters), seed)])
    return np.array(found, dtype=np.intp)


def _nearest_to_centres(X, n_clusters, seed):
    clusters = KMeans(n_clusters, n_init=1, max_iter=KMEANS_ITERATIONS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows that are equal share a cluster
        distances = clusters.fit_transform(X)
    own = distances[np.arange(len(X)), clusters.labels_]
    nearest = np.lexsort((own, clusters.labels_))
    starts = np.unique(clusters.labels_[nearest], return_index=True)[1]
    return nearest[starts]


def _margins(X, y, kernel, chosen):
    """Give the output of each row's class less the greatest of the others, by the rows chosen."""
    labels, own = np.unique(y, return_inverse=True)
    gram = kernel(X[chosen])
    np.fill_diagonal(gram, gram.diagonal() + ROUND_ALPHA * gram.trace() / len(gram))
    w = _solved(gram, _targets(y[chosen], labels))
    outputs = np.concatenate(
        [kernel(X[start : start + BLOCK_ROWS], X[chosen]) @ w for start in _starts(X)]
    )
    of_class = np.take_along_axis(outputs, own[:, np.newaxis], axis=1)[:, 0]
    np.put_along_axis(outputs, own[:, np.newaxis], -np.inf, axis=1)
    return of_class - outputs.max(axis=1)


def spanned_ridge(data: DataSet, kernel: srf.Polynomial, n_centres: int, seed: int) -> Row:
    """Fit the exact kernel to all training rows by functions ``sum_i w_i K(., c_i)``.

    The centres c_i are `n_centres` training rows picked at random (subset of regressors): ridge
    regression with the norm ``w^T K_cc w``, the penalty the best on a fifth of the rows, at most
    5,000, which are then joined.
    """
    order = np.random.default_rng(seed).permutation(len(data.X))
    centres, labels = unit_rows(data.X[order[:n_centres]]), np.unique(data.y)
    n_held = _n_held(len(order))
    held, rest = order[-n_held:], order[:-n_held]

    def accumulate(rows):
        products, moments = np.zeros((n_centres, n_centres)), np.zeros((n_centres, len(labels)))
        for start in _starts(rows):
            part = rows[start : start + BLOCK_ROWS]
            columns = kernel(unit_rows(data.X[part]), centres)
            products += columns.T @ columns
            moments += columns.T @ _targets(data.y[part], labels)
        return products, moments

    norm = kernel(centres)
    products, moments = accumulate(rest)
    scale = products.trace() / norm.trace()
    found = _best(
        data,
        kernel,
        centres,
        labels,
        lambda alpha: _solved(products + alpha * norm, moments),
        held,
        scale,
    )
    more = accumulate(held)
    w = _solved(products + more[0] + found["alpha"] * norm, moments + more[1])
    return {**found, "error_percent": _error(data.X_test, data.y_test, kernel, centres, w, labels)}


def _ridge(data, kernel, chosen, held):
    """Fit to the rows `chosen`; the penalty is the best on those held out."""
    X, labels = unit_rows(data.X[chosen]), np.unique(data.y)
    targets = _targets(data.y[chosen], labels)
    gram = np.empty((len(X), len(X)))  # the only one: it may be as large as half of the memory
    for start in _starts(X):
        gram[start : start + BLOCK_ROWS] = kernel(X[start : start + BLOCK_ROWS], X)
    diagonal = gram.diagonal().copy()

    def solved(alpha):
        _mirror(gram)
        np.fill_diagonal(gram, diagonal + alpha)
        return _solved(gram, targets)

    return _best(data, kernel, X, labels, solved, held, diagonal.mean())


def _mirror(gram):
    """Make the triangle below the diagonal, where the last factor is, that above it once more."""
    for start in _starts(gram):
        stop = start + BLOCK_ROWS
        gram[stop:, start:stop] = gram[start:stop, stop:].T
        above = np.triu(gram[start:stop, start:stop], 1)
        gram[start:stop, start:stop] = above + above.T


def _n_held(n_rows):
    return min(MOST_HELD, n_rows // 5)


def _starts(rows):
    return range(0, len(rows), BLOCK_ROWS)


def _targets(y, labels):
    return 2.0 * (y[:, np.newaxis] == labels) - 1


def _solved(matrix, moments):
    """Solve, or give None where the matrix is not positive definite.

    Its diagonal and what is below are overwritten.
    """
    n_threads = 1 if len(matrix) > WIDEST_OF_THREADS else None
    try:
        with threadpool_limits(n_threads, user_api="blas"):
            factor = linalg.cho_factor(matrix.T, overwrite_a=True, check_finite=False)  # no copy
    except linalg.LinAlgError:
        return None
    return linalg.cho_solve(factor, moments, check_finite=False)


def _best(data, kernel, centres, labels, solved, held, scale):
    """Choose the penalty by training rows held out; give the figures of `fit`."""
    trials = []
    for alpha in (RELATIVE_ALPHAS * scale).tolist():
        w = solved(alpha)
        if w is not None:
            error = _error(data.X[held], data.y[held], kernel, centres, w, labels)
            trials.append((error, alpha, w))
    error, alpha, w = min(trials, key=lambda trial: trial[:2])
    return {
        "error_percent": _error(data.X_test, data.y_test, kernel, centres, w, labels),
        "held_out_percent": error,
        "alpha": alpha,
    }


def _error(X, y, kernel, centres, w, labels):
    wrong = 0
    for start in _starts(X):
        rows = slice(start, start + BLOCK_ROWS)
        outputs = kernel(unit_rows(X[rows]), centres) @ w
        wrong += np.count_nonzero(labels[outputs.argmax(axis=1)] != y[rows])
    return 100 * wrong / len(X)


EXACT: dict[str, Callable[[DataSet, srf.Polynomial, int, int], Row]] = {
    "Exact, random rows": random_ridge,
    "Exact, chosen rows": chosen_ridge,
    "Exact, spanned": spanned_ridge,
}
