"""Classes lost by weights that are rounded to 0, and those that the choice of features missed."""

from collections import Counter
from typing import Any

import numpy as np

from streamrf.display import listed
from streamrf.errors import warn
from streamrf.jit.arrays import Array, Floats
from streamrf.preprocessing import ROOT_LEVELS
from streamrf.sources import Rows, as_labels, find_labels, join_labels
from streamrf.statistics import BitSums, ClassSums
from streamrf.storage import Fields

MAX_NAMED = 10  # labels in a message
MAX_LATE = 0.1  # of all rows, by weight, of classes that come after the rows looked at


def faint_rows(rows: Rows, roots: Floats) -> Counter[Any]:
    """Return how many rows of weight above 0 have a root (n,) of 0, by label."""
    if rows.weights is None:
        return Counter()
    faint = (roots == 0) & (rows.weights > 0)
    return Counter(as_labels(rows.y[faint]).tolist()) if faint.any() else Counter()


def _labels_of(faint: Counter[Any]) -> Array:
    """Return the labels of such rows, in the order they are counted in."""
    return as_labels(np.array(list(faint))) if faint else np.empty(0, np.int64)


def with_faint(labels: Array, faint: Counter[Any]) -> Array:
    """Return sorted labels with those of such rows."""
    return join_labels(labels, np.unique(_labels_of(faint))) if faint else labels


def classes_tree(faint: Counter[Any], chosen_by: Array | None) -> dict[str, Any]:
    """Return what `warn_of_classes` is going to need as a tree, of what there is."""
    tree: dict[str, Any] = {} if chosen_by is None else {"chosen_by": chosen_by}
    if not faint:
        return tree
    labels = _labels_of(faint)
    order = np.argsort(labels)
    n_rows = np.array(list(faint.values()))[order]
    return tree | {"faint": {"labels": labels[order], "n_rows": n_rows}}


def read_classes(fields: Fields) -> tuple[Counter[Any], Array | None]:
    """Return what `classes_tree` described."""
    chosen_by = fields.labels("chosen_by") if "chosen_by" in fields.keys else None
    return _read_faint(fields.tree("faint")) if "faint" in fields.keys else Counter(), chosen_by


def _read_faint(fields: Fields) -> Counter[Any]:
    labels = fields.labels("labels")
    n_rows = fields.array("n_rows", np.int64, (len(labels),))
    if (n_rows < 1).any():
        raise fields.wrong("n_rows", "holds a count below 1")
    fields.end()
    return Counter(dict(zip(labels.tolist(), n_rows.tolist(), strict=True)))


def warn_of_classes(faint: Counter[Any], chosen_by: Array | None, targets: object) -> None:
    """Warn of classes that are lost by rounding, and of those that features were chosen without.

    Parameters
    ----------
    faint : rows of weight above 0 that were rounded to 0, by label
    chosen_by : labels of the rows that features were chosen by; None where none were, or of values
    targets : sums of all rows
    """
    if isinstance(targets, ClassSums | BitSums):
        _warn_of_faint(faint, targets)
        if chosen_by is not None:
            _warn_of_late(chosen_by, targets)


def _warn_of_late(chosen_by: Array, targets: ClassSums | BitSums) -> None:
    late = find_labels(chosen_by, targets.labels)[1]
    if targets.weights[late].sum() > MAX_LATE * targets.weights.sum():
        named = listed([repr(label) for label in targets.labels[late].tolist()], MAX_NAMED)
        warn(
            f"over a tenth of the rows have the label {named}, and none of those looked at before "
            "the pass, by which features were chosen: shuffle the rows, or begin with some of "
            "every class"
        )


def _warn_of_faint(faint: Counter[Any], targets: ClassSums | BitSums) -> None:
    labels = _labels_of(faint)
    index, unknown = find_labels(targets.labels, labels)
    lost = labels[unknown | (np.append(targets.weights, 0.0)[index] == 0)].tolist()
    if lost:
        n_rows = sum(faint[label] for label in lost)
        named = listed([repr(label) for label in lost], MAX_NAMED)
        warn(
            f"all {n_rows:,} rows of weight above 0 with the label {named} weigh less than "
            f"{0.25 / ROOT_LEVELS**2:.2g} of the mean weight, which is rounded to nothing, so "
            "nothing is learnt of them; give them more weight, or precision='float64' "
            "(--precision float64)"
        )
