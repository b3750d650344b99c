"""Target codes: which sums of +-1 a classifier regresses on, and how its outputs name a class.

Each class owns a row of bits, its codeword. A regression per bit is solved, and a row of outputs is
given to the class whose codeword is nearest (Dietterich & Bakiri 1994; Hamid et al. 2014, section
4). The further apart the codewords, the more wrong bits are forgiven, so the books of
`ErrorCorrectingCodes` are searched for a large minimum distance. A linear discriminant of the
outputs is learnt from the same sums, without the rows (design/0007-discriminants.md).
"""

from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any, Protocol

import numpy as np

from streamrf.display import Parametrized
from streamrf.errors import ParameterError
from streamrf.jit.arrays import Array, Floats, Indices, Mask
from streamrf.jit.dense import inner_products
from streamrf.jit.threads import single_blas_threads
from streamrf.models import code_search
from streamrf.models.decoders import AUTO, DECODERS, Decoder, Euclidean, make_decoder, read_only
from streamrf.storage import Fields

DECODINGS = (*DECODERS, AUTO)
Seed = int | np.random.Generator

DISTANCE_ROWS = 1024  # codewords that are compared with all others at a time


@dataclass(frozen=True, eq=False)
class CodeBook:
    """One codeword for each class.

    Parameters
    ----------
    matrix : (n_classes, n_bits) array of +-1
        Copied to read-only float64. Two classes or more, no two rows alike; ParameterError if not.
    decoder : Decoder
        How outputs name a class; see `streamrf.models.decoders`.
    """

    matrix: Floats
    decoder: Decoder = field(default_factory=Euclidean)

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix)
        if matrix.ndim != 2 or matrix.shape[0] < 2 or matrix.shape[1] < 1:
            raise ParameterError(
                "a code book is a matrix of one row for each of two classes or more and one column "
                f"for each bit; this one has shape {matrix.shape}"
            )
        if matrix.dtype.kind not in "iuf" or not (np.abs(matrix) == 1).all():
            raise ParameterError("the entries of a code book are -1 and +1; this one has others")
        if len(np.unique(np.packbits(matrix > 0, axis=1), axis=0)) < len(matrix):
            raise ParameterError("two classes of the code book share a codeword; make rows differ")
        object.__setattr__(self, "matrix", read_only(matrix))
        self.decoder.check(matrix.shape)

    @property
    def decode(self) -> str:
        """The word of the decoder."""
        return self.decoder.word

    @property
    def n_classes(self) -> int:
        """Codewords."""
        return self.matrix.shape[0]

    @property
    def n_bits(self) -> int:
        """Outputs that are regressed on."""
        return self.matrix.shape[1]

    @cached_property
    def is_one_vs_rest(self) -> bool:
        """Whether each class has a bit of its own, in order, that is +1 for it alone."""
        is_square = self.n_bits == self.n_classes
        is_own = is_square and (self.matrix.diagonal() == 1).all()
        return bool(is_own and (self.matrix.sum(axis=0) == 2 - self.n_classes).all())

    @cached_property
    def minimum_distance(self) -> int:
        """Bits in which the two most alike codewords differ.

        Fewer than half as many wrong bits leave the right class nearest.
        """
        return 2 if self.is_one_vs_rest else _least_distance(self.matrix)

    @property
    def margin(self) -> float:
        """By how much the score of a codeword met exactly is above that of the closest other."""
        return self.decoder.margin(self.minimum_distance)

    @property
    def is_absent(self) -> Mask:
        """Whether the decoder had no rows of a class to learn from, bool (n_classes,)."""
        return self.decoder.is_absent(self.n_classes)

    def read_by(self, decoder: Decoder) -> "CodeBook":
        """Return the same book with another decoder; its words are not checked again."""
        decoder.check(self.matrix.shape)
        book = copy(self)
        object.__setattr__(book, "decoder", decoder)
        return book

    def scores(self, outputs: Floats) -> Floats:
        """Closeness of outputs (n, n_bits) to each codeword, float64 (n, n_classes)."""
        own = self._own_scores(outputs)
        return self.decoder.scores(self.matrix, outputs) if own is None else own

    def scores_by_row(self, outputs: Floats) -> Floats:
        """Return `scores` of which a row's bits depend on the row alone, by the calling thread."""
        linear = self.decoder.linear(self.matrix)
        if linear is None:  # of integers then, which are exact
            return self.scores(outputs)
        slope, offset = linear
        return inner_products(outputs, slope) + offset

    def scoring(self, coef: Floats, intercept: Floats) -> tuple[Floats, Floats] | None:
        """Return coefficients and intercepts by class, (n_classes, n_components) and (n_classes,).

        A model of `coef` (n_bits, n_components) and `intercept` (n_bits,) scores features by these
        at once. None where scores are not linear.
        """
        linear = self.decoder.linear(self.matrix)
        if linear is None:
            return None
        own = self._own_scores(coef.T)
        if own is not None:
            return np.ascontiguousarray(own.T), self.scores(intercept[np.newaxis])[0]
        slope, offset = linear
        with single_blas_threads():  # for bits that do not depend on the threads
            return slope @ coef, slope @ intercept + offset

    def _own_scores(self, outputs: Floats) -> Floats | None:
        return self.decoder.own_scores(outputs) if self.is_one_vs_rest else None

    def restrict_classes(self, index: Indices) -> "CodeBook":
        """Return the book of some classes, by their indices (n,)."""
        return CodeBook(self.matrix[index], self.decoder.restrict(index))

    def to_tree(self) -> dict[str, Any]:
        """Return the book as a tree."""
        tree = {"matrix": self.matrix.astype(np.int8), "decode": self.decode}
        return tree | self.decoder.to_tree()

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "CodeBook":
        """Rebuild from `to_tree`; raise FormatError if the tree holds no code book."""
        fields = Fields.of(tree)
        matrix = fields.array("matrix", np.int8, (None, None))
        kind = DECODERS[fields.text("decode", DECODERS)]
        decoder = kind.from_fields(fields, matrix.shape)
        fields.end()
        try:
            return cls(matrix, decoder)
        except ParameterError as error:
            raise fields.wrong("matrix", f"is no code book: {error}") from error


