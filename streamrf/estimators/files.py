"""Model files give back what was saved: an estimator or a model."""

import os
from typing import Any

from streamrf import models
from streamrf.estimators.base import RandomFeatureEstimator
from streamrf.estimators.classifier import RandomFeatureClassifier
from streamrf.estimators.regressor import RandomFeatureRegressor
from streamrf.features import attach_code
from streamrf.models import Model
from streamrf.storage import Fields, loading

_ESTIMATORS: dict[str, type[RandomFeatureEstimator]] = {
    cls.__name__: cls for cls in (RandomFeatureClassifier, RandomFeatureRegressor)
}


def load_model(
    path: str | os.PathLike, features: Any = None
) -> Model | RandomFeatureClassifier | RandomFeatureRegressor:
    """Read a model file.

    Parameters
    ----------
    path : path
    features : the code of a `CallableMap` or `TransformerMap`, which files name and do not hold:
        the function, the fitted transformer, or the map of either; of several a list in their
        order. It must answer as what was trained with. Without it a model shows what it is, and
        raises an error where it is to predict

    Returns
    -------
    The estimator that was saved, with its settings but without its statistics, so that
    `partial_fit` cannot go on; or the `Model`, where one was saved, as `streamrf fit` does.

    Raises
    ------
    FormatError
        A file that holds no model.
    ParameterError
        Other code than that of the training, or code for a file that needs none.

    Examples
    --------
    >>> import tempfile
    >>> import streamrf as srf
    >>> clf = srf.RandomFeatureClassifier(srf.TreeSketch(n_components=8), alpha=0.1)
    >>> clf = clf.fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf.save(f"{folder}/model.h5")
    ...     again = srf.load_model(f"{folder}/model.h5")
    >>> again.classes_, again.score([[0.0], [2.0]], [0, 1])
    (array([0, 1]), 1.0)
    """
    model = models.load_model(path, features)
    if model.estimator is None:
        return model
    with loading(path):
        fields = Fields(model.estimator, os.fspath(path), ("estimator",))
        estimator = _ESTIMATORS[fields.text("class", _ESTIMATORS)].of(model, fields)
    if features is not None:
        attach_code(estimator.features, model.encoder.features)
    return estimator
