"""streamrf: one pass over the file, the penalty chosen in it."""

import common

import streamrf as srf

POLYNOMIAL = srf.Polynomial(degree=7, coef0=1.0)
UP_FACTOR = 8


def grid(settings):
    """The width of the Gaussian; the penalty is chosen in the pass."""
    if settings["map"] == "craft":
        return [{}]
    gammas = common.GAMMAS if settings["classes"] else common.COLUMN_GAMMAS
    return [{"gamma": gamma} for gamma in gammas]


def features(settings):
    """Give the map."""
    width = settings["width"]
    if settings["map"] == "craft":
        up = srf.RandomMaclaurin(POLYNOMIAL, UP_FACTOR * width, h01=True)
        return srf.Craft(up, width)
    return srf.StructuredFourier(srf.Gaussian(gamma=settings["gamma"]), width)


def train(rows, settings):
    """Fit from the file."""
    source = srf.HDF5Source(rows.path, x=f"{rows.part}/X", y=f"{rows.part}/y")
    if common.is_classes(rows.path):
        normalize = "l2" if settings["map"] == "craft" else "max"
        model = srf.RandomFeatureClassifier(features(settings), normalize=normalize, random_state=0)
    else:
        model = srf.RandomFeatureRegressor(features(settings), normalize="standard", random_state=0)
    if len(rows) < source.n_rows:
        source = srf.IteratorSource(lambda: rows.blocks(4096))
    model.fit(source)
    return model.predict


if __name__ == "__main__":
    common.main(train, grid)
