"""A raw row to integers: scaling, the feature map, rounding."""

from streamrf.preprocessing.drift import known_moments, named_columns, scales_for, warn_of_drift
from streamrf.preprocessing.encoder import DRAW_BYTES, Encoder, as_columns
from streamrf.preprocessing.moments import Moments, Sample, combined_moments
from streamrf.preprocessing.quantiles import far_values, has_heavy_columns
from streamrf.preprocessing.rounding import (
    CALIBRATION_ROWS,
    MAX_ROOT,
    MIN_WEIGHT,
    PRECISIONS,
    ROOT_LEVELS,
    TARGET_LEVELS,
    TARGET_LIMIT,
    Cut,
    calibration_class,
    check_spread,
    precision_of,
)
from streamrf.preprocessing.scaling import (
    BY_MOMENTS,
    CHOICES,
    COLUMNWISE,
    FAINT,
    Preprocessing,
    deviations,
    variances,
)
from streamrf.preprocessing.warp import WARPS, Warp

__all__ = [
    "BY_MOMENTS",
    "CALIBRATION_ROWS",
    "CHOICES",
    "COLUMNWISE",
    "DRAW_BYTES",
    "FAINT",
    "MAX_ROOT",
    "MIN_WEIGHT",
    "PRECISIONS",
    "ROOT_LEVELS",
    "TARGET_LEVELS",
    "TARGET_LIMIT",
    "WARPS",
    "Cut",
    "Encoder",
    "Moments",
    "Preprocessing",
    "Sample",
    "Warp",
    "as_columns",
    "calibration_class",
    "check_spread",
    "combined_moments",
    "deviations",
    "far_values",
    "has_heavy_columns",
    "known_moments",
    "named_columns",
    "precision_of",
    "scales_for",
    "variances",
    "warn_of_drift",
]
