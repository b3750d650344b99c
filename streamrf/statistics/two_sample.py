"""How far two sets of rows are apart: the kernel two-sample distance of their statistics."""

import itertools
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from streamrf.errors import DataError, MergeError
from streamrf.jit import packed
from streamrf.jit.arrays import Floats
from streamrf.jit.threads import computing
from streamrf.solving import check_finite, frobenius
from streamrf.statistics.ridge import effective_rows, normal_equations, total_weight
from streamrf.statistics.statistics import Statistics, load_statistics
from streamrf.statistics.unlabelled import feature_means

MAX_FLIPS = 4096  # patterns of signs tried, all or a random choice


@dataclass(frozen=True)
class TwoSample:
    """The distance of two samples, and how likely one as great is without any difference.

    Parameters
    ----------
    distance : float, maximum mean discrepancy
    p_value : float, by the covariance of the features
    fold_p_value : float, by the signs of the differences of folds, not below ``2^(1 - n_folds)``;
        None where no folds are kept, or one has no rows on a side
    """

    distance: float
    p_value: float
    fold_p_value: float | None


def mmd(a: Statistics | str | os.PathLike, b: Statistics | str | os.PathLike) -> TwoSample:
    """Return the kernel two-sample distance of two statistics, or of their files.

    ``distance^2 = |mean Z(x) - mean Z(y)|^2``, the mean of ``K(x, x') + K(y, y') - 2 K(x, y)`` over
    all pairs of rows, K the products of features: 0 where the rows are the same, and where both are
    samples of one distribution about ``trace(cov Z) (1 / n_a + 1 / n_b)``. Rows of one day and of
    the next, summed with one map (`like=`), show drift so.

    Parameters
    ----------
    a, b : statistics of the same map and calibration

    Returns
    -------
    TwoSample

    Raises
    ------
    MergeError
        Statistics of other maps, or one in folds and one not.
    DataError
        A side without two rows of weight above 0.
    SolveError
        Features whose squares overflow.

    Notes
    -----
    Gretton, Borgwardt, Rasch, Schoelkopf and Smola, A Kernel Two-Sample Test, JMLR 2012. Without a
    difference the squared distance is a sum of squares of normal variables with the covariance of
    the features; `p_value` is that of the gamma distribution of the same mean and variance (section
    3.3 there), and right for independent rows of about equal weights, in any unit; rows of weight 0
    are none. Where folds are kept, the difference of the means in each is as likely its negative,
    so `fold_p_value` flips signs.
    """
    a, b = (s if isinstance(s, Statistics) else _loaded(s) for s in (a, b))
    a.check_alike(b)
    apart = a.means - b.means
    squared = float(apart @ apart)
    fold_p_value = None
    folds = list(zip(a.sums.parts, b.sums.parts, strict=True)) if a.n_folds else []
    if folds and all(part.n_weighted for both in folds for part in both):
        pairs = [(feature_means(a.encoder, x), feature_means(a.encoder, y)) for x, y in folds]
        fold_p_value = _flipped(np.array([x - y for x, y in pairs]))
    return TwoSample(float(np.sqrt(squared)), _tail(a, b, squared), fold_p_value)


def _loaded(given: Any) -> Statistics:
    if isinstance(given, str | os.PathLike):
        return load_statistics(given)
    raise MergeError(f"mmd compares statistics or their files, got {type(given).__name__}")


def _tail(a: Statistics, b: Statistics, squared: float) -> float:
    """Return the chance of such a squared distance without a difference."""
    total: Floats | None = None
    width = len(a.columns)
    with computing():
        for s in (a, b):
            weight, n_rows = total_weight(s.encoder, s.sums), effective_rows(s.encoder, s.sums)
            if n_rows < 2:
                raise DataError(
                    "a test of two samples needs two rows of weight above 0 on each side"
                )
            part = normal_equations(s.encoder, s.sums).centred()
            part /= weight * (n_rows - 1)  # the covariance of the mean
            total = part if total is None else np.add(total, part, total)
        assert total is not None
        check_finite(total)
        diagonal = np.empty(width)
        packed.diagonal(total, diagonal)
        trace, norm = float(diagonal.sum()), frobenius(total, width)
    if not trace > 0:
        return 1.0 if squared == 0 else 0.0
    shape = (trace / norm) ** 2 / 2
    return float(scipy.special.gammaincc(shape, squared * shape / trace))


def _flipped(apart: Floats) -> float:
    """Return the share of sign patterns of differences (n_folds, n) with a mean as long."""
    products, n = apart @ apart.T, len(apart)
    if 2 ** (n - 1) <= MAX_FLIPS:
        signs = np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=n - 1)])
    else:
        signs = np.random.default_rng(0).choice([1.0, -1.0], (MAX_FLIPS, n))
        signs[0] = 1.0
    lengths = np.einsum("si,ij,sj->s", signs, products, signs)
    return float((lengths >= lengths[0] * (1 - 1e-12)).mean())
