"""The ten-line script: a scikit-learn map block by block into Intel's incremental ridge."""

import common
import numpy as np
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from sklearnex.linear_model import IncrementalRidge

ALPHAS = (1e-3, 1e-2, 1e-1, 1.0)


def grid(settings):
    """The penalty, and the width of the Gaussian."""
    if settings["map"] == "polynomial":
        return [{"alpha": alpha} for alpha in ALPHAS]
    return [{"gamma": gamma, "alpha": alpha} for gamma in common.GAMMAS for alpha in ALPHAS]


def train(rows, settings):
    """Map, add up, solve."""
    if settings["map"] == "polynomial":
        kernel = {"degree": 7, "gamma": 1.0, "coef0": 1.0}
        features = PolynomialCountSketch(**kernel, n_components=settings["width"], random_state=0)
        scale = common.unit_length
    else:
        features = RBFSampler(
            gamma=settings["gamma"], n_components=settings["width"], random_state=0
        )

        def scale(X):
            return X.astype(np.float32) / 255

    ridge = IncrementalRidge(alpha=settings["alpha"])
    for number, (X, y) in enumerate(rows.blocks(settings["block"])):
        X = scale(X)
        if not number:
            features.fit(X)
        ridge.partial_fit(features.transform(X), common.codes(y))
    ridge.coef_  # noqa: B018 - solves

    def predict(X):
        parts = np.array_split(X, max(1, len(X) // settings["block"]))
        scores = [ridge.predict(features.transform(scale(part))) for part in parts]
        return np.concatenate(scores).argmax(axis=1)

    return predict


if __name__ == "__main__":
    common.main(train, grid)
