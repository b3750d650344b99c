"""Moments of columns beside others: those of earlier rows, and of rows to be scaled by them."""

from dataclasses import replace

import numpy as np

from streamrf.display import listed
from streamrf.errors import ShapeError, warn
from streamrf.preprocessing.encoder import Encoder
from streamrf.preprocessing.moments import MAX_NAMED, Moments
from streamrf.storage import Fields


def warn_of_drift(moments: Moments, earlier: Moments, whose: str) -> list[int]:
    """Warn of the `Moments.drifted_columns`, of which it returns the places.

    `whose` rows the earlier ones are, and what to do, as the sentence ends.
    """
    found: list[int] = moments.drifted_columns(earlier).tolist()
    if found:
        warn(
            f"{named_columns(found, earlier.names)} drifted: the mean is more than a deviation "
            f"away, or the deviation ten times as great, as in the {earlier.n_rows:,} rows {whose}"
        )
    return found


def known_moments(fields: Fields, encoder: Encoder) -> Moments:
    """Return the moments in a tree, of columns as an encoder takes them."""
    moments = Moments.from_tree(fields.tree("moments"))
    moments.names = () if encoder.table is None else encoder.table.outputs
    if moments.n_features != encoder.n_features:
        raise fields.wrong("moments", f"are not of {encoder.n_features} columns")
    return moments


def named_columns(columns: list[int], names: tuple[str, ...] = ()) -> str:
    """Return columns as the subject of a sentence, by their names if they have any.

    Examples
    --------
    >>> named_columns([3]), named_columns([0, 2], ("age", "area", "city=Oslo"))
    ('column 3', "columns 'age', 'city=Oslo'")
    """
    shown = [repr(names[column]) if names else column for column in columns]
    return f"column{'s' if len(columns) > 1 else ''} {listed(shown, MAX_NAMED)}"


def scales_for(moments: Moments, names: tuple[str, ...], n_features: int, where: str) -> Moments:
    """Return the moments of the columns of rows, without their names.

    Columns are found by their names, in any order and among others, where both sides have names,
    else by their places; raise ShapeError where some are not there.

    Parameters
    ----------
    names : of the columns of the rows, or empty
    n_features : their width
    where : the rows, for messages
    """
    if names and moments.names:
        index = {name: i for i, name in enumerate(moments.names)}
        lacks = [name for name in names if name not in index]
        if lacks:
            raise ShapeError(
                f"scale_like has no moments of {listed(lacks, MAX_NAMED)}, columns of {where}; it "
                f"has those of {listed(moments.names, MAX_NAMED)}: sum the moments of the same "
                "columns"
            )
        moments = moments.take(np.array([index[name] for name in names]))
    elif moments.names:
        warn(
            f"scale_like (--scale-like) has moments of {listed(moments.names, MAX_NAMED)}, and "
            f"{where} has no names of columns, so they are taken in their order"
        )
    if moments.n_features != n_features:
        raise ShapeError(
            f"scale_like has the moments of {moments.n_features} columns, but {where} has "
            f"{n_features}; sum the moments of the same columns"
        )
    return replace(moments, names=())
