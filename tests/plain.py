"""Rows as the sums see them, rounded, in the features' own units: what dense formulas work on."""

import numpy as np


def plain_features(encoder, X, weights=None):
    """Features (n, n_components) of rows as they were summed, and the rows' weights (n,)."""
    calibration = encoder.calibration
    roots = calibration.roots(weights, len(X))
    Q = np.empty((len(X), encoder.n_components), dtype=calibration.dtype)
    encoder.encode(X, roots, Q)
    r = roots / calibration.root_scale
    mean_weight = calibration.mean_weight or 1.0
    return Q.astype(np.float64) * calibration.step / r[:, np.newaxis], r**2 * mean_weight


def plain_targets(encoder, y, weights=None):
    """Regression targets (n, n_targets) as they were summed."""
    calibration = encoder.calibration
    roots = calibration.roots(weights, len(y))
    t = calibration.targets(y, roots) / (roots / calibration.root_scale)[:, np.newaxis]
    return t * calibration.target_step + calibration.target_shift


def hat_matrix(Z, w, alpha):
    """The matrix that takes weighted targets to fitted values, the intercept not penalised."""
    D = np.sqrt(w)[:, np.newaxis] * np.column_stack((np.ones(len(Z)), Z))
    penalty = np.diag([0.0] + [alpha] * Z.shape[1])
    return D @ np.linalg.solve(D.T @ D + penalty, D.T)
