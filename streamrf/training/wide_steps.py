"""What of the rows features lose: by steps too wide, by a kernel too smooth."""

from typing import Any

import numpy as np

from streamrf.errors import warn
from streamrf.jit.arrays import F32
from streamrf.preprocessing import Encoder

NOISE = 1e-6  # of a row's greatest deviation
MIN_WIDTH = 64  # of features, of which fewer may happen not to vary
LOOKED_AT, MAX_LOST = 256, 0.2  # rows, and the share of features that steps may be too wide for


def warn_of_wide_steps(encoder: Encoder, X: Any) -> None:
    """Warn if most calibration rows X (n, d) are rounded to one value in many features.

    A step is a share of a deviation, and one row in other units makes a deviation of its own. The
    least step may be a share of the deviation of other features, and is not looked at.
    """
    if not encoder.calibration.noise_alpha(1.0):
        return
    step = encoder.calibration.step
    own = (step > step.min()) | (step.max() == step.min())
    scaled = _scaled(encoder, X)
    middle = np.median(scaled, axis=0)
    apart = np.abs(scaled - middle) * step
    is_apart = apart > NOISE * apart.max(axis=1, keepdims=True)  # else by rounding of the map
    is_lost = (np.rint(scaled) == np.rint(middle)) & is_apart
    share = float(np.mean(is_lost[:, own].mean(axis=0) > 0.5))
    if share > MAX_LOST:
        asinh = "normalize='asinh' (--normalize asinh), "
        warn(
            f"in {share:.0%} of the features most rows are rounded to the same value, since steps "
            "are made for a few rows that lie far from all others there, being much longer or, to "
            "a narrow kernel, near a landmark; take those out, or use "
            f"{'' if encoder.preprocessing.normalize == 'asinh' else asinh}a smoother kernel or "
            "precision='float64' (--precision float64)"
        )


def warn_of_equal_features(encoder: Encoder, X: Any) -> None:
    """Warn if calibration rows X (n, d) are all equal, or none of many features varies in them."""
    if len(X) < 2:
        return
    if isinstance(X, np.ndarray) and (X[0] == X).all():
        warn(
            f"the {len(X):,} rows of X looked at before the pass are all equal, so that nothing "
            "can be learnt of them: check the columns, or shuffle the rows"
        )
        return
    if encoder.n_components < MIN_WIDTH:
        return
    scaled, calibration = _scaled(encoder, X), encoder.calibration
    if (np.ptp(scaled, axis=0) * calibration.step <= NOISE * np.abs(calibration.shift)).all():
        warn(
            "no feature varies by a millionth of itself in the rows looked at before the pass, so "
            "that nothing can be learnt of them: take another gamma ('median' is that of the "
            "rows), scaling or kernel"
        )


def _scaled(encoder: Encoder, X: Any) -> F32:
    """Return the scaled features of some of the rows, float32."""
    rows = X[:: max(1, len(X) // LOOKED_AT)]
    scaled = np.empty((len(rows), encoder.n_components), dtype=np.float32)
    encoder.scale(rows, scaled)
    return scaled
