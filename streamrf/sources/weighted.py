"""Sources that change the rows of another: weights by class, no targets, other ledger keys."""

from collections.abc import Container, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamrf.errors import ParameterError, warn
from streamrf.sources.base import Block, Source, Store
from streamrf.sources.derived import Derived, RowsAlone
from streamrf.sources.labels import as_labels, check_known, find_labels
from streamrf.sources.opening import as_source
from streamrf.sources.rows import of_targets

BALANCED = "balanced"
ClassWeight = str | Mapping[Any, float]  # "balanced", or factors by label
_TRUTH = {"false": "0", "true": "1"}  # how commands and tables write labels that are booleans


def check_class_weight(class_weight: Any) -> None:
    """Raise ParameterError unless weights of classes are "balanced", a dict or None."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == BALANCED):
        return
    is_dict = isinstance(class_weight, Mapping) and len(class_weight) > 0
    if not is_dict or not all(
        isinstance(w, Real) and 0 <= float(w) < np.inf for w in class_weight.values()
    ):
        raise ParameterError(
            f"class_weight must be None, {BALANCED!r} or a dict of labels to numbers of at least "
            f"0, got {class_weight!r}"
        )


def class_factors(
    class_weight: ClassWeight, labels: NDArray[Any], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the factor of each class, float64 (n_classes,).

    "balanced" is ``total / (n_classes weight)``, as of `sklearn.utils.compute_class_weight`;
    classes that a dict does not name have 1.
    """
    check_class_weight(class_weight)
    if not isinstance(class_weight, str):
        named, given = named_factors(class_weight, labels)
        index, unknown = find_labels(named, labels)
        return np.where(unknown, 1.0, given[index])
    seen = weights > 0
    factors = np.ones(len(weights))
    factors[seen] = weights.sum() / (seen.sum() * weights[seen])
    return factors


def named_factors(
    class_weight: Mapping[Any, float], labels: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the labels of a dict, sorted and of the kind of `labels`, and their factors."""
    check_class_weight(class_weight)
    names = as_labels(np.array(list(class_weight)))
    is_text = labels.dtype.kind == "U"
    if is_text != (names.dtype.kind == "U"):
        if labels.dtype.kind == "b":
            names = np.array([_TRUTH.get(name.lower(), name) for name in names.tolist()])
        try:
            names = names.astype(str if is_text else np.float64)
        except ValueError:
            raise ParameterError(
                f"class_weight names {names[0].item()!r}, and labels are such as "
                f"{labels[0].item()!r}"
            ) from None
    if len(np.unique(names)) < len(names):
        raise ParameterError(f"class_weight names one label twice: {[*class_weight]}")
    order = np.argsort(names)
    return names[order], np.array(list(class_weight.values()), dtype=np.float64)[order]


def check_named(
    class_weight: ClassWeight | None, labels: NDArray[Any] | None, where: str, share: str = "any"
) -> None:
    """Warn of names in a dict that no label has, unless they weigh nothing.

    Parameters
    ----------
    labels : sorted; of None or fewer than two nothing is said
    where : what they are labels of
    share : of the names that are unknown, for a warning: "any", "all", or "some" but not all
    """
    if class_weight is None or isinstance(class_weight, str) or labels is None or len(labels) < 2:
        return
    names, factors = named_factors(class_weight, labels)
    unknown = names[find_labels(labels, names)[1] & (factors > 0)]
    are_all = len(unknown) == len(names)
    if len(unknown) and share in ("any", "all" if are_all else "some"):
        warn(
            f"class_weight (--class-weight) names {unknown.tolist()[:5]}, which no label of {where}"
            f" is; there are such as {labels[0].item()!r}: check the names"
        )


class ClassWeighted(Derived):
    """A source whose rows weigh what they did times the weight of their class.

    Parameters
    ----------
    source : with labels
    labels : (n_classes,) sorted
    factors : (n_classes,) float64
    rest : factor of all other labels; None for one that balances no others: that of the rarest
        class, and rows that have it are told
    """

    def __init__(
        self,
        source: Source,
        labels: NDArray[Any],
        factors: NDArray[np.float64],
        rest: float | None = 1.0,
    ) -> None:
        super().__init__(source)
        self._tells = rest is None
        self._labels = labels
        self._factors = np.append(factors, factors.max() if rest is None else rest)
        self.has_weights = source.has_weights or source.has_targets

    @property
    def settings(self) -> dict[str, str | None]:
        """Those of the source, and the weights of the classes."""
        pairs = zip([*self._labels.tolist(), "others"], self._factors.tolist(), strict=True)
        words = ", ".join(f"{label}={factor:.17g}" for label, factor in pairs)
        return self._source.settings | {"class_weight": words}

    def _changed(self, block: Block) -> Block:
        if block.y is None:
            return block
        y = of_targets(block, as_labels)
        index, unknown = find_labels(self._labels, y)
        if self._tells and unknown.any():
            self._tells = False
            first = y[unknown][0].item()
            warn(
                f"{block.where} has rows of class {first!r}, of which there was none among those "
                "looked at before the pass, so class_weight='balanced' (--class-weight balanced) "
                f"cannot weigh it by its share and takes {self._factors[-1]:.3g}; shuffle the rows "
                "or give numbers: class_weight={label: number} (--class-weight LABEL=NUMBER,...)"
            )
        weights = self._factors[np.where(unknown, -1, index)]
        return replace(block, weights=weights if block.weights is None else weights * block.weights)


class Known(Derived):
    """A source whose labels must be among those said to be all; UnknownLabelError for others."""

    def __init__(self, source: Source, classes: ArrayLike) -> None:
        super().__init__(source)
        self._classes = classes

    def _changed(self, block: Block) -> Block:
        if block.y is not None:
            of_targets(block, lambda y: check_known(y, self._classes))
        return block


class Unlabelled(RowsAlone):
    """A source whose targets, if any, are left out: all are 0, values of regression.

    So rows without labels are summed, for what needs none of them: components, drift, novelty.

    Parameters
    ----------
    source : Source, or array (n, n_features)

    Examples
    --------
    >>> import streamrf as srf
    >>> features = srf.StructuredFourier(srf.Gaussian(1.0), 64, random_state=0)
    >>> rows = srf.Unlabelled([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> srf.accumulate(rows, features).principal_components(1).components.shape
    (1, 64)
    """

    def __init__(self, source: Source | ArrayLike) -> None:
        source = as_source(source)
        super().__init__(source)
        self.has_targets = self.is_unlabelled = True
        self.has_weights = source.has_weights

    def _changed(self, block: Block) -> Block:
        return replace(block, y=np.zeros(len(block.X)))


class Renamed(Derived):
    """A source whose stores go by other ledger keys.

    Parameters
    ----------
    source : the other
    keys : the new ones by the old
    """

    def __init__(self, source: Source, keys: Mapping[str, str]) -> None:
        super().__init__(source)
        self._keys = keys

    @property
    def stores(self) -> list[Store]:
        found = self._source.stores
        return [replace(store, key=self._keys.get(store.key, store.key)) for store in found]

    def _changed(self, block: Block) -> Block:
        return replace(block, key=self._keys.get(block.key, block.key))


def known_by(source: Source, keys: Container[str]) -> Source:
    """Return the source, each store under the one of `keys` that it goes by, now or earlier.

    So rows that a ledger of these keys has counted are found again. Stores of a stream, which are
    not looked at before they are read, keep theirs.
    """
    stores = [store for store in source.stores if store.key not in keys] if source.seekable else []
    renamed = {store.key: key for store in stores for key in store.earlier if key in keys}
    return Renamed(source, renamed) if renamed else source
