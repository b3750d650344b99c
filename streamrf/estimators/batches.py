"""Fits and batches of `partial_fit`: one at a time, and each whole or not at all."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from threading import Lock, RLock
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from streamrf.errors import ParameterError
from streamrf.sources import IteratorSource, Source, check_rows
from streamrf.statistics import Statistics
from streamrf.training import Holdout, Pass

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

_LOCKS: WeakKeyDictionary[Any, RLock] = WeakKeyDictionary()  # not kept inside: pickles hold none
_LOCKS_LOCK = Lock()


def lock_of(estimator: Any) -> Any:
    """Return the lock of an estimator's sums."""
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(estimator, RLock())


def whole(
    method: Callable[Concatenate[Any, Arguments], Result],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """Let one thread at a time into a method, and on an error attributes be what they were."""

    @wraps(method)
    def run(estimator: Any, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with lock_of(estimator):
            before = dict(vars(estimator))
            try:
                return method(estimator, *args, **kwargs)
            except BaseException:  # Ctrl-C too
                for name in vars(estimator).keys() - before.keys():
                    delattr(estimator, name)
                vars(estimator).update(before)
                raise

    return run


def reopened(statistics: Statistics | None, holdout: Holdout | None) -> Pass:
    """Return a pass that goes on from what `fit` left."""
    if statistics is None:
        raise ParameterError(
            "partial_fit cannot go on, because a model file has no sums; pickle the estimator to "
            "keep them, or fit it anew"
        )
    return Pass.reopened(statistics, holdout)


def check_alike(first: tuple, batch: tuple) -> None:
    """Raise ShapeError for a batch unlike the first one that waits."""
    rows = [tuple(None if part is None else part[:1] for part in parts) for parts in (first, batch)]
    for _ in IteratorSource(rows).blocks():
        pass


def check_batch(source: Source, pass_: Pass | None, on_bad_rows: str) -> None:
    """Raise for rows and targets that a pass would not take, before any of them is added.

    They are told as of X, which the caller gave; the iterator is ours.
    """
    for block in source.blocks():
        checked, _ = check_rows(replace(block, where="X"), on_bad_rows)
        if pass_ is not None:
            pass_.check(checked)
