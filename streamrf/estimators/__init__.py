"""The scikit-learn face: estimators that fit arrays as well as sources."""

from streamrf.estimators.classifier import RandomFeatureClassifier
from streamrf.estimators.regressor import RandomFeatureRegressor
from streamrf.estimators.unsupervised import RandomFeatureKMeans, RandomFeaturePCA

__all__ = [
    "RandomFeatureClassifier",
    "RandomFeatureKMeans",
    "RandomFeaturePCA",
    "RandomFeatureRegressor",
]
