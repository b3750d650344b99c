"""What can be asked of statistics: sizes, penalties, models."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamrf.errors import DataError, ParameterError
from streamrf.jit.arrays import Array, Floats, Indices
from streamrf.kernels import check_weights
from streamrf.models import Codes, Model, OneVsRest, PrincipalComponents, Seed, watched
from streamrf.preprocessing import Encoder, Moments
from streamrf.solving import BlockWeights, CrossValidation, Normal, Path, as_alphas
from streamrf.sources import ClassWeight, Ledger, check_named, class_factors
from streamrf.statistics.labelled import ClassSums
from streamrf.statistics.ridge import (
    Alphas,
    RidgeProblem,
    checked_weight,
    effective_rows,
    normal_equations,
    total_weight,
)
from streamrf.statistics.sums import AbstractSums
from streamrf.statistics.unlabelled import alignment, feature_means, principal_components


@dataclass(frozen=True)
class Questions:
    """What sums of rows, and how they came to be, can answer; see `Statistics`."""

    encoder: Encoder
    sums: AbstractSums
    ledger: Ledger
    n_skipped: int = 0
    moments: Moments | None = None
    n_too_long: int = 0
    n_unseen: int = 0

    @property
    def gram(self) -> Array:
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
    def unfair_columns(self) -> Indices:
        """Columns that the calibration rows did not show as they are, see `Moments`; int64."""
        if self.moments is None:
            return np.empty(0, dtype=np.int64)
        return self.moments.unfair_columns()

    @property
    def labels(self) -> Array | None:
        """Class labels, sorted; None for regression."""
        return self.sums.targets.labels

    @property
    def class_sums(self) -> Floats:
        """Sums of features by class, or by bit or target: float64 (n_outputs, n_components)."""
        return self.sums.targets.sums

    @property
    def weight(self) -> float:
        """Sum of the rows' weights; `n_rows` where they carry none."""
        return total_weight(self.encoder, self.sums)

    @property
    def is_scaled(self) -> bool:
        """Whether rows were scaled, so that the sums are exact to rounding only."""
        return self.sums.is_scaled

    @property
    def columns(self) -> Indices:
        """Features of the map that are summed, int64 (n_components,)."""
        return self.encoder.columns

    @property
    def rounding_alpha(self) -> float:
        """The ridge penalty that rounding the features amounts to, in the unit of `alpha`.

        ``n_rows mean(step^2) / 12``, times the mean weight, of the rows of weight above 0: an
        `alpha` far below it has no effect.
        0 with ``precision="float64"``.
        """
        calibration = self.encoder.calibration
        return calibration.noise_alpha(effective_rows(self.encoder, self.sums))

    def rounding_advice(
        self, alpha: ArrayLike, block_weights: ArrayLike | None = None
    ) -> str | None:
        """Return what to do where the rounding is the binding penalty, as a sentence, or None.

        Parameters
        ----------
        alpha : float or (n_outputs,) floats, as chosen
        block_weights : (n_blocks,) of the model, whose penalty of a block is ``alpha / weight``;
            None means 1 for each
        """
        given: Any = [alpha] if np.ndim(alpha) == 0 else alpha
        smallest, noise, named = float(as_alphas(given).min()), self.rounding_alpha, ""
        if block_weights is not None:
            n_blocks = int(self.encoder.features.blocks.max()) + 1
            weights = check_weights("block_weights", block_weights, n_blocks)
            greatest = weights[self.encoder.blocks].max()
            smallest = smallest / greatest if greatest > 0 else np.inf
            named = f" (divided by the greatest block weight, {greatest:.3g})"
        if smallest >= noise:
            return None
        return (
            f"alpha={smallest:.3g}{named} is below {noise:.3g}, the penalty that the rounding of "
            "the features amounts to, so the rounding decides (errors on rows held out include "
            f"this) and a smaller alpha changes little; {self.encoder.calibration.advice()}"
        )

    def normal(self, matrix: Floats | None = None) -> Normal:
        """Return the normal equations, for code words `matrix` (n_classes, n_bits) of classes.

        DataError where no row weighs anything.
        """
        checked_weight(self.encoder, self.sums)
        n_classes = 0 if self.labels is None else len(self.labels)
        if matrix is not None and (np.ndim(matrix) != 2 or len(matrix) != n_classes):
            raise ParameterError(
                f"matrix must be code words of the {n_classes} classes, (n_classes, n_bits), got "
                f"{matrix!r}"
            )
        return normal_equations(self.encoder, self.sums, matrix)

    def alpha_scale(self) -> float:
        """Return the mean squared norm of a centred feature, which a relative alpha refers to."""
        if not self.weight > 0:
            raise DataError("there are no rows, or all their weights are zero: nothing to learn")
        return self.normal().mean_diagonal()

    def alpha_grid(self) -> Floats:
        """Return 17 penalties, over 13 decades, that suit the size of the features."""
        return self.normal().alpha_grid()

    def problem(
        self, codes: Codes = None, random_state: Seed = 0, class_weight: ClassWeight | None = None
    ) -> RidgeProblem:
        """Return what all solves for some outputs share; the parameters are those of `solve`."""
        tried = self.encoder.tried or {}
        if codes is None and "decode" in tried and isinstance(self.sums.targets, ClassSums):
            codes = OneVsRest(tried["decode"])  # features were chosen for it
        book = self.sums.targets.book(codes, random_state)
        factors = None
        if class_weight is not None:
            if book is None or self.labels is None:
                raise ParameterError("class_weight (--class-weight) is for classes, not for values")
            book.decoder.check_weighable()
            weights = self.sums.targets.moments(np.eye(len(self.labels)), 1.0)[1]
            factors = class_factors(class_weight, self.labels, weights)
            check_named(class_weight, self.labels, "the rows summed")
            if not factors.any():
                raise DataError("all weights of classes are zero (class_weight): nothing to learn")
        return RidgeProblem(
            self.encoder,
            self.sums,
            book,
            ledger=self.ledger.nameless(),
            class_factors=factors,
            moments=watched(self.moments),
        )

    def solve(
        self,
        alpha: ArrayLike = 1.0,
        codes: Codes = None,
        *,
        block_weights: BlockWeights | None = None,
        uncertainty: bool = False,
        overwrite: bool = False,
        random_state: Seed = 0,
        class_weight: ClassWeight | None = None,
    ) -> Model:
        """Solve for one penalty, or for one for each output.

        Parameters
        ----------
        alpha : float, as in `sklearn.linear_model.Ridge`, or (n_outputs,) floats, one for each
            target or bit of the code, at one factorisation for each value; the intercept is not
            penalised
        codes : target codes of the classes; None means one-vs-rest, or the bits summed; decoded by
            discriminants if the features were chosen by these
        block_weights : what the kernels of the map's blocks (`Concatenate`: its maps;
            `RandomMaclaurin`: its degrees from 0 on) are multiplied by: (n_blocks,) numbers, 0
            leaves one out; a dot-product kernel that a `RandomMaclaurin` is to be for; or "auto",
            the best by coordinate search on the folds, else by the evidence (some 40
            factorisations a fold). Its penalty is ``alpha / weight``, so with "auto" `alpha` is
            but the unit of the weights. None means 1 for each
        uncertainty : keep the packed factor in the model, for `Model.novelty` and, of values, the
            deviations of its predictions and the variances of its coefficients. As large as the
            Gram, and four times the cost of the solve
        overwrite : factor in the memory of the sums, which are lost: half the memory. Only for one
            alpha, without uncertainty or folds. The solution is the same, but not refined where
            alpha leaves it fewer than 5 digits
        random_state : int, seed of the code book, where `codes` has none
        class_weight : dict of labels to factors or "balanced", for codes of decode="discriminant":
            the shares of the classes count so many times, exactly. Other decoders need rows that
            were weighed in the pass (`accumulate`), since one Gram is summed for all classes
        """
        problem = self.problem(codes, random_state, class_weight).weighted(block_weights, alpha)
        return problem.solve(alpha, uncertainty=uncertainty, overwrite=overwrite)

    def path(
        self, alphas: Alphas = None, codes: Codes = None, *, random_state: Seed = 0
    ) -> Path[Model]:
        """Compare many penalties by what the sums know of each; no data, no coefficients.

        One reduction of the Gram serves all penalties: ten of them, or a hundred, cost about as
        much as six calls of `solve`. Needs a full matrix of n_components^2 numbers for a while.

        Parameters
        ----------
        alphas : penalties; None means 17, over 13 decades, that suit the size of the features
        codes, random_state : see `solve`
        """
        return self.problem(codes, random_state).path(alphas)

    def cross_validate(
        self, alphas: Alphas = None, codes: Codes = None, *, random_state: Seed = 0
    ) -> CrossValidation[Model]:
        """Return the exact K-fold mean squared errors of many penalties; no data is read again.

        Each fold costs about as much as six calls of `solve`, for any number of penalties. The
        parameters are those of `path`; ParameterError if the sums are not kept in folds.
        """
        return self.problem(codes, random_state).cross_validate(alphas)

    @property
    def means(self) -> Floats:
        """Weighted means of the features in their own units, float64 (n_components,)."""
        return feature_means(self.encoder, self.sums)

    def principal_components(self, k: int) -> PrincipalComponents:
        """Return the first k principal components of the features: kernel PCA, from the sums.

        They are the eigenvectors of the centred Gram, with variances over ``weight - 1``, as
        `sklearn.decomposition.PCA` finds them in the features; the entry of largest size of each is
        above 0. What they transform is read in a stream. Needs two full matrices of n_components^2
        numbers for a while. ParameterError unless k is from 1 to the features summed, and to the
        rows.
        """
        return principal_components(self.encoder, self.sums, k)

    def alignment(self) -> float | Floats:
        """Return how well the kernel fits the targets, from 0 to 1, of values (n_targets,).

        The cosine ``<K, Y Y^T> / (|K| |Y Y^T|)`` of the centred kernel matrix of all rows and that
        of their classes (indicators, or bits of the code summed), or of each target.

        Notes
        -----
        Cortes, Mohri and Rostamizadeh, Algorithms for Learning Kernels Based on Centered Alignment,
        JMLR 2012. With features Z all three are norms of sums: of ``Z^T Y``, of the Gram, and of
        ``Y^T Y``.
        """
        return alignment(self.encoder, self.sums)


def rounding_note(statistics: Questions, model: Model, tried: Iterable[float] = ()) -> str | None:
    """Return `Questions.rounding_advice` on a model.

    None where smaller penalties were `tried`, or are in the model's history, and were worse.
    """
    alpha = float(np.min(model.alpha))
    if alpha > min([*tried, *dict(model.history)], default=alpha):
        return None
    return statistics.rounding_advice(model.alpha, model.block_weights)
