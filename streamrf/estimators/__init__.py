"""The scikit-learn face: estimators that fit arrays as well as sources."""

from streamrf.estimators.classifier import RandomFeatureClassifier
from streamrf.estimators.crossvalidation import cross_val_score
from streamrf.estimators.files import as_saved
from streamrf.estimators.kernel_ridge import KernelRidgeClassifier, KernelRidgeRegressor
from streamrf.estimators.regressor import RandomFeatureRegressor
from streamrf.estimators.unsupervised import RandomFeatureKMeans, RandomFeaturePCA

__all__ = [
    "KernelRidgeClassifier",
    "KernelRidgeRegressor",
    "RandomFeatureClassifier",
    "RandomFeatureKMeans",
    "RandomFeaturePCA",
    "RandomFeatureRegressor",
    "as_saved",
    "cross_val_score",
]
