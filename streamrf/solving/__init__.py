"""Sums to coefficients: normal equations, penalties, cross-validation, pruning."""

from streamrf.solving.crossvalidation import CrossValidation, cross_validate
from streamrf.solving.findings import class_finding, nested, penalty_finding, width_finding
from streamrf.solving.normal import RELATIVE_ALPHAS, Normal, check_alpha
from streamrf.solving.path import Path, trace
from streamrf.solving.pruning import check_kept, most_useful
from streamrf.solving.selection import Trial, best, held_scores, safest, searched, tried
from streamrf.solving.tridiagonal import Tridiagonal
from streamrf.solving.uncertainty import posterior

__all__ = [
    "RELATIVE_ALPHAS",
    "CrossValidation",
    "Normal",
    "Path",
    "Trial",
    "Tridiagonal",
    "best",
    "check_alpha",
    "check_kept",
    "class_finding",
    "cross_validate",
    "held_scores",
    "most_useful",
    "nested",
    "penalty_finding",
    "posterior",
    "safest",
    "searched",
    "trace",
    "tried",
    "width_finding",
]