class TargetCodes(Protocol):
    """What makes a code book for the classes found in a pass."""

    @property
    def decode(self) -> str:
        """Word of the decoder."""

    def book(self, n_classes: int, *, random_state: Seed = 0) -> CodeBook:
        """Return the code book; codes without a seed of their own take `random_state`."""


Codes = TargetCodes | None  # None: one-vs-rest, or the bits summed


class OneVsRest(Parametrized):
    """One output for each class: +1 on its rows, -1 on the others; the largest output wins.

    Two classes need one output only, -1 for the first and +1 for the second, as in scikit-learn.

    Parameters
    ----------
    decode : {"euclidean", "discriminant", "auto"}
        With "discriminant" the class most probable by linear discriminant analysis of the outputs
        wins in place of the largest output. Its cost is negligible and its error lower where a
        class lies between others, the features are few for the rows, or one class is much larger
        than the others; where they fit the training rows almost wholly, its error is higher.
        "auto": discriminants where rows held out of the pass clearly err less by them, as for up to
        100 classes without codes (the estimators and `fit`).

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.OneVsRest().book(3).matrix
    array([[ 1., -1., -1.],
           [-1.,  1., -1.],
           [-1., -1.,  1.]])
    """

    decodings = ("euclidean", "discriminant", AUTO)

    def __init__(self, decode: str = "euclidean") -> None:
        self.decode = decode

    def n_outputs(self, n_classes: int) -> int:
        """Return the number of outputs regressed on; raises as `book` does."""
        check_codes(self)
        _check_classes(n_classes)
        return 1 if n_classes == 2 else int(n_classes)

    def book(self, n_classes: int, random_state: Seed = 0) -> CodeBook:
        """Return the code book; nothing is drawn, so `random_state` is not used.

        ParameterError if there are fewer than two classes, or no such decoding.
        """
        is_one = self.n_outputs(n_classes) == 1
        words: Array = 2 * np.eye(n_classes, dtype=np.int8) - 1  # an eighth of float64
        return CodeBook(words[:, 1:] if is_one else words, make_decoder(self.decode))


class ErrorCorrectingCodes(Parametrized):
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
    decode : {"euclidean", "hamming", "discriminant", "auto"}
        Nearest codeword by distance, by wrong bits, or as in `OneVsRest`. "auto": by distance,
        unless rows held out clearly err less by another.
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
        """Return the number of outputs regressed on.

        ParameterError if the classes cannot have so many bits, or so few, or such a decoding.
        """
        check_codes(self)
        _check_classes(n_classes)
        n_bits = self.n_bits
        n_min, n_max = (int(n_classes) - 1).bit_length(), 2 ** (int(n_classes) - 1) - 1
        if n_bits < n_min:
            raise ParameterError(
                f"n_bits={n_bits} cannot tell {n_classes} classes apart: set n_bits (--bits) to "
                f"{n_min} or more"
            )
        if n_bits > n_max:
            raise ParameterError(
                f"n_bits={n_bits} is too many for {n_classes} classes, which split in two in only "
                f"{n_max} different ways: set n_bits (--bits) to {n_max} or "
                "less, or use OneVsRest() (leave out --codes)"
            )
        return int(n_bits)

    def book(self, n_classes: int, random_state: Seed = 0) -> CodeBook:
        """Search for a book of codewords far apart, its matrix (n_classes, n_bits).

        `random_state` is used where the code has no seed of its own. ParameterError as of
        `n_outputs`, or if the seed is of the wrong kind.
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
        decoder = make_decoder(self.decode)
        books: list[Array] = [np.where(bits, np.int8(1), np.int8(-1)) for bits in found]
        best = books[0] if len(books) == 1 else max(books, key=_least_distance)
        return CodeBook(best, decoder)


def _least_distance(matrix: Array) -> int:
    """Return the bits in which the two most alike rows of -1 and 1 differ, (n_classes, n_bits)."""
    words = matrix.astype(np.float32)  # integers below 2^24: exact
    n_classes, n_bits = words.shape
    closest = -n_bits
    for start in range(0, n_classes, DISTANCE_ROWS):
        agreement = words[start : start + DISTANCE_ROWS] @ words.T
        own = np.arange(len(agreement))
        agreement[own, start + own] = -n_bits
        closest = max(closest, int(agreement.max()))
    return (n_bits - closest) // 2


def check_codes(codes: Any) -> None:
    """Raise ParameterError for what is no target code, or has no such decoding or no bits."""
    if isinstance(codes, type) or not hasattr(codes, "decodings"):
        raise ParameterError(
            f"codes must be OneVsRest() or ErrorCorrectingCodes(n_bits), got {codes!r}"
        )
    if isinstance(codes.decode, np.ndarray) or codes.decode not in codes.decodings:
        name = type(codes).__name__
        raise ParameterError(
            f"decode of {name} must be one of {codes.decodings}, not {codes.decode!r}"
        )
    n_bits = getattr(codes, "n_bits", 0)
    if not isinstance(n_bits, Integral) or isinstance(n_bits, bool):
        raise ParameterError(f"n_bits must be an integer, not {n_bits!r}")


def _check_classes(n_classes: int) -> None:
    if n_classes < 2:
        raise ParameterError(
            f"a classifier needs two classes or more, not {n_classes}: check the labels"
        )
