"""streamrf: one pass over the file; where the rival is given its penalty, so are we."""

import common

from streamrf import (  # by name, so that it is now that they are imported
    Gaussian,
    HDF5Source,
    IteratorSource,
    Polynomial,
    RandomFeatureClassifier,
    RandomFeatureRegressor,
    RandomMaclaurin,
    StructuredFourier,
)

POLYNOMIAL = Polynomial(degree=7, coef0=1.0)
UNIT_GAMMAS = (0.5, 0.8, 1.1)  # of rows of unit length
ALPHAS = (0.003, 0.03, 0.3)


def grid(settings):
    """The width of the Gaussian, and the penalty where it is not chosen in the pass."""
    if settings["map"] == "auto":
        return [{}]
    if settings["map"] == "polynomial":
        return [{"alpha": alpha} for alpha in ALPHAS]
    if settings["scale"] == "standard":
        return [{"gamma": gamma} for gamma in common.COLUMN_GAMMAS]
    return [{"gamma": gamma, "alpha": alpha} for gamma in UNIT_GAMMAS for alpha in ALPHAS]


def features(settings):
    """Return the map."""
    if settings["map"] == "auto":
        return "auto"
    width = settings["width"]
    if settings["map"] == "polynomial":
        return RandomMaclaurin(POLYNOMIAL, width, h01=True)
    return StructuredFourier(Gaussian(gamma=settings["gamma"]), width)


def train(rows, settings):
    """Fit from the file."""
    source = HDF5Source(rows.path, x=f"{rows.part}/X", y=f"{rows.part}/y")
    kind = RandomFeatureClassifier if settings["classes"] else RandomFeatureRegressor
    model = kind(
        features(settings),
        alpha=settings.get("alpha", "auto"),
        normalize=settings.get("scale", "auto"),
        precision=settings.get("precision", "exact"),
        random_state=0,
    )
    if len(rows) < source.n_rows:
        source = IteratorSource(lambda: rows.blocks(4096))
    model.fit(source)
    return model.predict


if __name__ == "__main__":
    common.main(train, grid)
