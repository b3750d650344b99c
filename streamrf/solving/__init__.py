"""Sums to coefficients: normal equations, penalties, cross-validation, pruning."""

from streamrf.solving.blocks import BlockWeights, evidence, left_out, searched_weights
from streamrf.solving.crossvalidation import CrossValidation, cross_validate
from streamrf.solving.normal import RELATIVE_ALPHAS, Normal, check_alpha
from streamrf.solving.path import Path, trace
from streamrf.solving.pruning import check_kept, most_useful
from streamrf.solving.selection import Trial, best, fitted_probabilities, safest, searched
from streamrf.solving.tridiagonal import Tridiagonal
from streamrf.solving.uncertainty import posterior

__all__ = [
    "RELATIVE_ALPHAS",
    "BlockWeights",
    "CrossValidation",
    "Normal",
    "Path",
    "Trial",
    "Tridiagonal",
    "best",
    "check_alpha",
    "check_kept",
    "cross_validate",
    "evidence",
    "fitted_probabilities",
    "left_out",
    "most_useful",
    "posterior",
    "safest",
    "searched",
    "searched_weights",
    "trace",
]
