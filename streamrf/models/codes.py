"""Target codes: which sums of +-1 a classifier regresses on, and how its outputs name a class.

Each class owns a row of bits, its codeword. A regression per bit is solved, and a row of outputs is
given to the class whose codeword is nearest (Dietterich & Bakiri 1994; Hamid et al. 2014, section
4). The further apart the codewords, the more wrong bits are forgiven, so the books of
`ErrorCorrectingCodes` are searched for a large minimum distance. A linear discriminant of the
outputs is learnt from the same sums, without the rows (design/0007-discriminants.md).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from streamrf.errors import ParameterError
from streamrf.models import code_search
from streamrf.models.probabilities import USUAL_SLOPE
from streamrf.storage import Fields

DECODINGS = ("euclidean", "hamming", "discriminant")
ABSENT = -1e12  # offset of a class without rows, which is never the nearest
FLAT = 1e-6  # of the widest spread of the outputs: directions in which they do not vary


@dataclass(frozen=True, eq=False)
class CodeBook:
    """One codeword for each class.

    Parameters
    ----------
    matrix : (n_classes, n_bits) array of +-1
        Copied to read-only float64. Two classes at least, no two rows alike.
    decode : {"euclidean", "hamming", "discriminant"}
        Which distance from the outputs to a codeword is smallest for the winner; or that the most
        probable class wins, the outputs of each class being normal about their mean, with one
        covariance for all classes (linear discriminant analysis).
    slope, offset : (n_classes, n_bits) and (n_classes,) float64
        Of the discriminants, once learnt from the rows summed; see `learnt`.

    Raises
    ------
    ParameterError
        If the matrix or the decoding is none of these, or slope and offset do not fit them.
    """

    matrix: np.ndarray
    decode: str = "euclidean"
    slope: np.ndarray | None = None
    offset: np.ndarray | None = None

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix)
        if self.decode not in DECODINGS:
            raise ParameterError(f"decode must be one of {DECODINGS}, not {self.decode!r}")
        if matrix.ndim != 2 or matrix.shape[0] < 2 or matrix.shape[1] < 1:
            raise ParameterError(
                "a code book is a matrix of one row for each of two classes or more and one column "
                f"for each bit; this one has shape {matrix.shape}"
            )
        if matrix.dtype.kind not in "iuf" or not (np.abs(matrix) == 1).all():
            raise ParameterError("the entries of a code book are -1 and +1; this one has others")
        if len(np.unique(np.packbits(matrix > 0, axis=1), axis=0)) < len(matrix):
            raise ParameterError("two classes of the code book share a codeword; make rows differ")
        self._keep("matrix", matrix)
        if (self.slope is None) != (self.offset is None):
            raise ParameterError("a code book has both slope and offset, or neither")
        if self.slope is None or self.offset is None:
            return
        shapes = np.shape(self.slope), np.shape(self.offset)
        if self.decode != "discriminant" or shapes != (matrix.shape, matrix.shape[:1]):
            raise ParameterError(
                f"slope and offset of shapes {shapes} do not fit a code book of shape "
                f"{matrix.shape} with decode={self.decode!r}"
            )
        self._keep("slope", self.slope)
        self._keep("offset", self.offset)

    def _keep(self, name, values):
        values = np.array(values, dtype=np.float64)
        values.flags.writeable = False
        object.__setattr__(self, name, values)

    @property
    def n_classes(self) -> int:
        """Codewords."""
        return self.matrix.shape[0]

    @property
    def n_bits(self) -> int:
        """Outputs that are regressed on."""
        return self.matrix.shape[1]

    @cached_property
    def minimum_distance(self) -> int:
        """Bits in which the two most alike codewords differ.

        Fewer than half as many wrong bits leave the right class nearest.
        """
        words = self.matrix.astype(np.float32)  # integers below 2^24: exact
        closest = -self.n_bits
        for start in range(0, self.n_classes, 1024):
            agreement = words[start : start + 1024] @ words.T
            own = np.arange(len(agreement))
            agreement[own, start + own] = -self.n_bits
            closest = max(closest, int(agreement.max()))
        return (self.n_bits - closest) // 2

    @property
    def margin(self) -> float:
        """What the score of a codeword met exactly is above that of the closest other one.

        Discriminants have what makes their probabilities those of the normal distributions.
        """
        if self.decode == "discriminant":
            return USUAL_SLOPE
        return self.minimum_distance * (2.0 if self.decode == "euclidean" else 1.0)

    def learnt(self, means: np.ndarray, scatter: np.ndarray, weights: np.ndarray) -> "CodeBook":
        """Learn the discriminants of the outputs; see Hastie, Tibshirani and Friedman (2009), 4.3.

        Parameters
        ----------
        means : (n_classes, n_bits), of the outputs of the rows of each class
        scatter : (n_bits, n_bits), sum of the squares and products of the outputs of all rows about
            their mean
        weights : (n_classes,), of the rows of each class

        Returns
        -------
        CodeBook with slope and offset
        """
        total, seen = weights.sum(), weights > 0
        apart = means[seen] - weights[seen] @ means[seen] / total
        within = (scatter - apart.T @ (weights[seen, np.newaxis] * apart)) / total
        spread, axes = np.linalg.eigh(within)
        # One-vs-rest outputs add up to the same for every row, and long codes repeat themselves.
        spread = np.maximum(spread, FLAT * max(spread[-1], FLAT * np.trace(scatter) / total))
        spread[spread <= 0] = np.inf  # outputs that never vary tell nothing
        slope, offset = np.zeros_like(self.matrix), np.full(self.n_classes, ABSENT)
        slope[seen] = apart @ (axes / spread) @ axes.T
        middle = (means[seen] + weights[seen] @ means[seen] / total) / 2
        offset[seen] = np.log(weights[seen] / total) - np.sum(slope[seen] * middle, axis=1)
        return replace(self, slope=slope, offset=offset)

    def among(self, index: np.ndarray) -> "CodeBook":
        """Give the book of some classes, by their places (n,) in this one."""
        if self.slope is None or self.offset is None:
            return CodeBook(self.matrix[index], self.decode)
        return CodeBook(self.matrix[index], self.decode, self.slope[index], self.offset[index])

    @property
    def is_absent(self) -> np.ndarray:
        """Whether a class had no rows to learn its discriminant from, bool (n_classes,)."""
        if self.offset is None:
            return np.zeros(self.n_classes, dtype=bool)
        return self.offset == ABSENT

    @property
    def linear(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Slope and offset of the scores over the outputs, or None where they are not linear.

        (n_classes, n_bits) and (n_classes,); raises ParameterError where they are not learnt yet.
        """
        if self.decode == "hamming":
            return None
        if self.decode == "euclidean":
            return self.matrix, np.zeros(self.n_classes)
        if self.slope is None or self.offset is None:
            raise ParameterError("decode='discriminant' is learnt by solving statistics")
        return self.slope, self.offset

    def scores(self, outputs: np.ndarray) -> np.ndarray:
        """Closeness of each row of outputs to each codeword, larger is better.

        "euclidean" gives ``outputs @ matrix.T``. All codewords have the squared norm n_bits, so
        ``-|o - c|^2 = 2 o.c - |o|^2 - n_bits`` orders the classes of a row as ``o.c`` does.
        "hamming" gives minus the number of bits in which the signs of the outputs differ from the
        codeword; an output of 0 counts as +1. Ties are common there: ``argmax`` gives them to the
        class that comes first. "discriminant" gives the logarithm of the probability of each class,
        but for a term that all classes of a row share.

        Parameters
        ----------
        outputs : (n, n_bits)

        Returns
        -------
        (n, n_classes) float64

        Raises
        ------
        ParameterError
            If discriminants have not been learnt.
        """
        if self.linear is not None:
            slope, offset = self.linear
            return outputs @ slope.T + offset
        signs = np.where(outputs >= 0, 1.0, -1.0)
        return (signs @ self.matrix.T - self.n_bits) / 2

    def to_tree(self) -> dict[str, Any]:
        """Give the book as a tree."""
        tree = {"matrix": self.matrix.astype(np.int8), "decode": self.decode}
        if self.slope is not None:
            tree |= {"slope": self.slope, "offset": self.offset}
        return tree

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "CodeBook":
        """Rebuild from `to_tree`.

        Raises
        ------
        FormatError
            If the tree holds no code book.
        """
        fields = Fields.of(tree)
        matrix = fields.array("matrix", np.int8, (None, None))
        decode = fields.text("decode", DECODINGS)
        learnt = []
        if decode == "discriminant":
            learnt = [
                fields.array("slope", float, matrix.shape),
                fields.array("offset", float, matrix.shape[:1]),
            ]
        fields.end()
        try:
            return cls(matrix, decode, *learnt)
        except ParameterError as error:
            raise fields.wrong("matrix", f"is no code book: {error}") from error


