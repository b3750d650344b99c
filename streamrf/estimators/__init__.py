"""The scikit-learn face: estimators that fit arrays as well as sources."""

from streamrf.estimators.classifier import RandomFeatureClassifier
from streamrf.estimators.crossvalidation import cross_val_score
from streamrf.estimators.files import load_model
from streamrf.estimators.regressor import RandomFeatureRegressor
from streamrf.estimators.unsupervised import RandomFeatureKMeans, RandomFeaturePCA

__all__ = [
    "RandomFeatureClassifier",
    "RandomFeatureKMeans",
    "RandomFeaturePCA",
    "RandomFeatureRegressor",
    "cross_val_score",
    "load_model",
]
