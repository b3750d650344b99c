"""Sums to models: what can be solved from the sums of a pass, for one choice of outputs."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from streamrf.errors import DataError, ParameterError, check_flag
from streamrf.jit.arrays import Array, Floats, Indices
from streamrf.jit.threads import computing
from streamrf.kernels import Kernel, check_weights
from streamrf.models import CodeBook, Model
from streamrf.preprocessing import MIN_WEIGHT, Encoder, Moments
from streamrf.solving import (
    BlockWeights,
    CrossValidation,
    Family,
    Normal,
    Path,
    check_alpha,
    check_kept,
    cross_validate,
    evidence,
    left_out,
    most_useful,
    posterior,
    searched_weights,
    target_shares,
    trace,
)
from streamrf.sources import Ledger, find_labels
from streamrf.statistics.sums import AbstractSums

# Factors up to this width take one thread: a millisecond or so alone, but up to 0.4 s when the
# threads of BLAS wait for each other on a busy machine.
ONE_THREAD_WIDTH = 1024
Alphas = Iterable[float] | None
Solutions = Iterable[tuple[float, Floats, Floats]]  # a penalty, v and b


def normal_equations(
    encoder: Encoder,
    sums: AbstractSums,
    matrix: Floats | None = None,
    block_weights: Floats | None = None,
) -> Normal:
    """Return the normal equations of sums.

    Parameters
    ----------
    encoder : of the features summed
    sums : in folds or not
    matrix : (n_classes, n_bits), code words of the classes; None asks for no outputs by class
    block_weights : (n_blocks,), of the kernels of the map's blocks; None means those of the map
    """
    calibration, targets = encoder.calibration, sums.targets
    if matrix is None:
        matrix = np.empty((0 if targets.labels is None else len(targets.labels), 0))
    moments, totals = targets.moments(matrix, calibration.root_scale)
    step = calibration.step * np.sqrt(calibration.mean_weight or 1.0)
    return Normal(
        sums.gram.totals,
        targets.feature_totals,
        targets.total,
        moments,
        totals,
        step * encoder.block_scales(block_weights),
        targets.squares_of(matrix, calibration.root_scale),
        sums.exact,
    )


def total_weight(encoder: Encoder, sums: AbstractSums) -> float:
    """Return the sum of the rows' weights; the number of rows where they carry none."""
    calibration = encoder.calibration
    unit = (calibration.mean_weight or 1.0) / calibration.root_scale**2
    return sums.targets.total * unit


def effective_rows(encoder: Encoder, sums: AbstractSums) -> float:
    """Return the rows of weight above 0; of faded sums (`Statistics.scale`) what is left of them.

    Faded rows weigh less because they are old, not because they are less sure: 100 rows faded to a
    half are 50. Sums of early files do not tell, and are counted by their weights.
    """
    if not np.isnan(sums.n_left):
        return sums.n_left
    return total_weight(encoder, sums) / (encoder.calibration.mean_weight or 1.0)


def checked_weight(encoder: Encoder, sums: AbstractSums) -> float:
    """Return `total_weight`; raise DataError where it is 0, or too little for floats."""
    weight = total_weight(encoder, sums)
    if not sums.targets.total or not sums.n_weighted:
        raise DataError("there are no rows, or all their weights are zero: nothing to learn from")
    if weight < MIN_WEIGHT:
        raise DataError(
            f"the rows weigh {weight:.3g} together, which is too little for floats; multiply all "
            "weights by one number and sum the rows again"
        )
    return weight


