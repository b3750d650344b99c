"""What the shards of a pass add up to, as it travels between workers."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from streamrf.statistics import Statistics
from streamrf.training.clipping import Clipping
from streamrf.training.holdout import Holdout


@dataclass(frozen=True)
class EncoderName:
    """Stands for the encoder in sums that travel: its fingerprints and the names of its targets."""

    digests: dict[str, str]
    target_names: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """What some shards add up to: a commutative monoid as `Statistics` is.

    Parameters
    ----------
    statistics : with an `EncoderName` for the encoder
    holdouts : the rows held out, one holdout a shard
    faint : rows whose weights were rounded to 0, by label
    clipping : what was cut off the rows
    """

    statistics: Statistics
    holdouts: tuple[Holdout, ...]
    faint: Counter[Any]
    clipping: Clipping

    def __add__(self, other: "Part") -> "Part":
        return Part(
            self.statistics + other.statistics,
            self.holdouts + other.holdouts,
            self.faint + other.faint,
            self.clipping + other.clipping,
        )
