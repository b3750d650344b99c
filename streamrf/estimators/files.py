"""An estimator from the file that it was saved to."""

import os
from typing import Any

from streamrf.estimators.base import RandomFeatureEstimator
from streamrf.estimators.classifier import RandomFeatureClassifier
from streamrf.estimators.regressor import RandomFeatureRegressor
from streamrf.features import attach_code
from streamrf.models import Model
from streamrf.storage import Fields, loading

_ESTIMATORS: dict[str, type[RandomFeatureEstimator]] = {
    cls.__name__: cls for cls in (RandomFeatureClassifier, RandomFeatureRegressor)
}


def as_saved(model: Model, path: str | os.PathLike, features: Any = None) -> RandomFeatureEstimator:
    """Return the estimator whose model was read from a file, see `streamrf.load_model`."""
    with loading(path):
        fields = Fields(model.estimator, os.fspath(path), ("estimator",))
        estimator = _ESTIMATORS[fields.text("class", _ESTIMATORS)].of(model, fields)
    if features is not None:
        attach_code(estimator.features, model.encoder.features)
    return estimator
