"""The scikit-learn face: estimators that fit arrays as well as sources."""

from streamrf.estimators.classifier import RandomFeatureClassifier
from streamrf.estimators.regressor import RandomFeatureRegressor

__all__ = ["RandomFeatureClassifier", "RandomFeatureRegressor"]
