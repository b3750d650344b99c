"""xRFM: a tree whose leaves are recursive feature machines, with all rows in memory."""

import common
import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from xrfm import xRFM


def grid(settings):
    """Return the bandwidths to choose from; all else is as the library's guide has it."""
    return [{"bandwidth": bandwidth} for bandwidth in (3.0, 10.0, 30.0)]


def train(rows, settings):
    """Fit on four fifths, and let it choose its iteration by the last."""
    X, y = rows.all()
    scaler = StandardScaler().fit(X)
    if not settings["classes"]:
        y = y.astype(np.float32)[:, None]
    n_fitted = len(X) - len(X) // 5
    kernel = {
        "kernel": "l2",
        "bandwidth": settings["bandwidth"],
        "exponent": 1.0,
        "diag": False,
        "bandwidth_mode": "constant",
    }
    fit = {"reg": 1e-3, "iters": 3, "verbose": False, "early_stop_rfm": True}
    model = xRFM(
        rfm_params={"model": kernel, "fit": fit},
        device=torch.device("cpu"),
        max_leaf_size=settings["leaf"],
        tuning_metric="accuracy" if settings["classes"] else "mse",
        random_state=0,
        verbose=False,
    )
    X = scaler.transform(X).astype(np.float32)
    model.fit(X[:n_fitted], y[:n_fitted], X[n_fitted:], y[n_fitted:])

    def predict(X):
        return np.ravel(model.predict(scaler.transform(X).astype(np.float32)))

    return predict


if __name__ == "__main__":
    common.main(train, grid)
