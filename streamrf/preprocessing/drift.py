"""Moments of rows beside those of earlier rows, which a model or statistics know."""

from streamrf.display import listed
from streamrf.errors import warn
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
