"""Decoders: how the outputs for a row name a class, one class each, by the word of ``decode=``.

A new one is a class here and a row of `DECODERS`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from streamrf.errors import ParameterError
from streamrf.jit.arrays import Array, Floats, Indices, Mask
from streamrf.jit.threads import on_single_blas_threads, single_blas_threads
from streamrf.models.probabilities import DEFAULT_SLOPE
from streamrf.storage import Fields

AUTO = "auto"  # the word for the best of them on rows held out of a pass
ABSENT = -1e12  # offset of a class without rows, which is never the nearest
PIECE_ROWS = 1024  # that a thread scores: shapes, and so bits, do not depend on how many there are
FLAT = 1e-6  # of the widest spread of the outputs: directions in which they do not vary


def read_only(values: Array) -> Floats:
    """Return a copy in float64 that cannot be written to."""
    values = np.array(values, dtype=np.float64, order="C")  # products depend on it in last bits
    values.flags.writeable = False
    return values


class Decoder(ABC):
    """Closeness of outputs to codewords; the class of the largest score wins.

    Attributes
    ----------
    word : the word of ``decode=``, in files too
    needs_class_sums : whether it is learnt from the sums of features by class
    """

    word: ClassVar[str]
    needs_class_sums: ClassVar[bool] = False

    def linear(self, matrix: Floats) -> tuple[Floats, Floats] | None:
        """Return slope (n_classes, n_bits) and offset (n_classes,) of the scores over the outputs.

        None where scores are not linear; `matrix` (n_classes, n_bits) holds the codewords.
        """
        return None

    def own_scores(self, outputs: Floats) -> Floats | None:
        """Return the scores of outputs (n, n_classes) where each class has one, as one-vs-rest has.

        None where they take the codewords, as products of all outputs with all classes.
        """
        return None

    def scores(self, matrix: Floats, outputs: Floats) -> Floats:
        """Return the scores (n, n_classes) of outputs (n, n_bits), larger is better."""
        linear = self.linear(matrix)
        assert linear is not None  # or the scores are a decoder's own
        slope, offset = linear
        found = np.empty((len(outputs), len(slope)))

        def score(start: int) -> None:
            rows = slice(start, start + PIECE_ROWS)
            found[rows] = outputs[rows] @ slope.T + offset

        on_single_blas_threads(score, range(0, len(outputs), PIECE_ROWS))
        return found

    @abstractmethod
    def margin(self, minimum_distance: int) -> float:
        """Return by how much the score of a codeword met exactly is above that of any other."""

    def check(self, shape: tuple[int, ...]) -> None:  # noqa: B027 - most fit any
        """Raise ParameterError unless what was learnt fits codewords (n_classes, n_bits)."""

    def restrict(self, index: Indices) -> "Decoder":
        """Return the decoder of some classes, by their indices (n,)."""
        return self

    def learnt(self, means: Floats, scatter: Floats, weights: Floats) -> "Decoder":
        """Learn from the outputs of the rows summed.

        Parameters
        ----------
        means : (n_classes, n_bits), of the outputs of the rows of each class
        scatter : (n_bits, n_bits), sum of the squares and products of the outputs of all rows about
            their mean
        weights : (n_classes,), of the rows of each class
        """
        return self

    def check_weighable(self) -> None:
        """Raise ParameterError unless the classes' shares are part of what is learnt."""
        raise ParameterError(
            f"class_weight (--class-weight) after the pass needs decode='discriminant', not "
            f"{self.word!r}: the sums have one Gram for all classes; or weigh the rows as they are "
            "read: accumulate(..., class_weight=), fit --class-weight"
        )

    def weighed(self, factors: Floats) -> "Decoder":
        """Return the decoder for classes that count (n_classes,) times as much."""
        self.check_weighable()
        return self

    def is_absent(self, n_classes: int) -> Mask:
        """Return whether a class had no rows to learn from, bool (n_classes,)."""
        return np.zeros(n_classes, dtype=bool)

    def to_tree(self) -> dict:
        """Return what was learnt as a tree."""
        return {}

    @classmethod
    def from_fields(cls, fields: Fields, shape: tuple[int, ...]) -> Self:
        """Rebuild from `to_tree`; `shape` is that of the codewords."""
        return cls()


class Euclidean(Decoder):
    """``outputs @ matrix.T``; of one-vs-rest codewords, the class of the largest output wins.

    All codewords have the squared norm n_bits, so ``-|o - c|^2 = 2 o.c - |o|^2 - n_bits`` orders
    the classes of a row as ``o.c`` does.
    """

    word = "euclidean"

    def linear(self, matrix: Floats) -> tuple[Floats, Floats]:
        return matrix, np.zeros(len(matrix))

    def own_scores(self, outputs: Floats) -> Floats:
        return 2 * outputs - outputs.sum(axis=1, keepdims=True)

    def margin(self, minimum_distance: int) -> float:
        return 2.0 * minimum_distance