class OneVsRest(BaseEstimator):
    """One output for each class: +1 on its rows, -1 on the others; the largest output wins.

    Two classes need one output only, -1 for the first and +1 for the second, as in scikit-learn.

    Parameters
    ----------
    decode : {"euclidean", "discriminant"}
        With "discriminant" the class most probable by linear discriminant analysis of the outputs
        wins in place of the largest output. It takes no time to speak of, and errs less where the
        features are few for the rows, or one class is much larger than the others; where they fit
        the training rows almost wholly, it errs more.
    """

    decodings = ("euclidean", "discriminant")

    def __init__(self, decode: str = "euclidean") -> None:
        self.decode = decode

    def n_outputs(self, n_classes: int) -> int:
        """Give the number of outputs regressed on; raises as `book` does."""
        check_decode(self)
        _check_classes(n_classes)
        return 1 if n_classes == 2 else int(n_classes)

    def book(self, n_classes: int, random_state: Any = 0) -> CodeBook:
        """Give the code book; nothing is drawn, so `random_state` is not used.

        Raises
        ------
        ParameterError
            If there are fewer than two classes, or no such decoding.
        """
        if self.n_outputs(n_classes) == 1:
            return CodeBook(np.array([[-1.0], [1.0]]), self.decode)
        return CodeBook(2 * np.eye(n_classes) - 1, self.decode)


