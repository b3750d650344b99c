"""The maps and the fits that the CRAFTMaps scripts share."""

import math
import statistics
from collections.abc import Iterable

import numpy as np
from harness import DataSet, Row

import streamrf as srf

UP = 8  # D = 8 E, as in Table 1


def feature_map(
    method: str, kernel: srf.Polynomial | None, gamma: float, n_components: int, n_features: int
) -> srf.features.FeatureMap:
    """Return the map of a row of Table 1.

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

    Without codes the class of the largest output wins, as in the paper, and not by discriminants.

    Returns
    -------
    "error_percent" : on the test rows
    "held_out_percent" : of the best penalty on the training rows held out, before they were joined
        to the others
    "alpha" : that penalty
    """
    model = srf.RandomFeatureClassifier(
        features,
        alpha="auto",
        normalize="l2",
        codes=srf.OneVsRest() if codes is None else codes,
        random_state=seed,
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
    """Return the rows at unit length, float64; a zero row stays zero."""
    X = X.astype(np.float64)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
