"""What is odd of rows that a model is asked about: beside those that it was trained on."""

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from streamrf.errors import warn
from streamrf.preprocessing import Moments, combined_moments, warn_of_drift
from streamrf.sources import Block, warn_of_unseen

LOOKED_AT = 256  # rows of a block, whose columns are compared with those known
MAX_WATCHED = 4096  # columns, of which a model keeps the moments


@dataclass
class Oddities:
    """What is odd of some rows; a commutative monoid.

    Parameters
    ----------
    n_unseen : cells of tables unlike those that columns were learnt from
    n_left_out : rows with NaN or infinity
    moments : of the columns, or None where they are not compared
    """

    n_unseen: int = 0
    n_left_out: int = 0
    moments: Moments | None = None

    @classmethod
    def of(cls, block: Block, known: Moments | None = None) -> "Oddities":
        """Look at a block; its columns are to be compared with those of known rows, if any."""
        moments = None
        if known is not None:
            moments = none_of(known)
            look(block, moments)
            moments.join()
        return cls(block.n_unseen, block.span - len(block.X), moments)

    def __add__(self, other: "Oddities") -> "Oddities":
        moments = combined_moments(self.moments, other.moments, 1)
        n_left_out = self.n_left_out + other.n_left_out
        return Oddities(self.n_unseen + other.n_unseen, n_left_out, moments)


def watched(moments: Moments | None) -> Moments | None:
    """Return what a model keeps of the moments of the rows summed; None of too many columns."""
    if moments is None or moments.n_features > MAX_WATCHED or not moments.n_rows:
        return None
    return moments.join().copy()


def none_of(known: Moments) -> Moments:
    """Return the moments of no rows, that others like the known ones add to."""
    return Moments.zero(known.sample, known.names)


def look(block: Block, moments: Moments) -> None:
    """Add some rows of a block, of all parts of it: all take a quarter of an evaluation's time."""
    moments.count(block.X[:: -(-len(block.X) // LOOKED_AT) or 1])


def drifted(moments: Moments | None, known: Moments | None) -> list[int]:
    """Return the columns that are far from those of known rows, after a warning of them."""
    if moments is None or known is None or not moments.n_rows:
        return []
    return warn_of_drift(
        moments,
        known,
        "that the model was trained on, and it knows nothing of such rows; check the data, train "
        "on rows like these too, or leave out columns that grow with time, as dates do",
    )


def told(
    parts: Generator[tuple[Any, ...], None, None], known: Moments | None = None
) -> Generator[Any, None, None]:
    """Yield the results of blocks, less the `Oddities` that each begins with; warn of those."""
    found = Oddities(moments=None if known is None else none_of(known))
    with closing(parts):
        for some, *result in parts:
            found += some
            yield tuple(result)
    warn_of_unseen(found.n_unseen)
    drifted(found.moments, known)
    if found.n_left_out:
        warn(
            f"{found.n_left_out:,} rows were left out, with NaN, infinity or values beyond 1e150: "
            "the answers are fewer than the rows, in their order"
        )