class ErrorCorrectingCodes(BaseEstimator):
    """Codewords of `n_bits` bits, far apart, so that some wrong bits do no harm.

    Rows of a book differ from each other; its columns are different two-way splits of the classes:
    none is constant, repeated, or the complement of another (that would be the same regression
    twice). The books are deterministic: the same number of classes and seed give the same book.

    Parameters
    ----------
    n_bits : int
        From ``ceil(log2(n_classes))`` to ``2**(n_classes - 1) - 1``, the number of splits there
        are. More bits forgive more errors; fewer than classes make smaller sums, but for
        "discriminant", which needs those by class.
    decode : {"euclidean", "hamming", "discriminant"}
        See `CodeBook`.
    random_state : int or None
        None takes the seed given to `book`.

    Examples
    --------
    >>> book = ErrorCorrectingCodes(n_bits=200).book(10)
    >>> book.matrix.shape, book.minimum_distance
    ((10, 200), 108)
    """

    decodings = DECODINGS

    def __init__(
        self, n_bits: int, decode: str = "euclidean", random_state: int | None = None
    ) -> None:
        self.n_bits = n_bits
        self.decode = decode
        self.random_state = random_state

    def n_outputs(self, n_classes: int) -> int:
        """Give the number of outputs regressed on.

        Raises
        ------
        ParameterError
            If so many classes cannot have so many bits, or so few, or there is no such decoding.
        """
        check_decode(self)
        _check_classes(n_classes)
        n_bits = self.n_bits
        if not isinstance(n_bits, Integral) or isinstance(n_bits, bool):
            raise ParameterError(f"n_bits must be an integer, not {n_bits!r}")
        fewest, most = (int(n_classes) - 1).bit_length(), 2 ** (int(n_classes) - 1) - 1
        if n_bits < fewest:
            raise ParameterError(
                f"n_bits={n_bits} cannot tell {n_classes} classes apart: set n_bits to {fewest} or "
                "more"
            )
        if n_bits > most:
            raise ParameterError(
                f"n_bits={n_bits} is too many for {n_classes} classes, which split in two in only "
                f"{most} different ways: set n_bits to {most} or less, or use OneVsRest()"
            )
        return int(n_bits)

    def book(self, n_classes: int, random_state: int | np.random.Generator = 0) -> CodeBook:
        """Search for a book of codewords far apart.

        Parameters
        ----------
        n_classes : int
        random_state : int or Generator
            Used where the code has no seed of its own.

        Returns
        -------
        CodeBook, its matrix (n_classes, n_bits)

        Raises
        ------
        ParameterError
            If so many classes cannot have so many bits, or a setting is of the wrong kind.
        """
        n_bits = self.n_outputs(n_classes)
        seed = self.random_state
        if seed is not None and (not isinstance(seed, Integral) or seed < 0):
            raise ParameterError(
                f"random_state of a code must be None or an integer from 0 on, not {seed!r}"
            )
        rng = np.random.default_rng(random_state if seed is None else int(seed))
        n_classes = int(n_classes)
        found = code_search.candidates(n_classes, n_bits, rng)
        books = [CodeBook(np.where(bits, 1.0, -1.0), self.decode) for bits in found]
        return max(books, key=lambda book: book.minimum_distance)


def check_decode(codes: OneVsRest | ErrorCorrectingCodes) -> None:
    """Refuse a decoding that target codes do not have."""
    if codes.decode not in codes.decodings:
        name = type(codes).__name__
        raise ParameterError(
            f"decode of {name} must be one of {codes.decodings}, not {codes.decode!r}"
        )


def _check_classes(n_classes: int) -> None:
    if n_classes < 2:
        raise ParameterError(
            f"a classifier needs two classes or more, not {n_classes}: check the labels"
        )
