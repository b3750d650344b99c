"""Which sums of targets there are, by name, and how they are read from files."""

import numpy as np

from streamrf.statistics.labelled import BitSums, ClassSums
from streamrf.statistics.targets import EXACT_FLOAT64, TargetSums
from streamrf.statistics.values import ValueSums
from streamrf.storage import Fields

MAX_FLOAT_SUM = 1e150  # of features and weights in files: its square is a float

TARGETS: dict[str, type[TargetSums]] = {
    kind.__name__: kind for kind in (ClassSums, BitSums, ValueSums)
}


def read_targets(fields: Fields, n_components: int, exact: bool) -> TargetSums:
    """Rebuild sums of targets from their tree."""
    kind = TARGETS[fields.text("class", TARGETS)]
    targets = kind.from_fields(fields, n_components, exact)
    fields.end()
    if are_too_great(targets, EXACT_FLOAT64 if exact else MAX_FLOAT_SUM):
        raise fields.wrong_here("holds sums too great to be of rows")
    return targets


def are_too_great(targets: TargetSums, bound: float) -> bool:
    """Return whether a weight or a sum of features is above a bound."""
    features = [targets.feature_totals, *([] if targets.labels is None else targets.sums)]
    return targets.total > bound or any((np.abs(part) > bound).any() for part in features)
