"""scikit-learn by stochastic gradients: random Fourier features of blocks, one pass."""

import common
import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDRegressor
from sklearn.preprocessing import StandardScaler

BLOCK = 4096


def grid(settings):
    """The width of the Gaussian and the first step."""
    return [
        {"gamma": gamma, "eta0": eta0}
        for gamma in common.COLUMN_GAMMAS
        for eta0 in (0.01, 0.03, 0.1, 0.3)
    ]


def train(rows, settings):
    """Scale by the first block, then step through all."""
    features = RBFSampler(gamma=settings["gamma"], n_components=settings["width"], random_state=0)
    scaler, targets = StandardScaler(), StandardScaler()
    model = SGDRegressor(eta0=settings["eta0"], alpha=1e-7, random_state=0)
    for number, (X, y) in enumerate(rows.blocks(BLOCK)):
        X, y = X.astype(np.float32), y[:, None].astype(np.float64)
        if not number:
            features.fit(scaler.fit_transform(X))
            targets.fit(y)
        Z = features.transform(scaler.transform(X))
        model.partial_fit(Z, targets.transform(y).ravel())

    def predict(X):
        Z = features.transform(scaler.transform(X.astype(np.float32)))
        return targets.inverse_transform(model.predict(Z)[:, None]).ravel()

    return predict


if __name__ == "__main__":
    common.main(train, grid)
