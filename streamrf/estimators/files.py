"""An estimator from the file that it was saved to."""

import os
from dataclasses import replace
from typing import Any

import numpy as np

from streamrf.estimators.base import RandomFeatureEstimator
from streamrf.estimators.classifier import RandomFeatureClassifier
from streamrf.estimators.regressor import RandomFeatureRegressor
from streamrf.estimators.settings import restored
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
        kind = _ESTIMATORS[fields.text("class", _ESTIMATORS)]
        made = _made(kind, model, fields)
    if features is not None:
        attach_code(made.features, model.encoder.features)
    return made


def _made(
    kind: type[RandomFeatureEstimator], model: Model, fields: Fields
) -> RandomFeatureEstimator:
    """Return the estimator of a model, with what `save` has written of it.

    FormatError if its settings are none, or of another task.
    """
    if kind._regression != (model.book is None):
        raise fields.wrong("class", f"is {kind.__name__}, and the model is of another task")
    known = fields.tree("settings")
    found = restored(known)
    unknown = sorted(set(found) - set(kind._get_param_names()))
    if unknown:
        raise known.wrong(unknown[0], f"is no setting of {kind.__name__}")
    estimator = kind(**found)
    estimator.n_features_in_ = fields.integer("n_features_in_", minimum=1)
    if estimator.n_features_in_ != model.encoder.n_columns:
        raise fields.wrong("n_features_in_", f"is not the model's {model.encoder.n_columns}")
    names = fields.value("feature_names_in_")
    if names is not None:
        if not isinstance(names, list) or len(names) != estimator.n_features_in_:
            raise fields.wrong("feature_names_in_", "are not as many as the columns")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if "target_names" in fields.keys:  # files of earlier versions have them here
        names = tuple(fields.texts("target_names", model.n_outputs))
        model = replace(model, encoder=replace(model.encoder, targets=names))
    estimator._target_names = model.encoder.target_names
    fields.end()
    estimator._solved = (model, None)
    estimator._pass = estimator._waiting = estimator._classes = estimator._holdout = None
    return estimator
