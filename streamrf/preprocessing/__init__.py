"""A raw row to integers: scaling, the feature map, rounding."""

from streamrf.preprocessing.encoder import Encoder, as_columns
from streamrf.preprocessing.rounding import CALIBRATION_ROWS, PRECISIONS, calibration_class
from streamrf.preprocessing.scaling import CHOICES, Preprocessing
from streamrf.preprocessing.warp import WARPS, Warp

__all__ = [
    "CALIBRATION_ROWS",
    "CHOICES",
    "PRECISIONS",
    "WARPS",
    "Encoder",
    "Preprocessing",
    "Warp",
    "as_columns",
    "calibration_class",
]
