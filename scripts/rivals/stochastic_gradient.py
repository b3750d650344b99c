"""scikit-learn by stochastic gradients: random Fourier features of blocks, one pass."""

import common
import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDClassifier, SGDRegressor
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
    kind, options = SGDRegressor, {}
    if settings["classes"]:
        kind, options = SGDClassifier, {"loss": "log_loss", "learning_rate": "invscaling"}
    model = kind(eta0=settings["eta0"], alpha=1e-7, random_state=0, **options)
    for number, (X, y) in enumerate(rows.blocks(BLOCK)):
        X, values = X.astype(np.float32), y[:, None].astype(np.float64)
        if not number:
            features.fit(scaler.fit_transform(X))
            targets.fit(values)
        Z = features.transform(scaler.transform(X))
        if settings["classes"]:
            model.partial_fit(Z, y, classes=common.labels(rows.path))
        else:
            model.partial_fit(Z, targets.transform(values).ravel())

    def predict(X):
        Z = features.transform(scaler.transform(X.astype(np.float32)))
        if settings["classes"]:
            return model.predict(Z)
        return targets.inverse_transform(model.predict(Z)[:, None]).ravel()

    return predict


if __name__ == "__main__":
    common.main(train, grid)
