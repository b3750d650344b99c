"""Model files give back what was saved: an estimator or a model."""

import os

from streamrf import models
from streamrf.estimators.base import RandomFeatureEstimator
from streamrf.estimators.classifier import RandomFeatureClassifier
from streamrf.estimators.regressor import RandomFeatureRegressor
from streamrf.models import Model
from streamrf.storage import Fields, loading

_ESTIMATORS: dict[str, type[RandomFeatureEstimator]] = {
    cls.__name__: cls for cls in (RandomFeatureClassifier, RandomFeatureRegressor)
}


def load_model(
    path: str | os.PathLike,
) -> Model | RandomFeatureClassifier | RandomFeatureRegressor:
    """Read a model file.

    Returns
    -------
    The estimator that was saved, with its settings but without its statistics, so that
    `partial_fit` cannot go on; or the `Model`, where one was saved, as `streamrf fit` does.

    Raises
    ------
    FormatError
        A file that holds no model.

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
    model = models.load_model(path)
    if model.estimator is None:
        return model
    with loading(path):
        fields = Fields(model.estimator, os.fspath(path), ("estimator",))
        return _ESTIMATORS[fields.text("class", _ESTIMATORS)].of(model, fields)
