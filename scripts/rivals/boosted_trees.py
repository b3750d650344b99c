"""Gradient-boosted trees of scikit-learn or LightGBM, with all rows in memory."""

import common


def grid(settings):
    """Return the numbers of trees to choose from; all else is as the libraries have it."""
    return [{"trees": trees} for trees in (100, 300)]


def train(rows, settings):
    """Read everything, fit."""
    if settings["library"] == "lightgbm":
        from lightgbm import LGBMClassifier, LGBMRegressor

        kinds, options = (LGBMRegressor, LGBMClassifier), {"n_estimators": settings["trees"]}
        options |= {"verbose": -1, "seed": 0}
    else:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kinds = (HistGradientBoostingRegressor, HistGradientBoostingClassifier)
        options = {"max_iter": settings["trees"], "random_state": 0, "early_stopping": False}
    model = kinds[settings["classes"]](**options)
    return model.fit(*rows.all()).predict


if __name__ == "__main__":
    common.main(train, grid)
