"""The names of kinds that a selection tries: those of the user, or the default ones."""

from collections.abc import Sequence

from streamrf.errors import ParameterError
from streamrf.jit.arrays import Array
from streamrf.training.kind import Shape
from streamrf.training.kinds import KINDS

DEFAULT = (
    *("gaussian", "laplacian", "polynomial", "linear", "piecewise-linear"),
    *("gaussian-piecewise", "arc-cosine"),
)
OF_IMAGES = "convolution"  # tried next to those of `DEFAULT` where rows are images


def names_of(kernels: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of kinds that are to be tried; None means those of `DEFAULT`.

    Raise ParameterError for a name that is none.

    Examples
    --------
    >>> names_of(["default", "chi2"]) == (*DEFAULT, "chi2")
    True
    """
    if kernels is None:
        return DEFAULT
    if not isinstance(kernels, str | Sequence):
        raise ParameterError(f"kernels must be names, got {kernels!r}")
    words = kernels.split(",") if isinstance(kernels, str) else kernels
    names: list[str] = []
    for word in words:
        name = word.strip() if isinstance(word, str) else word
        if name != "default" and name not in KINDS:
            raise ParameterError(
                f"kernels (--kernels): {name!r} is none of those to choose from, which are "
                f"{', '.join(KINDS)}, and default, the first {len(DEFAULT)}"
            )
        names += DEFAULT if name == "default" else (name,)
    if not names:
        raise ParameterError("kernels (--kernels) must name one at least; leave it out for default")
    return tuple(dict.fromkeys(names))


def check_scaling(names: Sequence[str], normalize: str | None, warp: object) -> None:
    """Raise ParameterError for kinds whose rows a scaling that is named, or a warp, would spoil."""
    for name in names:
        kind = KINDS[name]
        if kind.takes_negative:
            continue
        if not kind.under(normalize):
            raise ParameterError(
                f"kernels (--kernels): {name!r} takes no negative entries, and "
                f"normalize={normalize!r} makes some; use 'l1', 'l2', 'max' or None"
            )
        if warp == "full":
            raise ParameterError(
                f"kernels (--kernels): {name!r} takes no negative entries, and warp='full' makes "
                "some; use warp='diagonal' or None"
            )


def for_rows(
    kernels: str | Sequence[str] | None, X: Array, shape: Shape | None, where: str
) -> tuple[str, ...]:
    """Return the names of kinds to try on rows (n, d): those named, or those of `DEFAULT` and more.

    Raise ParameterError for one that is named and does not take such rows, which are images of a
    shape or, where it is None, are not known to be any.
    """
    if kernels is None:
        return DEFAULT if shape is None else (*DEFAULT, OF_IMAGES)
    names = names_of(kernels)
    for name in names:
        if complaint := KINDS[name].objection(X, shape):
            raise ParameterError(f"{where}: kernels={name!r} (--kernels) {complaint}")
    return names
