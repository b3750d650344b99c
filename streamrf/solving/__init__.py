"""Sums to coefficients: normal equations, penalties, cross-validation, pruning."""

from streamrf.solving.crossvalidation import CrossValidation, cross_validate
from streamrf.solving.normal import RELATIVE_ALPHAS, Normal, check_alpha
from streamrf.solving.path import Path, trace
from streamrf.solving.posterior import Posterior
from streamrf.solving.pruning import check_kept, most_useful
from streamrf.solving.tridiagonal import Tridiagonal

__all__ = [
    "RELATIVE_ALPHAS",
    "CrossValidation",
    "Normal",
    "Path",
    "Posterior",
    "Tridiagonal",
    "check_alpha",
    "check_kept",
    "cross_validate",
    "most_useful",
    "trace",
]
