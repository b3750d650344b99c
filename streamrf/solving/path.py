"""Many penalties at once: what each gives on the rows summed, and how to choose one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from streamrf.errors import ParameterError, SolveError
from streamrf.jit.arrays import Floats, Mask
from streamrf.jit.threads import computing
from streamrf.solving.normal import Normal, check_alpha
from streamrf.solving.reduced import Fit, Reduced
from streamrf.solving.spectrum import LowRank

Model = TypeVar("Model")  # what `solve` returns; models live on a floor above
CRITERIA = ("gcv", "evidence")
TINY = 1e-100  # of the greatest deviation of a target, below which one counts as constant
# Share of the degrees of freedom: its rounding errors were 4e-6 at a penalty of 1e-11.
MIN_LEFT = 1e-4
FEW = 8  # times as many features as rows, from which on `LowRank` is quicker than `Reduced`


@dataclass(frozen=True)
class Path(Generic[Model]):
    """What every penalty gives, found from the sums alone.

    A penalty that does not factor in float64 has NaN for `dof` and `residuals`, an infinite `gcv`
    and an evidence of minus infinity. An output that never varies, such as the bit of a class
    without rows, has residuals and a log evidence of 0 at any other: it has no say in the best.

    Parameters
    ----------
    alphas : (n_alphas,) float64, in the order asked for
    dof : (n_alphas,) float64, effective degrees of freedom: the trace of the hat matrix, the
        unpenalised intercept included
    residuals : (n_alphas, n_outputs) float64, (weighted) sums of squared residuals of the rows
        summed, in units of the targets; outputs are targets or bits of the code
    log_evidences : (n_alphas, n_outputs) float64, see `log_evidence`
    n_rows : rows of weight above 0; of faded sums what is left of them, a float
    weight : float, sum of the rows' weights; `n_rows` where they carry none
    shares : (n_outputs,) float64, what the errors of each output count times in the choice of one
        penalty for all: see `target_shares`; 1 for bits
    solve : ``solve(alpha)`` gives the model of a penalty or of one for each output
    """

    alphas: Floats
    dof: Floats
    residuals: Floats
    log_evidences: Floats
    n_rows: float
    weight: float
    shares: Floats
    solve: Callable[..., Model] = field(repr=False, compare=False)

    @property
    def gcvs(self) -> Floats:
        """Generalised cross-validation by output, ``(RSS / weight) / (1 - dof / n_rows)^2``.

        An estimate of the mean squared error on new rows (Golub, Heath and Wahba, Technometrics
        21(2), 1979). Float64 (n_alphas, n_outputs); infinite where less than a ten-thousandth of
        the degrees of freedom is left, as with more features than rows and tiny penalties.
        """
        left = 1 - self.dof / self.n_rows
        error = np.full(self.residuals.shape, np.inf)
        usable = left > MIN_LEFT  # NaN is not
        error[usable] = self.residuals[usable] / self.weight / left[usable, np.newaxis] ** 2
        return error

    @property
    def gcv(self) -> Floats:
        """Mean of `gcvs` over the outputs, float64 (n_alphas,).

        Several targets count relative to their variances, in units of the mean of these.
        """
        return (self.gcvs * self.shares).mean(axis=1)

    @property
    def log_evidence(self) -> Floats:
        """Log marginal likelihood summed over the outputs, float64 (n_alphas,).

        Of the model ``y_i ~ N(b + <w, z_i>, s2 / weight_i)``, ``w ~ N(0, s2 / alpha I)``, any b
        alike, each output with its own s2 at the maximum. Up to ``sum log(weight_i) / 2``.
        """
        return self.log_evidences.sum(axis=1)

    def best_alpha(self, criterion: str = "gcv") -> float:
        """Return the penalty of least `gcv` or greatest `log_evidence` ("evidence").

        Several targets count relative to their variances, whatever their units. The greatest of
        several penalties that are alike. SolveError if no penalty has a finite one.
        """
        gcvs = self.gcvs * self.shares
        scores = _scores(gcvs, self.log_evidences, criterion).sum(axis=1, keepdims=True)
        return float(self._least(scores, criterion)[0])

    def best_alphas(self, criterion: str = "gcv") -> Floats:
        """Return the best penalty of each output by itself, float64 (n_outputs,).

        For an output that never varies all penalties are alike, and it is the greatest.
        """
        return self._least(_scores(self.gcvs, self.log_evidences, criterion), criterion)

    def model(self, criterion: str = "gcv") -> Model:
        """Return the model of `best_alpha`; ``path.solve(alpha)`` gives that of any other."""
        return self.solve(self.best_alpha(criterion))

    def _least(self, scores: Floats, criterion: str) -> Floats:
        """Return the greatest penalty of least score by column; SolveError if none is finite."""
        least = scores.min(axis=0)
        if np.isposinf(least).any():
            raise SolveError(
                f"the {criterion} of all {len(scores)} penalties is infinite: they do not factor, "
                "or leave the rows no degrees of freedom; give greater ones"
            )
        return np.where(scores == least, self.alphas[:, np.newaxis], -np.inf).max(axis=0)


def _scores(gcvs: Floats, evidences: Floats, criterion: str) -> Floats:
    """Return a table whose least entries are best."""
    if criterion not in CRITERIA:
        raise ParameterError(f"criterion must be one of {CRITERIA}, got {criterion!r}")
    return gcvs if criterion == "gcv" else -evidences


def trace(
    normal: Normal,
    alphas: Iterable[float],
    n_rows: float,
    weight: float,
    unit: Floats,
    shares: Floats,
    solve: Callable[..., Model],
    rank: int,
) -> Path[Model]:
    """Follow the penalties; raise SolveError if none of them factors.

    Parameters
    ----------
    normal : of all rows, with squares
    alphas, n_rows, weight, shares, solve : see `Path`
    unit : (n_outputs,), what a sum of squares of 1 is worth
    rank : rows that weigh, of which there may be far fewer than features
    """
    table = as_alphas(alphas)
    is_low = is_low_rank(rank, len(normal.step))
    reduced = LowRank(normal, rank) if is_low else Reduced(normal)
    dof = np.full(len(table), np.nan)
    residuals = np.full((len(table), len(unit)), np.nan)
    evidences = np.full((len(table), len(unit)), -np.inf)
    varies = normal.varying()
    squares = np.where(varies, normal.centred_squares(), 0.0)
    with computing(1):  # products of 64 x 64 blocks: threads would only wait for each other
        for i, alpha in enumerate(table):
            try:
                fit = reduced.fit(alpha)
            except SolveError:
                continue
            dof[i] = fit.dof + 1
            residuals[i] = np.maximum(squares - fit.explained - alpha * fit.norms, 0.0) * unit
            losses = np.maximum(squares - fit.explained, 0.0) * unit
            evidences[i] = log_evidence(fit, losses, varies, n_rows, weight, len(normal.step))
    if np.isnan(dof).all():
        raise SolveError(
            f"none of the {len(table)} penalties factors, the greatest is {table.max():.3g}; "
            "give greater ones"
        )
    return Path(table, dof, residuals, evidences, n_rows, weight, shares, solve)


def target_shares(deviations: Floats) -> Floats:
    """Return what squared errors of each target count times, so that units have no say.

    Errors are then relative to the target's variance, in units of the mean of variances; 1 for
    targets that never vary. From and to (n_targets,) float64.
    """
    spread = deviations / (deviations.max(initial=0.0) or 1.0)
    mean = np.square(spread).mean()
    return np.where(spread > TINY, mean / np.square(np.maximum(spread, TINY)), 1.0)


def is_low_rank(n_rows: int, width: int) -> bool:
    """Return whether there are so few rows that the Gram has few eigenvalues to find."""
    return FEW * n_rows < width


def as_alphas(alphas: Iterable[float]) -> Floats:
    """Return penalties as float64 (n_alphas,); raise ParameterError for none."""
    if not isinstance(alphas, Iterable) or (isinstance(alphas, np.ndarray) and not alphas.ndim):
        raise ParameterError(f"alphas must be a list of penalties, got {alphas!r}")
    table = list(alphas)
    for alpha in table:
        check_alpha(alpha)
    if not table:
        raise ParameterError("alphas is empty; expected one penalty or more")
    return np.array(table, dtype=np.float64)


def log_evidence(
    fit: Fit, losses: Floats, varies: Mask, n_rows: float, weight: float, n_components: int
) -> Floats:
    """Return the log marginal likelihood of each output at the best noise variance.

    The centred targets are ``N(0, s2 (I + Z Z^T / alpha))`` on the ``n_rows - 1`` directions that
    the intercept leaves, and ``s2 = loss / (n_rows - 1)`` is the best. 0 for targets that never
    vary, whose density at no noise is infinite whatever the penalty.
    """
    if fit.alpha == 0:  # no prior, no evidence
        return np.full(len(losses), -np.inf)
    free = n_rows - 1
    with np.errstate(divide="ignore"):
        densities = free * (np.log(2 * np.pi * losses / free) + 1)
    spread = fit.log_determinant - n_components * np.log(fit.alpha) + np.log(weight)
    return np.where(varies, -0.5 * (densities + spread), 0.0)
