"""Trained models: codes of the classes, predictions, decoding, probabilities, scores."""

from streamrf.models.class_metrics import ClassErrors
from streamrf.models.codes import (
    DECODINGS,
    CodeBook,
    Codes,
    ErrorCorrectingCodes,
    OneVsRest,
    Seed,
    TargetCodes,
    check_codes,
)
from streamrf.models.components import PrincipalComponents
from streamrf.models.decoders import DECODERS, Decoder, make_decoder, needs_class_sums
from streamrf.models.expansion import KernelExpansion
from streamrf.models.metrics import ErrorSums
from streamrf.models.model import Model, load_model
from streamrf.models.oddities import watched
from streamrf.models.posterior import Posterior, inverse_diagonal
from streamrf.models.prediction import Rows, Scorer, targets_card
from streamrf.models.probabilities import Probabilities
from streamrf.models.refinement import Refinement

__all__ = [
    "DECODERS",
    "DECODINGS",
    "ClassErrors",
    "CodeBook",
    "Codes",
    "Decoder",
    "ErrorCorrectingCodes",
    "ErrorSums",
    "KernelExpansion",
    "Model",
    "OneVsRest",
    "Posterior",
    "PrincipalComponents",
    "Probabilities",
    "Refinement",
    "Rows",
    "Scorer",
    "Seed",
    "TargetCodes",
    "check_codes",
    "inverse_diagonal",
    "load_model",
    "make_decoder",
    "needs_class_sums",
    "targets_card",
    "watched",
]
