"""rfflearn: random Fourier regression in memory, on as many rows as it can hold."""

import common
import numpy as np
import rfflearn.cpu as rfflearn
from sklearn.preprocessing import StandardScaler


def grid(settings):
    """The width of the Gaussian."""
    return [{"gamma": gamma} for gamma in common.COLUMN_GAMMAS]


def train(rows, settings):
    """Fit on the most rows, halved until they fit into the memory allowed."""
    common.limit_memory(settings["memory"])
    n_rows = len(rows)
    while True:
        try:
            return fit(common.Rows(rows.path, rows.part, 0, n_rows), settings)
        except MemoryError:
            n_rows //= 2


def fit(rows, settings):
    """Fit on all rows given."""
    X, y = rows.all()
    scaler = StandardScaler().fit(X)
    rfflearn.seed(0)
    model = rfflearn.RFFRegressor(
        dim_kernel=settings["width"], std_kernel=np.sqrt(2 * settings["gamma"])
    )
    model.fit(scaler.transform(X), y.astype(np.float64))

    def predict(X):
        return model.predict(scaler.transform(X))

    predict.n_rows = len(rows)
    return predict


if __name__ == "__main__":
    common.main(train, grid)
