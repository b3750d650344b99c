"""Warnings of targets that are rounded or clipped."""

import numpy as np
from numpy.typing import ArrayLike

from streamrf.errors import warn
from streamrf.jit.arrays import Floats
from streamrf.preprocessing import TARGET_LEVELS, TARGET_LIMIT, Encoder
from streamrf.sources import rounded_integer


def warn_of_long(y: ArrayLike) -> None:
    """Warn of integers that float64 does not hold exactly."""
    if (one := rounded_integer(np.asarray(y))) is not None:
        warn(
            f"targets are integers such as {one}, which are rounded, since sums take floats of 53 "
            "bits; take a constant off them before"
        )


class OddTargets:
    """What has been told of the rounded targets of a pass, once of each kind."""

    def __init__(self) -> None:
        self._told_far = self._told_fine = False

    def look(self, encoder: Encoder, given: Floats, y: Floats) -> None:
        """Warn of rounded targets that were clipped, and of those rounded away.

        Parameters
        ----------
        given, y : (n, n_targets), targets before they are rounded and after
        """
        calibration = encoder.calibration
        if not calibration.exact:
            return
        lost = False if self._told_fine else calibration.lost_targets(given, y)
        if np.any(lost):
            self._told_fine, i = True, int(np.argmax(lost))
            warn(
                f"target {i} was {calibration.target_shift[i]:.6g} in all rows looked at before "
                "the pass and varies later by little, which is rounded to steps of "
                f"{calibration.target_step[i]:.3g}: shuffle the rows, take off the constant, or do "
                "not round (precision='float64', --precision float64)"
            )
        n_far = 0 if self._told_far else np.count_nonzero(np.abs(y) >= TARGET_LIMIT)
        if n_far:
            self._told_far = True
            warn(
                f"{n_far:,} targets so far are over {TARGET_LIMIT // TARGET_LEVELS:,} times as far "
                "from the mean as those of the rows looked at before the pass, and were clipped; "
                "the model follows them all the same: check the data for values that stand for "
                "missing ones, or shuffle the rows"
            )
