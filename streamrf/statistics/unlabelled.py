"""What sums know of the features alone: principal components, and the labels' alignment."""

import numpy as np

from streamrf.errors import DataError, ParameterError
from streamrf.jit.arrays import Floats
from streamrf.jit.threads import computing
from streamrf.models import PrincipalComponents
from streamrf.preprocessing import Encoder
from streamrf.solving import frobenius, principal
from streamrf.statistics.labelled import BitSums, ClassSums
from streamrf.statistics.ridge import checked_weight, normal_equations, total_weight
from streamrf.statistics.sums import AbstractSums


def feature_means(encoder: Encoder, sums: AbstractSums) -> Floats:
    """Return the weighted means of the features in their own units, float64 (n_components,)."""
    checked_weight(encoder, sums)
    calibration = encoder.calibration
    means = sums.targets.feature_totals * (calibration.root_scale / sums.targets.total)
    return calibration.shift + calibration.step * means


def principal_components(encoder: Encoder, sums: AbstractSums, k: int) -> PrincipalComponents:
    """Return the first k principal components; see `Statistics.principal_components`."""
    weight, means = total_weight(encoder, sums), feature_means(encoder, sums)
    if not weight > 1:
        raise DataError(
            f"principal components need a weight of rows above 1, got {weight:g} of n_samples = "
            f"{sums.n_rows}"
        )
    if isinstance(k, int | np.integer) and k > sums.n_weighted:
        raise ParameterError(
            f"{k:,} components of {sums.n_weighted:,} rows: those beyond the rows would be noise; "
            f"ask for at most {sums.n_weighted:,}"
        )
    with computing():
        values, vectors, trace = principal(normal_equations(encoder, sums), k)
    shares = values / trace if trace > 0 else np.zeros(k)
    return PrincipalComponents(encoder, vectors, values / (weight - 1), shares, means)


def alignment(encoder: Encoder, sums: AbstractSums) -> float | Floats:
    """Return how well the kernel fits the targets; see `Statistics.alignment`."""
    targets, root_scale = sums.targets, encoder.calibration.root_scale
    codes = None
    if isinstance(targets, ClassSums):
        codes = np.eye(len(targets.labels))
    elif isinstance(targets, BitSums):
        codes = targets.matrix
    checked_weight(encoder, sums)
    normal = normal_equations(encoder, sums, codes)
    with computing():
        moments = np.square(normal.centred_moments()).sum(axis=1)
        norm = frobenius(normal.centred(), len(normal.step))
    if codes is None:
        sizes = norm * normal.centred_squares()
        return np.divide(moments, sizes, out=np.zeros_like(moments), where=sizes > 0)
    assert isinstance(targets, ClassSums | BitSums)
    weights = targets.weights / root_scale**2
    spread = (codes * weights[:, np.newaxis]).T @ (codes - weights @ codes / weights.sum())
    size = norm * float(np.linalg.norm(spread))
    return float(moments.sum() / size) if size > 0 else 0.0
