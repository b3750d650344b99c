"""The ten-line script: a scikit-learn map block by block into Intel's incremental ridge."""

import common
import numpy as np
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from sklearn.preprocessing import StandardScaler
from sklearnex.linear_model import IncrementalRidge

ALPHAS = (1e-3, 1e-2, 1e-1, 1.0)


def grid(settings):
    """The penalty, and the width of the Gaussian."""
    if settings["map"] == "polynomial":
        return [{"alpha": alpha} for alpha in ALPHAS]
    gammas = common.GAMMAS if settings["scale"] == "pixels" else common.COLUMN_GAMMAS
    return [{"gamma": gamma, "alpha": alpha} for gamma in gammas for alpha in ALPHAS]


def train(rows, settings):
    """Map, add up, solve."""
    if settings["map"] == "polynomial":
        kernel = {"degree": 7, "gamma": 1.0, "coef0": 1.0}
        features = PolynomialCountSketch(**kernel, n_components=settings["width"], random_state=0)
    else:
        features = RBFSampler(
            gamma=settings["gamma"], n_components=settings["width"], random_state=0
        )
    scaler = StandardScaler()
    classes = common.labels(rows.path) if settings["classes"] else None

    def scale(X):
        if settings["scale"] == "standard":
            return scaler.transform(X.astype(np.float32))
        return common.unit_length(X) if settings["scale"] == "l2" else X.astype(np.float32) / 255

    ridge = IncrementalRidge(alpha=settings["alpha"])
    for number, (X, y) in enumerate(rows.blocks(settings["block"])):
        if not number:
            scaler.fit(X.astype(np.float32))
            features.fit(scale(X))
        targets = y[:, None].astype(np.float64) if classes is None else common.codes(y, classes)
        ridge.partial_fit(features.transform(scale(X)), targets)
    ridge.coef_  # noqa: B018 - solves

    def predict(X):
        parts = np.array_split(X, max(1, len(X) // settings["block"]))
        scores = [ridge.predict(features.transform(scale(part))) for part in parts]
        scores = np.concatenate(scores)
        return scores.ravel() if classes is None else classes[scores.argmax(axis=1)]

    return predict


if __name__ == "__main__":
    common.main(train, grid)
