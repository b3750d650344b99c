"""The statistics of a pass: sums, where they came from, and what can be solved from them."""

import functools
import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from streamrf import storage
from streamrf.encoding import Encoder
from streamrf.errors import DataError, MergeError, ParameterError
from streamrf.jit.threads import computing
from streamrf.models import CodeBook, Model, OneVsRest
from streamrf.solving import (
    RELATIVE_ALPHAS,
    CrossValidation,
    Normal,
    Path,
    Posterior,
    check_alpha,
    check_kept,
    cross_validate,
    most_useful,
    trace,
)
from streamrf.sources import as_labels, find_labels
from streamrf.statistics.folds import FoldedSums, rebuilt
from streamrf.statistics.ledger import Ledger
from streamrf.statistics.sums import Sums
from streamrf.statistics.targets import BitSums, ClassSums
from streamrf.storage import Fields, loading

KIND = "statistics"

# Factors up to this width take one thread: a millisecond or so alone, but up to 0.4 s when the
# threads of BLAS wait for each other on a busy machine.
ONE_THREAD_WIDTH = 1024


@dataclass(frozen=True)
class Statistics:
    """Everything a ridge solve needs of the rows counted, and nothing of the rows themselves.

    A commutative monoid: ``a + b`` is the statistics of both sets of rows, ``a + b - b`` is ``a``
    to the last byte (on rounded features).

    Parameters
    ----------
    encoder : how raw rows became features
    sums : the sums, in folds or not
    ledger : the row ranges counted
    n_skipped : rows left out for NaN or infinity
    """

    encoder: Encoder
    sums: Sums | FoldedSums
    ledger: Ledger
    n_skipped: int = 0

    @property
    def gram(self) -> np.ndarray:
        """Sums of products of features, packed (LAPACK's RFP, TRANSR 'N', UPLO 'L').

        float64, or int32 where they were summed with ``totals="int32"``.
        """
        return self.sums.gram.totals

    @property
    def n_rows(self) -> int:
        """Rows counted."""
        return self.sums.n_rows

    @property
    def n_folds(self) -> int:
        """Folds that the sums are kept in; 0 where they are not."""
        return self.sums.n_folds

    @property
    def n_clipped(self) -> int:
        """Entries clipped to the calibration's range."""
        return self.sums.n_clipped

    @property
    def labels(self) -> np.ndarray | None:
        """Class labels, sorted; None for regression."""
        return self.sums.targets.labels

    @property
    def class_sums(self) -> np.ndarray:
        """Sums of features by class, or by bit or target: float64 (n_outputs, n_components)."""
        return self.sums.targets.sums

    def __add__(self, other: "Statistics") -> "Statistics":
        return self._combined(other, 1, operator.add)

    def __sub__(self, other: "Statistics") -> "Statistics":
        return self._combined(other, -1, operator.sub)

    def absorb(self, other: "Statistics", sign: int = 1) -> "Statistics":
        """Give ``self + other``, or ``self - other`` for a `sign` of -1, in the memory of our sums.

        So two Grams are held where the operators hold three. Ours are lost, even if it is refused.
        """
        return self._combined(other, sign, lambda ours, theirs: ours.absorb(theirs, float(sign)))

    def _combined(self, other, sign, combine):
        self._check_alike(other)
        if sign < 0 and (self.is_scaled or other.is_scaled):
            raise MergeError(
                f"{'the left' if self.is_scaled else 'the right'} side was scaled, so the share of "
                "its rows in the sums is not known and they cannot be removed; subtract first, "
                "then scale"
            )
        # First the ledger: it may refuse, and costs little.
        ledger = self.ledger + other.ledger if sign > 0 else self.ledger - other.ledger
        n_skipped = self.n_skipped + sign * other.n_skipped
        if n_skipped < 0 or self.n_rows + sign * other.n_rows < 0:
            raise MergeError(
                f"the right side has {other.n_rows} rows and left out {other.n_skipped} of those "
                f"it counted, the left side only {self.n_rows} and {self.n_skipped}: they were not "
                "summed from the same data"
            )
        sums = combine(self.sums, other.sums)
        sums.check_exact()
        return Statistics(self.encoder, sums, ledger, n_skipped)

    def scale(self, factor: float) -> "Statistics":
        """Give the statistics with every weight multiplied by `factor`: below 1, old rows fade.

        The sums are no longer of whole numbers, so they are marked (`is_scaled`), and so is
        whatever they are added to: from here on they are exact to rounding only. The ledger still
        counts the rows: they cannot be added again, nor removed any more, since how much of them is
        left is not known. `alpha` keeps its size and so weighs more beside smaller sums.

        Parameters
        ----------
        factor : float above 0

        Raises
        ------
        ParameterError
            Another factor.
        """
        if not isinstance(factor, Real) or isinstance(factor, bool) or not 0 < factor < np.inf:
            raise ParameterError(f"factor must be a number above 0, got {factor!r}")
        return replace(self, sums=self.sums.scaled(float(factor)))

    @property
    def is_scaled(self) -> bool:
        """Whether rows were scaled, so that the sums are exact to rounding only."""
        return self.sums.is_scaled

    def _check_alike(
        self, other, advice="start the second run from the first one's file: like= or --like"
    ):
        if not isinstance(other, Statistics):
            raise MergeError(f"expected statistics to merge with, got {type(other).__name__}")
        for name, digest in self.encoder.digests.items():
            if other.encoder.digests[name] != digest:
                raise MergeError(f"the two sides were summed with different {name}; {advice}")
        if self.n_folds != other.n_folds:
            raise MergeError(
                f"one side keeps its sums in {self.n_folds or 'no'} folds, the other in "
                f"{other.n_folds or 'none'}; without_folds() joins them"
            )

    def without_folds(self) -> "Statistics":
        """Give the same statistics with the folds added up, as small as if there had been none."""
        sums = self.sums.joined() if isinstance(self.sums, FoldedSums) else self.sums
        return replace(self, sums=sums)

    def relabel(self, names: Mapping[Any, Any]) -> "Statistics":
        """Give the statistics with other labels; classes given the same label become one.

        Class sums add up, so the result is that of a pass over rows labelled so. What the sums
        cannot do is leave a class out: the Gram is over all rows (design/0004-pruning.md); see
        `Model.among` for a choice among some classes.

        Parameters
        ----------
        names : the new label of each old one; labels that are not named stay as they are

        Raises
        ------
        ParameterError
            If there are no classes, if the sums are by bit, or if a label is not one of theirs.
        """
        if not isinstance(self.sums.targets, ClassSums):
            kind = "values" if self.labels is None else "the bits of an agreed code"
            raise ParameterError(f"these statistics hold sums of {kind}, which have no labels")
        known = self.sums.targets.labels.tolist()
        unknown = [label for label in names if label not in known]
        if unknown:
            raise ParameterError(f"there is no label {unknown[0]!r} to rename; there are {known}")
        if len({isinstance(names.get(label, label), str) for label in known}) > 1:
            raise ParameterError("the new labels are numbers and strings; give all of one kind")

        def renamed(targets: ClassSums) -> ClassSums:
            labels = [names.get(label, label) for label in targets.labels.tolist()]
            return targets.relabelled(as_labels(np.array(labels))) if labels else targets

        return replace(self, sums=self.sums.retargeted(renamed))

    def with_targets(self, other: "Statistics") -> "Statistics":
        """Give the statistics of our targets and then those of `other`, of the same rows.

        Targets that were forgotten, or come later, take a pass of their own over the same rows with
        the same map and seed; one solve then serves all targets.

        Raises
        ------
        MergeError
            Unless both hold values of the same rows, summed with the same map and steps.
        """
        ours, theirs = self.encoder.calibration, other.encoder.calibration
        alike = replace(
            other.encoder,
            calibration=replace(
                theirs, target_shift=ours.target_shift, target_step=ours.target_step
            ),
        )
        self._check_alike(
            replace(other, encoder=alike), "sum the same source with the same map and seed"
        )
        if not self.ledger.same_rows(other.ledger):
            raise MergeError("the two sides have counted different rows, so they cannot be joined")
        both = replace(
            ours,
            target_shift=np.concatenate((ours.target_shift, theirs.target_shift)),
            target_step=np.concatenate((ours.target_step, theirs.target_step)),
        )
        encoder = replace(self.encoder, calibration=both)
        sums: Any = self.sums
        return replace(self, encoder=encoder, sums=sums.beside(other.sums))

    def select(self, picks) -> "Statistics":
        """Give the statistics of some features alone, as if the map had no others.

        ``(a + b).select(p)`` is ``a.select(p) + b.select(p)``, to the last byte.

        Parameters
        ----------
        picks : (n,) places of the features to keep, none twice

        Raises
        ------
        ParameterError
            If there is no such feature, or one is named twice.
        """
        picks = np.asarray(picks)
        width = self.sums.n_components
        right = picks.ndim == 1 and picks.dtype.kind in "iu" and picks.size > 0
        if not right or picks.min() < 0 or picks.max() >= width:
            raise ParameterError(f"picks must be places of features from 0 to {width - 1}")
        if len(np.unique(picks)) < len(picks):
            raise ParameterError("picks names a feature twice")
        picks = picks.astype(np.int64)
        return replace(self, encoder=self.encoder.select(picks), sums=self.sums.select(picks))

    def prune(
        self, n_components: int, alpha: float | None = None, codes=None, *, random_state=0
    ) -> "Statistics":
        """Give the statistics of the most useful features alone.

        From none, the feature is added that lowers the penalised training loss, summed over the
        outputs, the most (forward selection; `streamrf.solving.pruning`). Others prune alike by
        ``other.select(pruned.picks)``, so that they can be added.

        Parameters
        ----------
        n_components : features to keep
        alpha : penalty of the loss; None means the best by generalised cross-validation, `path`
        codes, random_state : outputs that the loss is over, see `solve`
        """
        n_components = check_kept(n_components, self.sums.n_components)
        book = self.book(codes, random_state)
        normal = self._solvable(book)
        if alpha is None:
            alpha = self.path(None, codes, random_state=random_state).best_alpha()
        check_alpha(alpha)
        return self.select(most_useful(normal, n_components, float(alpha), book is None))

    @property
    def picks(self) -> np.ndarray:
        """Places in the map of the features that are summed, int64 (n_components,)."""
        return self.encoder.places

    def normal(self, matrix: np.ndarray | None = None) -> Normal:
        """Give the normal equations, for code words `matrix` (n_classes, n_bits) of the classes."""
        return self._normal(self.sums, matrix)

    def _normal(self, sums, matrix):
        """Give the normal equations of sums, ours or those of a fold."""
        calibration, targets = self.encoder.calibration, sums.targets
        if matrix is not None and isinstance(targets, ClassSums):
            matrix = matrix[find_labels(self.sums.targets.labels, targets.labels)[0]]
        moments, totals = targets.moments(matrix, calibration.root_scale)
        root = np.sqrt(calibration.mean_weight or 1.0)
        return Normal(
            sums.gram.totals,
            targets.feature_totals,
            targets.total,
            moments,
            totals,
            calibration.step * root,
            targets.squares_of(matrix, calibration.root_scale),
        )

    @property
    def weight(self) -> float:
        """Sum of the rows' weights; `n_rows` where they carry none."""
        calibration = self.encoder.calibration
        unit = (calibration.mean_weight or 1.0) / calibration.root_scale**2
        return self.sums.targets.total * unit

    @property
    def rounding_alpha(self) -> float:
        """The ridge penalty that rounding the features amounts to, in the unit of `alpha`.

        ``n_rows mean(step^2) / 12``, times the mean weight: an `alpha` far below it has no effect.
        0 with ``precision="float64"``.
        """
        calibration = self.encoder.calibration
        n_rows: float = self.n_rows
        if self.sums.is_scaled:
            n_rows = self.weight / (calibration.mean_weight or 1.0)
        return calibration.noise_alpha(n_rows)

    def rounding_advice(self, alpha) -> str | None:
        """Return a sentence that says what to do where rounding is the binding penalty, or None.

        Parameters
        ----------
        alpha : float or (n_outputs,) floats, as chosen
        """
        least, noise = float(np.min(alpha)), self.rounding_alpha
        if least >= noise:
            return None
        return (
            f"alpha={least:.3g} is below {noise:.3g}, the penalty that the rounding of the "
            f"features amounts to, so the rounding decides; {self.encoder.calibration.advice()}"
        )

    def with_totals(self, totals: str) -> "Statistics":
        """Give the same sums in "float64" or "int32" totals, see `accumulate`.

        Raises
        ------
        ParameterError
            If they are not whole numbers below 2^31, or in folds.
        """
        return replace(self, sums=self.sums.with_totals(totals))

    def solve(
        self,
        alpha=1.0,
        codes=None,
        *,
        uncertainty: bool = False,
        overwrite: bool = False,
        random_state=0,
    ) -> Model:
        """Solve for one penalty, or for one for each output.

        Parameters
        ----------
        alpha : float, as in `sklearn.linear_model.Ridge`, or (n_outputs,) floats, one for each
            target or bit of the code, at one factorisation for each value; the intercept is not
            penalised
        codes : target codes of the classes; None means one-vs-rest, or the bits summed
        uncertainty : keep the packed factor in the model, for the deviations of its predictions
            and the variances of its coefficients; regression only. As large as the Gram, and four
            times the cost of the solve
        overwrite : factor in the memory of the sums, which are lost: half the memory. Only for one
            alpha, without uncertainty or folds
        random_state : int, seed of the code book, where `codes` has none

        Returns
        -------
        Model
        """
        book = self.book(codes, random_state)
        if overwrite and (uncertainty or np.ndim(alpha) or self.n_folds):
            raise ParameterError("overwrite=True is for one alpha, without uncertainty or folds")
        if uncertainty:
            return self._solve_with_posterior(alpha, book)
        if np.ndim(alpha) == 0:
            normal = self._solvable(book)
            check_alpha(alpha)
            work = self.sums.gram.surrender().view(normal.factor_dtype) if overwrite else None
            with self._computing():
                v, b = normal.ridge(alpha, work)
            return self._model(float(alpha), v, b, book, normal)
        return self._solve_each(np.asarray(alpha), book)

    def _solve_with_posterior(self, alpha, book):
        """Solve for one penalty and keep the factor."""
        if book is not None:
            raise ParameterError(
                "uncertainty=True is for values; of classes, predict_proba tells how sure it is"
            )
        if np.ndim(alpha):
            raise ParameterError("uncertainty=True needs one alpha, as one factor serves all")
        normal = self._solvable(book)
        with self._computing():
            factor = normal.factored(alpha, np.empty(normal.gram.shape))
            v, b = normal.solved(factor)
            posterior = Posterior.of(
                normal,
                float(alpha),
                factor,
                v,
                n_rows=self.n_rows,
                weight=self.weight,
                unit=self._square_unit(book),
                root_scale=self.encoder.calibration.root_scale,
            )
        return replace(self._model(float(alpha), v, b, book, normal), posterior=posterior)

    def _solve_each(self, alphas, book):
        """Solve for one penalty for each output."""
        normal = self._solvable(book)
        if alphas.shape != normal.totals.shape:
            raise ParameterError(
                f"alpha must be a number, or one for each of the {len(normal.totals)} outputs, of "
                f"at least 0, got {alphas.tolist()!r}"
            )
        v, b = np.empty_like(normal.moments), np.empty_like(normal.totals)
        with self._computing():
            for alpha in np.unique(alphas):
                which = np.flatnonzero(alphas == alpha)
                check_alpha(alpha.item())
                v[which], b[which] = normal.outputs(which).ridge(alpha.item())
        return self._model(alphas.astype(np.float64), v, b, book, normal)

    def path(self, alphas=None, codes=None, *, random_state=0) -> Path:
        """Tell many penalties apart by what the sums know of each; no data, no coefficients.

        One reduction of the Gram serves all penalties: ten of them, or a hundred, cost about as
        much as six calls of `solve`. Needs a full matrix of n_components^2 numbers for a while.

        Parameters
        ----------
        alphas : penalties; None means nine decades that suit the size of the features
        codes, random_state : see `solve`

        Returns
        -------
        Path

        Raises
        ------
        SolveError
            If none of the penalties factors.
        """
        book = self.book(codes, random_state)
        normal = self._solvable(book)
        alphas = self.alpha_grid() if alphas is None else alphas
        solve = functools.partial(self.solve, codes=codes, random_state=random_state)
        with self._computing():
            return trace(normal, alphas, self.n_rows, self.weight, self._square_unit(book), solve)

    def cross_validate(self, alphas=None, codes=None, *, random_state=0) -> CrossValidation:
        """Give the exact K-fold mean squared errors of many penalties; no data is read again.

        Each fold costs about as much as six calls of `solve`, for any number of penalties.

        Parameters
        ----------
        alphas, codes, random_state : see `path`

        Returns
        -------
        CrossValidation

        Raises
        ------
        ParameterError
            If the sums are not kept in folds.
        """
        if not isinstance(self.sums, FoldedSums):
            raise ParameterError(
                "these statistics keep no folds; accumulate(..., folds=5) does, and path() gives "
                "generalised cross-validation without"
            )
        book = self.book(codes, random_state)
        whole = self._solvable(book)
        matrix = None if book is None else book.matrix
        folds = [self._normal(part, matrix) for part in self.sums.parts]
        alphas = self.alpha_grid() if alphas is None else alphas
        weight_unit = self.weight / whole.weight
        unit = self._square_unit(book) / weight_unit
        solve = functools.partial(self.solve, codes=codes, random_state=random_state)
        with self._computing():
            return cross_validate(whole, folds, alphas, weight_unit, unit, solve)

    def _square_unit(self, book):
        """Give what a sum of squares of 1 is worth, for each output."""
        calibration = self.encoder.calibration
        unit = np.ones(book.n_bits) if book is not None else calibration.target_step**2
        return unit * (calibration.mean_weight or 1.0)

    def alpha_grid(self) -> np.ndarray:
        """Give penalties that suit the size of the features, `RELATIVE_ALPHAS` of it."""
        return RELATIVE_ALPHAS * (self.alpha_scale() or 1.0)

    def _solvable(self, book):
        """Give the normal equations of a book, or of the values."""
        if self.n_rows < 2:
            raise DataError(f"a model needs at least 2 rows, got n_samples = {self.n_rows}")
        return self.normal(None if book is None else book.matrix)

    def _computing(self):
        narrow = self.sums.n_components <= ONE_THREAD_WIDTH
        return computing(1 if narrow else None)

    def book(self, codes=None, random_state=0) -> CodeBook | None:
        """Give the code book to solve for."""
        targets = self.sums.targets
        if targets.labels is None:
            if codes is not None:
                raise ParameterError("codes are for classes; these statistics hold target values")
            return None
        if isinstance(targets, BitSums):
            n_bits, wanted = targets.matrix.shape[1], getattr(codes, "n_bits", None)
            if wanted not in (None, n_bits):
                raise ParameterError(
                    f"these are sums of the {n_bits} bits of a code agreed before the pass, not of "
                    f"{wanted}; leave codes out to take those"
                )
            decode = getattr(codes, "decode", "euclidean")
            if decode == "discriminant":
                raise ParameterError(
                    "decode='discriminant' needs sums by class; these are sums by bit of a code "
                    "agreed before the pass, so leave it out, or sum without codes"
                )
            return CodeBook(targets.matrix, decode)
        if len(targets.labels) < 2:
            raise DataError(
                f"a classifier needs at least two classes, got 1 class: {targets.labels.tolist()}"
            )
        codes = OneVsRest() if codes is None else codes
        return codes.book(len(targets.labels), random_state=random_state)

    def models(self, alphas, book) -> list[Model]:
        """Solve for each penalty; one that does not factor is left out."""
        normal = self._solvable(book)
        with self._computing():
            solutions = list(normal.path(alphas))
        return [self._model(float(alpha), v, b, book, normal) for alpha, v, b in solutions]

    def _model(self, alpha, v, b, book, normal):
        calibration = self.encoder.calibration
        b = b * calibration.root_scale
        if book is None:
            v = v * calibration.target_step[:, np.newaxis]
            b = b * calibration.target_step + calibration.target_shift
        elif book.decode == "discriminant":
            targets = self.sums.targets
            assert isinstance(targets, ClassSums)  # see `book`
            with self._computing():
                means = b + targets.class_means() @ v.T * calibration.root_scale
                scatter = normal.scatter(alpha, v)
                book = book.learnt(means, scatter, targets.weights / calibration.root_scale**2)
        return Model(self.encoder, v, b, self.labels, book, alpha, self.n_rows)

    def alpha_scale(self) -> float:
        """Give the mean squared norm of a centred feature, which a relative alpha refers to."""
        n_classes = 0 if self.labels is None else len(self.labels)
        return self.normal(np.ones((n_classes, 1))).mean_diagonal()

    def save(self, path: str | os.PathLike) -> None:
        """Write the statistics to an HDF5 file, atomically."""
        storage.write(path, KIND, self.to_tree())

    def to_tree(self) -> dict:
        """Give the statistics as a tree."""
        return {
            "encoder": self.encoder.to_tree(),
            "sums": self.sums.to_tree(),
            "ledger": self.ledger.to_tree(),
            "n_skipped": self.n_skipped,
        }

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "Statistics":
        """Rebuild from `to_tree`."""
        fields = Fields.of(tree)
        encoder = Encoder.from_tree(fields.tree("encoder"))
        calibration = encoder.calibration
        sums = rebuilt(fields.tree("sums"), encoder.n_components, calibration.exact)
        ledger = Ledger.from_tree(fields.tree("ledger"))
        n_skipped = fields.integer("n_skipped")
        fields.end()
        n_targets = 0 if sums.targets.labels is not None else len(sums.targets.sums)
        if n_targets != len(calibration.target_shift):
            raise fields.wrong("sums", "and the calibration are for different targets")
        if sums.n_rows + n_skipped > ledger.n_rows:
            raise fields.wrong("ledger", f"has fewer rows than the {sums.n_rows} summed")
        return cls(encoder, sums, ledger, n_skipped)


def load_statistics(path: str | os.PathLike) -> Statistics:
    """Read statistics that `Statistics.save` wrote.

    Raises
    ------
    FormatError
        If the file is damaged, of another kind or of a newer version.
    """
    tree = storage.read(path, KIND)
    with loading(path):
        return Statistics.from_tree(Fields(tree, os.fspath(path)))
