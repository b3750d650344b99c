"""What may stand next to like=: earlier statistics have a map, scales and a kind of targets."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamrf.display import clone
from streamrf.errors import ParameterError
from streamrf.features import FeatureMap
from streamrf.models import ErrorCorrectingCodes
from streamrf.preprocessing import Encoder, Warp, precision_of
from streamrf.statistics import BitSums, Statistics
from streamrf.storage import digest, to_tree
from streamrf.training.settings import AUTO, Settings


def check_continues(settings: Settings, like: Statistics) -> None:
    """Raise ParameterError for a setting other than that of the statistics to continue.

    A default says nothing, so that of `precision` goes with any; what chooses features is taken
    for none where it does not contradict those that were chosen.
    """
    for name, given, theirs in _differing(settings, like.encoder):
        raise ParameterError(
            f"{name}={given!r}, but the statistics to continue have {theirs!r}; leave {name} out "
            "to take theirs"
        )
    if settings.kernels is not None:
        raise ParameterError(
            "kernels (--kernels) choose features, and the statistics to continue have theirs; "
            "leave them out"
        )
    if settings.budget is not None:
        raise ParameterError(
            "budget (--budget) is for a choice of features, and the statistics to continue have "
            "theirs; leave it out"
        )
    task = "regression" if like.labels is None else "classification"
    if settings.task not in (AUTO, task):
        have = "values" if like.labels is None else "classes"
        raise ParameterError(
            f"task={settings.task!r} (--task), but the statistics to continue are of {have}; leave "
            "it out, or sum these rows by themselves, without like= (--like)"
        )
    if like.labels is None and settings.is_of_classes:
        raise ParameterError(
            "codes=, classes= and class_weight= are for classes, and the statistics to continue "
            "are of values; leave them out"
        )
    if isinstance(like.sums.targets, BitSums):
        _check_book(settings, like.sums.targets)


def _check_book(settings: Settings, targets: BitSums) -> None:
    """Raise ParameterError for classes or a code that the sums of bits of another code have not."""
    if settings.classes is not None and set(settings.classes) != set(targets.labels.tolist()):
        raise ParameterError(
            f"classes={list(settings.classes)!r}, but the statistics to continue are sums of bits "
            f"of a code of {targets.labels.tolist()!r}; leave classes out to take those"
        )
    codes = settings.codes
    if isinstance(codes, ErrorCorrectingCodes) and codes.random_state is not None:
        targets.book(codes)  # refuses another number of bits
        if not np.array_equal(codes.book(len(targets.labels)).matrix, targets.matrix):
            raise ParameterError(
                f"codes={codes!r}, but the statistics to continue are sums of bits of another "
                "code; leave codes out to take theirs"
            )


def _differing(settings: Settings, encoder: Encoder) -> Iterator[tuple[str, Any, Any]]:
    """Yield the names of settings that are not those of an encoder, with both."""
    features, theirs = settings.features, encoder.features
    if isinstance(features, FeatureMap) and _digest(features, theirs) != _digest(theirs, theirs):
        yield "features", features, clone(theirs)
    if settings.n_components not in (None, encoder.n_components):
        yield "n_components", settings.n_components, encoder.n_components
    if settings.normalize not in (AUTO, encoder.preprocessing.normalize):
        yield "normalize", settings.normalize, encoder.preprocessing.normalize
    warp, learnt = settings.warp, encoder.preprocessing.warp
    if isinstance(warp, Warp):
        if learnt is None or digest(warp.to_tree()) != digest(learnt.to_tree()):
            yield "warp", warp, learnt
    elif warp not in (AUTO, None if learnt is None else learnt.kind):
        yield "warp", warp, None if learnt is None else learnt.kind
    precision = precision_of(encoder.calibration)
    if settings.precision not in (Settings.precision, precision):
        yield "precision", settings.precision, precision


def _digest(features: FeatureMap, theirs: FeatureMap) -> str:
    """Return the fingerprint of a map's settings, with the seed of theirs if it has none."""
    copy = clone(features)
    if copy.wants_seed and type(copy) is type(theirs):
        copy.set_params(random_state=theirs.random_state)  # type: ignore[attr-defined]
    return digest(to_tree(copy))
