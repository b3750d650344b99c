"""A raw row to integers: scaling, the feature map, rounding."""

from streamrf.encoding.encoder import Encoder, as_columns
from streamrf.encoding.preprocessing import CHOICES, Preprocessing
from streamrf.encoding.rounding import CALIBRATION_ROWS, PRECISIONS, calibration_class

__all__ = [
    "CALIBRATION_ROWS",
    "CHOICES",
    "PRECISIONS",
    "Encoder",
    "Preprocessing",
    "as_columns",
    "calibration_class",
]
