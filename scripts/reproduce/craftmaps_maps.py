"""The maps and the fits that the CRAFTMaps scripts share."""

import math
import statistics
from collections.abc import Iterable

import numpy as np
from harness import DataSet, Row
from scipy import linalg

import streamrf as srf

UP = 8  # D = 8 E, as in Table 1
RELATIVE_ALPHAS = 10.0 ** np.arange(-9, 1)  # of the mean of the diagonal that alpha is added to
BLOCK_ROWS = 4096


def feature_map(
    method: str, kernel: srf.Polynomial | None, gamma: float, n_components: int, n_features: int
) -> srf.features.FeatureMap:
    """Give the map of a row of Table 1.

    Parameters
    ----------
    method : "Fastfood", "RKS", "RFM", "TS", "CM RFM" or "CM TS"
    kernel : of the last four
    gamma : of the first two, whose components each have a frequency of their own and an offset, as
        in algorithm 1 of Rahimi and Recht (2007)
    n_components : E
    n_features : width of the rows; H0/1 wherever the random features go beyond it
    """
    if method == "Fastfood":
        return srf.Fastfood(srf.Gaussian(gamma=gamma), n_components, paired=False)
    if method == "RKS":
        return srf.RandomFourier(srf.Gaussian(gamma=gamma), n_components, paired=False)
    if method.startswith("CM "):
        up = feature_map(method[3:], kernel, gamma, UP * n_components, n_features)
        return srf.Craft(up, n_components)
    if method == "TS":
        return srf.TensorSketch(kernel, n_components)
    return srf.RandomMaclaurin(kernel, n_components, h01=n_components > 1 + n_features)


def fit(
    data: DataSet,
    features: srf.features.FeatureMap,
    seed: int,
    codes: srf.OneVsRest | None = None,
) -> Row:
    """Fit a classifier to the training rows at unit length and give its errors in per cent.

    Returns
    -------
    "error_percent" : on the test rows
    "held_out_percent" : of the best penalty on the training rows held out, before they were joined
        to the others
    "alpha" : that penalty
    """
    model = srf.RandomFeatureClassifier(
        features, alpha="auto", normalize="l2", codes=codes, random_state=seed
    )
    model.fit(data.X, data.y)
    return {
        "error_percent": 100 * model.evaluate(data.X_test, data.y_test)["error"],
        "held_out_percent": 100 * min(error for _, error in model.model_.history),
        "alpha": float(model.alpha_),
    }


def carry_penalty(records: Iterable[Row], wanted: Row) -> float:
    """Give the geometric mean of the penalties chosen in the records with the settings `wanted`.

    Raises
    ------
    SystemExit
        If no such cell is finished.
    """
    logs = [math.log(record["alpha"]) for record in records if wanted.items() <= record.items()]
    if not logs:
        raise SystemExit(
            f"no cell is finished with {wanted}, whose penalty wider ones take: run it"
        )
    return math.exp(statistics.fmean(logs))


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Give the rows at unit length, float64; a zero row stays zero."""
    X = X.astype(np.float64)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)


def kernel_ridge(data: DataSet, kernel: srf.Polynomial, n_rows: int, seed: int) -> Row:
    """Fit kernel ridge regression to `n_rows` training rows picked at random, and nothing else.

    The penalty is the best on the other training rows, at most 5,000 of them.
    """
    order = np.random.default_rng(seed).permutation(len(data.X))
    chosen, others = order[:n_rows], order[n_rows : n_rows + 5000]
    X, labels = unit_rows(data.X[chosen]), np.unique(data.y)
    targets = 2.0 * (data.y[chosen, np.newaxis] == labels) - 1
    gram = kernel(X)

    def solved(alpha):
        return _solved(gram, alpha * np.eye(n_rows), targets)

    return _best(data, kernel, X, labels, solved, others, gram.trace() / n_rows)


def spanned_ridge(data: DataSet, kernel: srf.Polynomial, n_centres: int, seed: int) -> Row:
    """Fit the exact kernel to all training rows by functions ``sum_i w_i K(., c_i)``.

    The centres c_i are `n_centres` training rows picked at random (subset of regressors): ridge
    regression with the norm ``w^T K_cc w``, the penalty the best on a fifth of the rows, at most
    5,000, which are then joined.
    """
    order = np.random.default_rng(seed).permutation(len(data.X))
    centres, labels = unit_rows(data.X[order[:n_centres]]), np.unique(data.y)
    n_held = min(5000, len(order) // 5)
    held, rest = order[-n_held:], order[:-n_held]

    def accumulate(rows):
        products, moments = np.zeros((n_centres, n_centres)), np.zeros((n_centres, len(labels)))
        for start in range(0, len(rows), BLOCK_ROWS):
            part = rows[start : start + BLOCK_ROWS]
            columns = kernel(unit_rows(data.X[part]), centres)
            products += columns.T @ columns
            moments += columns.T @ (2.0 * (data.y[part, np.newaxis] == labels) - 1)
        return products, moments

    norm = kernel(centres)
    products, moments = accumulate(rest)
    scale = products.trace() / norm.trace()
    found = _best(
        data,
        kernel,
        centres,
        labels,
        lambda alpha: _solved(products, alpha * norm, moments),
        held,
        scale,
    )
    more = accumulate(held)
    w = _solved(products + more[0], found["alpha"] * norm, moments + more[1])
    return {**found, "error_percent": _error(data.X_test, data.y_test, kernel, centres, w, labels)}


def _solved(gram, penalty, moments):
    """Solve, or give None where the matrix is not positive definite in float64."""
    try:
        factor = linalg.cho_factor(gram + penalty, overwrite_a=True, check_finite=False)
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
    for start in range(0, len(X), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        outputs = kernel(unit_rows(X[rows]), centres) @ w
        wrong += np.count_nonzero(labels[outputs.argmax(axis=1)] != y[rows])
    return 100 * wrong / len(X)