@dataclass(frozen=True)
class RidgeProblem:
    """Ridge regression of the values, or of the bits of a code, on the features summed.

    Parameters
    ----------
    encoder : how raw rows became features
    sums : of the rows, in folds or not
    book : code book of the classes, or None for values
    block_weights : (n_blocks,) weights of the kernels of the map's blocks, or None
    ledger : the rows, for the models
    class_factors : (n_classes,) that the classes' shares count times for a discriminant, or None
    moments : of the columns of the rows, for the models, or None
    """

    encoder: Encoder
    sums: AbstractSums
    book: CodeBook | None
    block_weights: Floats | None = None
    ledger: Ledger | None = None
    class_factors: Floats | None = None
    moments: Moments | None = None

    @property
    def columns(self) -> Indices:
        """Features of the map that are solved for, int64 (n_components,)."""
        return self.encoder.columns

    @property
    def alpha_scale(self) -> float:
        """Mean squared norm of a centred feature, which a relative alpha refers to."""
        sums, weights = self.sums, self.block_weights
        return normal_equations(self.encoder, sums, None, weights).mean_diagonal()

    def normal(self) -> Normal:
        """Return the normal equations; raise DataError for fewer than two rows that weigh."""
        n_rows, n_weightless = self.sums.n_rows, self.sums.n_weightless
        if n_rows:
            checked_weight(self.encoder, self.sums)
        if n_rows - n_weightless < 2:
            weightless = f", {n_weightless:,} of them of weight zero" if n_weightless else ""
            raise DataError(f"a model needs at least 2 rows, got n_samples = {n_rows}{weightless}")
        return normal_equations(self.encoder, self.sums, self._matrix, self.block_weights)

    @property
    def _matrix(self) -> Floats | None:
        return None if self.book is None else self.book.matrix

    def solve(
        self, alpha: ArrayLike = 1.0, *, uncertainty: bool = False, overwrite: bool = False
    ) -> Model:
        """Solve for one penalty, or for one for each output; see `Statistics.solve`."""
        check_flag("uncertainty", uncertainty)
        check_flag("overwrite", overwrite)
        if overwrite and (uncertainty or np.ndim(alpha) or self.sums.n_folds):
            raise ParameterError("overwrite=True is for one alpha, without uncertainty or folds")
        if uncertainty:
            return self._solve_with_posterior(alpha)
        normal = self.normal()
        if np.ndim(alpha):
            return self._solve_each(np.asarray(alpha), normal)
        one = check_alpha(alpha)
        work: Array | None = None
        if overwrite:
            work = self.sums.gram.surrender().view(normal.factor_dtype)
        with self._computing():
            v, b = normal.ridge(one, work)
        return self._model(one, v, b, normal)

    def _solve_with_posterior(self, alpha: ArrayLike) -> Model:
        """Solve for one penalty and keep the factor."""
        if np.ndim(alpha):
            raise ParameterError("uncertainty=True needs one alpha, as one factor serves all")
        normal = self.normal()
        one = check_alpha(alpha)
        with self._computing():
            factor = normal.factored(one, np.empty(normal.gram.shape))
            v, b = normal.solved(factor)
            covariance = posterior(
                normal,
                one,
                factor,
                v,
                n_rows=effective_rows(self.encoder, self.sums),
                weight=total_weight(self.encoder, self.sums),
                unit=self._square_unit(),
                root_scale=self.encoder.calibration.root_scale,
            )
        return replace(self._model(one, v, b, normal), posterior=covariance)

    def _solve_each(self, alphas: Array, normal: Normal) -> Model:
        """Solve for one penalty for each output."""
        if alphas.shape != normal.totals.shape:
            raise ParameterError(
                f"alpha must be a number, or one for each of the {len(normal.totals)} outputs, of "
                f"at least 0, got {alphas.tolist()!r}"
            )
        v, b = np.empty_like(normal.moments), np.empty_like(normal.totals)
        with self._computing():
            for alpha in np.unique(alphas):
                which = np.flatnonzero(alphas == alpha)
                v[which], b[which] = normal.outputs(which).ridge(check_alpha(alpha.item()))
        return self._model(alphas.astype(np.float64), v, b, normal)

    def models(self, alphas: Iterable[float]) -> list[Model]:
        """Solve for each penalty; one that does not factor is left out."""
        normal = self.normal()
        return self._models(normal.path(alphas), normal)

    def solver(self) -> Callable[[Iterable[float]], list[Model]]:
        """Return what solves for penalties as `Family` does, to choose one by."""
        normal = self.normal()
        family = Family(normal)
        return lambda alphas: self._models(family.solutions(alphas), normal)

    def _models(self, solutions: Solutions, normal: Normal) -> list[Model]:
        with computing():
            found = list(solutions)
        return [self._model(float(alpha), v, b, normal) for alpha, v, b in found]

    def path(self, alphas: Alphas = None) -> Path[Model]:
        """Compare penalties by what the sums know of each; see `Statistics.path`."""
        normal = self.normal()
        alphas = normal.alpha_grid() if alphas is None else alphas
        weight = total_weight(self.encoder, self.sums)
        n_rows = effective_rows(self.encoder, self.sums)
        with self._computing():
            unit, rank = self._square_unit(), self.sums.n_weighted
            shares = self._shares(normal)
            return trace(normal, alphas, n_rows, weight, unit, shares, self.solve, rank)

    def cross_validate(self, alphas: Alphas = None) -> CrossValidation[Model]:
        """Return the exact K-fold errors of many penalties; see `Statistics.cross_validate`."""
        if not self.sums.parts:
            raise ParameterError(
                "these statistics keep no folds; accumulate(..., folds=5) does, and path() gives "
                "generalised cross-validation without"
            )
        whole = self.normal()
        folds = [self._fold(part) for part in self.sums.parts]
        alphas = whole.alpha_grid() if alphas is None else alphas
        weight_unit = total_weight(self.encoder, self.sums) / whole.weight
        unit = self._square_unit() / weight_unit
        with self._computing():
            shares = self._shares(whole)
            return cross_validate(whole, folds, alphas, weight_unit, unit, shares, self.solve)

    def _fold(self, part: AbstractSums) -> Normal:
        """Return the normal equations of a fold, which may lack some of the classes."""
        matrix, labels = self._matrix, self.sums.targets.labels
        if matrix is not None and labels is not None and part.targets.labels is not None:
            index, unknown = find_labels(labels, part.targets.labels)
            matrix = np.where(unknown[:, np.newaxis], -1.0, matrix[index])
        return normal_equations(self.encoder, part, matrix, self.block_weights)

    def weighted(
        self,
        block_weights: BlockWeights | None,
        alpha: ArrayLike = 1.0,
        held: AbstractSums | None = None,
    ) -> "RidgeProblem":
        """Return the problem with other weights of the blocks' kernels, see `Statistics.solve`.

        Parameters
        ----------
        block_weights : see there; features of a block of weight 0 are left out
        alpha : penalty at which weights that are chosen are the best
        held : sums of other rows, to choose by; None means by the folds, or else by the evidence
        """
        if block_weights is None:
            return self
        blocks = self.encoder.features.blocks
        if isinstance(block_weights, str):
            if block_weights != "auto":
                raise ParameterError(
                    "block_weights must be numbers, 'auto' or a dot-product kernel, got "
                    f"{block_weights!r}"
                )
            weights = self._best_weights(alpha, held)
        elif isinstance(block_weights, Kernel):
            weights = self.encoder.features.weights_for(block_weights)
        else:
            weights = check_weights("block_weights", block_weights, int(blocks.max()) + 1)
        kept = np.flatnonzero(weights[self.encoder.blocks] > 0)
        if not len(kept):
            raise ParameterError(
                f"block_weights={block_weights!r} leave out every feature that is summed; weigh "
                "another block above 0"
            )
        problem = replace(self, block_weights=weights)
        return problem if len(kept) == self.sums.n_components else problem.select(kept)

    def _best_weights(self, alpha: ArrayLike, held: AbstractSums | None) -> Floats:
        """Return the weights that are best at a penalty."""
        blocks = self.encoder.features.blocks
        if not blocks.any():
            raise ParameterError(
                "block_weights='auto' is for maps of blocks: Concatenate([...]), or "
                f"RandomMaclaurin, whose blocks are its degrees; {self.encoder.features!r} has one"
            )
        one = check_alpha(alpha)
        if not one:
            raise ParameterError("block_weights='auto' needs an alpha above 0, the weights' unit")
        normal = self.normal()
        unit = np.ones(len(normal.totals))
        if self.book is None:
            squares = normal.centred_squares()
            unit = 1 / np.where(squares > 0, squares, 1.0)
        if held is not None:
            other = self._fold(held)
            score = left_out(lambda: [(normal, other)], unit)
        elif self.sums.parts:
            n_rows = self.sums.n_weighted
            parts = [part for part in self.sums.parts if 0 < part.n_weighted < n_rows]
            folds = [self._fold(part) for part in parts]
            score = left_out(lambda: ((normal - fold, fold) for fold in folds), unit)
        else:
            score = evidence(normal, effective_rows(self.encoder, self.sums))
        with self._computing():
            weights = searched_weights(score, normal, self.encoder.blocks)
        return one * np.pad(weights, (0, int(blocks.max()) + 1 - len(weights)))

    def select(self, columns: Indices) -> "RidgeProblem":
        """Return the problem of some of the features, by their indices among those here."""
        return replace(self, encoder=self.encoder.select(columns), sums=self.sums.select(columns))

    def prune(self, n_components: int, alpha: float | None = None) -> "RidgeProblem":
        """Return the problem of the most useful features alone; see `Statistics.prune`."""
        n_components = check_kept(n_components, self.sums.n_components)
        normal = self.normal()
        alpha = check_alpha(self.path().best_alpha() if alpha is None else alpha)
        return self.select(most_useful(normal, n_components, alpha, self.book is None))

    def _square_unit(self) -> Floats:
        """Return what a sum of squares of 1 is worth, (n_outputs,)."""
        calibration = self.encoder.calibration
        unit = calibration.target_step**2 if self.book is None else np.ones(self.book.n_bits)
        return unit * (calibration.mean_weight or 1.0)

    def _shares(self, normal: Normal) -> Floats:
        """Return what errors of each output count times where one penalty is chosen for all."""
        if self.book is not None:
            return np.ones(self.book.n_bits)
        squares = np.where(normal.varying(), normal.centred_squares(), 0.0)
        return target_shares(np.sqrt(squares) * self.encoder.calibration.target_step)

    def _computing(self) -> AbstractContextManager[int]:
        return computing(1 if self.sums.n_components <= ONE_THREAD_WIDTH else None)

    def _model(self, alpha: float | Floats, v: Floats, b: Floats, normal: Normal) -> Model:
        """Return the model of a solution, in the units of the targets."""
        calibration, book = self.encoder.calibration, self.book
        b = b * calibration.root_scale
        if book is None:
            v = v * calibration.target_step[:, np.newaxis]
            b = b * calibration.target_step + calibration.target_shift
        elif book.decoder.needs_class_sums:
            book = self._learnt(book, alpha, v, b, normal)
        if book is not None and self.class_factors is not None:
            book = replace(book, decoder=book.decoder.weighed(self.class_factors))
        labels, n_rows = self.sums.targets.labels, self.sums.n_rows
        weights = self.block_weights
        model = Model(self.encoder, v, b, labels, book, alpha, n_rows, ledger=self.ledger)
        return replace(model, block_weights=weights, moments=self.moments)

    @cached_property
    def _of_classes(self) -> tuple[Floats, Floats]:
        """Mean features of the rows of each class (n_classes, n_components), and their weights."""
        assert self.book is not None
        sums, weights = self.sums.targets.moments(np.eye(self.book.n_classes), 1.0)
        return sums / np.where(weights > 0, weights, 1.0)[:, np.newaxis], weights

    def _learnt(
        self, book: CodeBook, alpha: float | Floats, v: Floats, b: Floats, normal: Normal
    ) -> CodeBook:
        """Return the book with a decoder learnt from the outputs of the rows summed."""
        root_scale = self.encoder.calibration.root_scale
        class_means, weights = self._of_classes
        with computing(1):  # more threads would sum in another order
            means = b + class_means @ v.T * root_scale
            scatter = normal.scatter(alpha, v)
            decoder = book.decoder.learnt(means, scatter, weights / root_scale**2)
        return book.read_by(decoder)