class Hamming(Decoder):
    """Minus the number of bits in which the signs of the outputs differ from the codeword.

    An output of 0 counts as +1. Ties are common: ``argmax`` gives them to the class that comes
    first.
    """

    word = "hamming"

    def scores(self, matrix: Floats, outputs: Floats) -> Floats:
        signs = np.where(outputs >= 0, 1.0, -1.0)
        return (signs @ matrix.T - matrix.shape[1]) / 2

    def margin(self, minimum_distance: int) -> float:
        return float(minimum_distance)


@dataclass(frozen=True, eq=False)
class Discriminant(Decoder):
    """Logarithms of the probabilities of the classes, but for a term that all of a row share.

    The outputs of each class are taken as normal about their mean, with one covariance for all
    classes: linear discriminant analysis (Hastie, Tibshirani and Friedman, 2009, section 4.3). The
    margin makes the default probabilities those of these normal distributions.

    Parameters
    ----------
    slope, offset : (n_classes, n_bits) and (n_classes,) float64, once `learnt`
    """

    slope: Floats | None = None
    offset: Floats | None = None
    word = "discriminant"
    needs_class_sums = True

    def __post_init__(self) -> None:
        if (self.slope is None) != (self.offset is None):
            raise ParameterError("a discriminant has both slope and offset, or neither")
        if self.slope is not None and self.offset is not None:
            object.__setattr__(self, "slope", read_only(self.slope))
            object.__setattr__(self, "offset", read_only(self.offset))

    def check(self, shape: tuple[int, ...]) -> None:
        if self.slope is None or self.offset is None:
            return
        shapes = self.slope.shape, self.offset.shape
        if shapes != (shape, shape[:1]):
            raise ParameterError(
                f"slope and offset of shapes {shapes} do not fit a code book of shape {shape}"
            )

    def linear(self, matrix: Floats) -> tuple[Floats, Floats]:
        if self.slope is None or self.offset is None:
            raise ParameterError("decode='discriminant' is learnt by solving statistics")
        return self.slope, self.offset

    def margin(self, minimum_distance: int) -> float:
        return DEFAULT_SLOPE

    def restrict(self, index: Indices) -> "Discriminant":
        if self.slope is None or self.offset is None:
            return self
        return Discriminant(self.slope[index], self.offset[index])

    def learnt(self, means: Floats, scatter: Floats, weights: Floats) -> "Discriminant":
        with single_blas_threads():  # for bits that do not depend on the threads
            return self._learnt(means, scatter, weights)

    @staticmethod
    def _learnt(means: Floats, scatter: Floats, weights: Floats) -> "Discriminant":
        total, seen = weights.sum(), weights > 0
        apart = means[seen] - weights[seen] @ means[seen] / total
        within = (scatter - apart.T @ (weights[seen, np.newaxis] * apart)) / total
        spread, axes = np.linalg.eigh(within)
        # One-vs-rest outputs add up to the same for every row, and long codes repeat themselves.
        spread = np.maximum(spread, FLAT * max(spread[-1], FLAT * np.trace(scatter) / total))
        spread[spread <= 0] = np.inf  # outputs that never vary say nothing
        slope, offset = np.zeros_like(means), np.full(len(means), ABSENT)
        slope[seen] = apart @ (axes / spread) @ axes.T
        middle = (means[seen] + weights[seen] @ means[seen] / total) / 2
        offset[seen] = np.log(weights[seen] / total) - np.sum(slope[seen] * middle, axis=1)
        return Discriminant(slope, offset)

    def check_weighable(self) -> None:
        pass

    def weighed(self, factors: Floats) -> "Discriminant":
        """Shift the logarithms of the classes' shares, exactly."""
        if self.slope is None or self.offset is None:
            raise ParameterError("decode='discriminant' is learnt by solving statistics")
        with np.errstate(divide="ignore"):
            offset = np.maximum(self.offset + np.log(factors), ABSENT)
        return Discriminant(self.slope, np.where(self.offset == ABSENT, ABSENT, offset))

    def is_absent(self, n_classes: int) -> Mask:
        return super().is_absent(n_classes) if self.offset is None else self.offset == ABSENT

    def to_tree(self) -> dict:
        return {} if self.slope is None else {"slope": self.slope, "offset": self.offset}

    @classmethod
    def from_fields(cls, fields: Fields, shape: tuple[int, ...]) -> Self:
        slope = fields.array("slope", float, shape)
        return cls(slope, fields.array("offset", float, shape[:1]))


DECODERS: dict[str, type[Decoder]] = {
    kind.word: kind for kind in (Euclidean, Hamming, Discriminant)
}


def needs_class_sums(word: str) -> bool:
    """Return whether a decoder, or one that may be chosen, is learnt from sums by class."""
    return word == AUTO or DECODERS[word].needs_class_sums


def make_decoder(word: str) -> Decoder:
    """Return a decoder by its word, nothing learnt; raise ParameterError if there is none."""
    if word == AUTO:
        raise ParameterError(
            "decode='auto' is chosen on rows held out of a pass (the estimators, fit); sums alone "
            f"cannot count errors, so name one of {tuple(DECODERS)}"
        )
    if word not in DECODERS:
        raise ParameterError(f"decode must be one of {tuple(DECODERS)}, not {word!r}")
    return DECODERS[word]()
