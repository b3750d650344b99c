"""Trained models: codes of the classes, predictions, decoding, probabilities, scores."""

from streamrf.models.codes import DECODINGS, CodeBook, ErrorCorrectingCodes, OneVsRest, check_decode
from streamrf.models.model import Model, load_model
from streamrf.models.probabilities import Probabilities

__all__ = [
    "DECODINGS",
    "CodeBook",
    "ErrorCorrectingCodes",
    "Model",
    "OneVsRest",
    "Probabilities",
    "check_decode",
    "load_model",
]
