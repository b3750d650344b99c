"""scikit-learn with all features in memory.

The sketch of all 60,000 rows at once would take 7 arrays of complex numbers as large as the
features, 28 GB; so it is made in blocks, and the features are kept as float32.
"""

import common
import numpy as np
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.linear_model import RidgeClassifier

ALPHAS = (1e-3, 1e-2, 1e-1, 1.0)


def grid(settings):
    """The penalty."""
    return [{"alpha": alpha} for alpha in ALPHAS]


def train(rows, settings):
    """Map everything, then solve."""
    X, y = rows.all()
    features = PolynomialCountSketch(
        degree=7, gamma=1.0, coef0=1.0, n_components=settings["width"], random_state=0
    )
    features.fit(X[:1].astype(np.float32))
    Z = np.empty((len(X), settings["width"]), dtype=np.float32)
    for first in range(0, len(X), settings["block"]):
        part = slice(first, first + settings["block"])
        Z[part] = features.transform(common.unit_length(X[part]))
    model = RidgeClassifier(alpha=settings["alpha"], copy_X=False).fit(Z, y)

    def predict(X):
        parts = np.array_split(X, max(1, len(X) // settings["block"]))
        return np.concatenate(
            [model.predict(features.transform(common.unit_length(part))) for part in parts]
        )

    return predict


if __name__ == "__main__":
    common.main(train, grid)
