"""Which scaling, kernel and gamma suit some rows: successive halving on rows held out.

A prototype for `streamrf.select`: it tries the library's own maps by the library's own passes, so
what wins is what a pass would train. `grid` tries everything at one width, `tournament` begins
narrow and short and goes on with the best. Nothing depends on the clock but the seconds reported:
rounds are planned by `planned_seconds`, so the same rows and seed give the same winner.
"""

import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from streamrf.features import Craft, FeatureMap, RandomFourier, RandomMaclaurin, StructuredFourier
from streamrf.kernels import ArcCosine, Gaussian, Laplacian, Polynomial
from streamrf.solving import RELATIVE_ALPHAS
from streamrf.sources import ArraySource
from streamrf.training.holdout import Rows
from streamrf.training.passes import accumulate
from streamrf.training.selection import best, searched

SCALINGS = ("standard", "asinh", "l2", "none")  # "max" is "none" where gamma is relative
PAIRS = 2000  # of rows, whose median distance is the unit of gamma
UP_FACTOR = 8  # of compact maps
ARC_COSINE_TOLERANCE = 0.01  # of its series: of order 0 it ends slowly; polynomials have an end
HELD_SHARE = 0.25
SPLITS, RIVALS = 3, 4  # the best that noise may have put first are tried on other rows and draws
REGRESSION_NOISE = 0.02  # of a mean squared error
TIE = 0.005  # relative; errors no farther apart are alike, and the cheaper wins


@dataclass(frozen=True)
class Candidate:
    """A scaling and a kernel.

    Parameters
    ----------
    scaling : one of `SCALINGS`
    kernel : "gaussian", "laplacian", "polynomial", "arc-cosine" or "linear"
    setting : gamma in units of 1 / median (squared) distance; the degree; the order
    """

    scaling: str
    kernel: str
    setting: float

    @property
    def cost(self) -> float:
        """Seconds of featurising, relative to a structured Gaussian."""
        return {"linear": 0.5, "gaussian": 1.0, "laplacian": 2.0}.get(self.kernel, 8.0)

    def neighbours(self) -> list["Candidate"]:
        """Return the candidates next to it: half and twice the gamma, a degree more and less."""
        match self.kernel:
            case "gaussian" | "laplacian":
                settings = [self.setting / 2, self.setting * 2]
            case "polynomial":
                settings = [d for d in (self.setting - 1, self.setting + 1) if 2 <= d <= 9]
            case _:
                settings = []
        return [replace(self, setting=setting) for setting in settings]


@dataclass(frozen=True)
class Trial:
    """How a candidate fared on the rows held out.

    Parameters
    ----------
    candidate, width, n_rows : what was tried, and the rows it was fitted on
    error, mse : share of wrong labels or mean squared error; mean squared error of the outputs
    alpha : the best penalty
    seconds : that it took
    test : error on the test rows of a `Judge` that has some, which no choice looks at; else NaN
    """

    candidate: Candidate
    width: int
    n_rows: int
    error: float
    mse: float
    alpha: float
    seconds: float
    test: float = np.nan


class Scaled:
    """Rows under every scaling, learnt from the first of them, and the unit of each gamma.

    Parameters
    ----------
    X : (n, d)
    n_learnt : rows from the start that means, deviations and distances are of
    rng : np.random.Generator
    """

    def __init__(self, X: np.ndarray, n_learnt: int, rng: np.random.Generator):
        X = np.asarray(X, dtype=np.float32)
        learnt = X[:n_learnt]
        mean, deviation = learnt.mean(axis=0, dtype=np.float64), learnt.std(axis=0, dtype=float)
        self._mean, self._deviation = mean, np.where(deviation > 0, deviation, 1.0)
        self._rows: dict[str, np.ndarray] = {}
        self._units: dict[tuple[str, str], float] = {}
        self._learnt = n_learnt
        self._X = X
        self._pairs = rng.integers(0, n_learnt, (2, PAIRS))

    def transform(self, scaling: str, X: np.ndarray) -> np.ndarray:
        """Return rows X scaled, float32."""
        X = np.asarray(X, dtype=np.float32)
        if scaling in ("standard", "asinh"):
            X = ((X - self._mean) / self._deviation).astype(np.float32)
        if scaling == "asinh":
            X = np.arcsinh(X)
        if scaling == "l2":
            norms = np.linalg.norm(X, axis=1, keepdims=True)
            X = X / np.where(norms > 0, norms, 1)
        return X

    def rows(self, scaling: str) -> np.ndarray:
        """Return all rows scaled."""
        if scaling not in self._rows:
            self._rows[scaling] = self.transform(scaling, self._X)
        return self._rows[scaling]

    def unit(self, scaling: str, kernel: str) -> float:
        """Return what a relative gamma is multiplied by."""
        key = (scaling, kernel)
        if key not in self._units:
            X = self.rows(scaling)[: self._learnt]
            apart = X[self._pairs[0]] - X[self._pairs[1]]
            match kernel:
                case "gaussian":
                    size = np.median(np.square(apart).sum(axis=1))
                case "laplacian":
                    size = np.median(np.abs(apart).sum(axis=1))
                case _:
                    size = np.square(X[self._pairs[0]]).sum(axis=1).mean()
            self._units[key] = 1 / float(size) if size > 0 else 1.0
        return self._units[key]


def feature_map(candidate: Candidate, scaled: Scaled, width: int, seed: int) -> FeatureMap:
    """Return the unfitted map of a candidate, for rows of its scaling."""
    unit = scaled.unit(candidate.scaling, candidate.kernel)
    setting = candidate.setting
    match candidate.kernel:
        case "gaussian":
            return StructuredFourier(Gaussian(gamma=setting * unit), width, random_state=seed)
        case "laplacian":
            return RandomFourier(Laplacian(gamma=setting * unit), width, random_state=seed)
        case "linear":
            d = scaled.rows(candidate.scaling).shape[1]
            kernel = Polynomial(degree=1, gamma=unit)
            return RandomMaclaurin(kernel, d + 1, h01=True, random_state=seed)
        case "polynomial":
            exact = Polynomial(degree=int(setting), gamma=unit)
        case _:
            exact = ArcCosine(order=int(setting))
    up = RandomMaclaurin(exact, UP_FACTOR * width, tolerance=ARC_COSINE_TOLERANCE)
    return Craft(up, width, random_state=seed)


class Judge:
    """Rows to fit and rows held out, on which candidates are tried.

    Parameters
    ----------
    X, y : rows, in an order that means nothing, and labels or values
    regression : whether y holds values
    seed : int
    test : None, or X and y of test rows, for studies
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, *, regression: bool, seed: int, test=None):
        order = np.random.default_rng(seed).permutation(len(X))
        X, self.y = X[order], np.asarray(y)[order]
        self.n_fitted = len(X) - int(HELD_SHARE * len(X))
        self.scaled = Scaled(X, self.n_fitted, np.random.default_rng(seed))
        self.regression = regression
        self.seed = seed
        self.test = test
        self.trials: list[Trial] = []

    def try_(
        self, candidate: Candidate, width: int, n_rows: int, n_held: int, split: int = 0
    ) -> Trial:
        """Fit some rows and measure on those held out, with the best penalty.

        Another `split` holds other rows out and draws another map.
        """
        began = time.perf_counter()
        n_rows = min(n_rows, self.n_fitted)
        X = self.scaled.rows(candidate.scaling)
        map_ = feature_map(candidate, self.scaled, width, self.seed + split)
        order = np.roll(np.arange(len(X)), split * (len(X) - self.n_fitted))
        fitted, held = order[:n_rows], order[self.n_fitted :][:n_held]
        statistics = accumulate(
            ArraySource(X[fitted], self.y[fitted]),
            map_,
            regression=self.regression,
            random_state=self.seed,
        )
        rows = Rows(X[held], self.y[held], None, held, held)
        book = statistics.book(None, self.seed)
        alphas = (RELATIVE_ALPHAS * statistics.alpha_scale()).tolist()
        found = searched(lambda alphas: statistics.models(alphas, book), alphas, [rows])
        seconds = time.perf_counter() - began
        error, mse, alpha = np.inf, np.inf, np.nan
        if found:
            leader = best(found)
            error, mse, alpha = leader.figure, leader.mse, float(np.mean(leader.model.alpha))
        on_test = np.nan
        if found and self.test is not None:
            predicted = leader.model.predict(self.scaled.transform(candidate.scaling, self.test[0]))
            apart = predicted - self.test[1] if self.regression else predicted != self.test[1]
            on_test = float(np.mean(np.square(apart)))
        trial = Trial(candidate, width, n_rows, error, mse, alpha, seconds, on_test)
        self.trials.append(trial)
        return trial


def order_of(trials: Iterable[Trial]) -> list[Trial]:
    """Return trials from the best on; of those alike the cheaper first, then the least squares."""
    left = sorted(trials, key=lambda trial: (trial.error, trial.mse))
    if not left:
        return []
    near = [trial for trial in left if trial.error <= left[0].error * (1 + TIE)]
    near.sort(key=lambda trial: (trial.candidate.cost, trial.mse))
    return near + left[len(near) :]


def first_round() -> list[Candidate]:
    """Return the candidates that a tournament begins with."""
    settings = {
        "gaussian": (1 / 16, 1 / 4, 1, 4),
        "laplacian": (1 / 8, 1 / 2),
        "polynomial": (2, 4, 7),
        "linear": (1,),
    }
    return _crossed(settings)


def everything() -> list[Candidate]:
    """Return the candidates of a full grid."""
    settings = {
        "gaussian": tuple(2.0**k for k in range(-6, 4)),
        "laplacian": tuple(2.0**k for k in range(-5, 3)),
        "polynomial": (2, 3, 4, 5, 7, 9),
        "linear": (1,),
    }
    return _crossed(settings)


def _crossed(settings):
    found = [
        Candidate(scaling, kernel, float(setting))
        for kernel, values in settings.items()
        for scaling, setting in itertools.product(SCALINGS, values)
    ]
    return found + [Candidate("l2", "arc-cosine", float(order)) for order in (0, 1)]


def planned_seconds(candidate: Candidate, width: int, n_rows: int, n_features: int) -> float:
    """Return what a trial should take on one core: passes, a transform and six factors."""
    gram = n_rows * width**2 / 1.0e11
    maps = 2e-9 * candidate.cost * n_rows * (width + n_features * (candidate.kernel == "laplacian"))
    return 0.02 + gram + maps + 6 * width**3 / 1.0e11


def tournament(judge: Judge, width: int, budget: float = 20.0) -> Trial:
    """Return the winner of successive halving: narrow and short first, at `width` last.

    Parameters
    ----------
    judge : rows
    width : of the features in the end
    budget : planned seconds
    """
    d = judge.scaled.rows("none").shape[1]
    n_held = len(judge.y) - judge.n_fitted
    rounds = [
        (min(256, width), 2000, 2000, 10),
        (min(512, width), 6000, n_held, 5),
        (width, judge.n_fitted, n_held, 0),
    ]
    field, spent = first_round(), 0.0
    leader: Trial | None = None
    for number, (wide, n_rows, held, n_kept) in enumerate(rounds):
        n_rows = min(n_rows, judge.n_fitted)
        tried: dict[Candidate, Trial] = {}
        queue = list(field)
        while queue:
            candidate = queue.pop(0)
            planned = planned_seconds(candidate, wide, n_rows, d)
            if candidate in tried or (leader is not None and spent + planned > budget):
                continue
            spent += planned
            tried[candidate] = judge.try_(candidate, wide, n_rows, min(held, n_held))
            if not queue and number:  # the best looks to both sides, until it stays
                top = order_of(tried.values())[: 1 if number == 2 else 2]
                queue += [c for t in top for c in t.candidate.neighbours() if c not in tried]
            leader = leader or tried[candidate]
        if not tried:
            break
        ranked = order_of(tried.values())
        leader = ranked[0]
        field = [trial.candidate for trial in _spread(ranked, n_kept)]
    assert leader is not None
    rivals = _alike(judge, ranked)
    for split in range(1, SPLITS if len(rivals) > 1 else 1):
        spent += sum(planned_seconds(t.candidate, t.width, t.n_rows, d) for t in rivals)
        if spent > budget:
            break
        again = [judge.try_(t.candidate, t.width, t.n_rows, n_held, split) for t in rivals]
        rivals = [_mean(a, b, split) for a, b in zip(rivals, again, strict=True)]
    return order_of(rivals)[0]


def _alike(judge, ranked):
    """Return the trials that the rows held out cannot tell from the best."""
    error = ranked[0].error
    noise = REGRESSION_NOISE * error
    if not judge.regression:
        n_held = len(judge.y) - judge.n_fitted
        noise = np.sqrt(max(error, 1 / n_held) * (1 - error) / n_held)
    return [trial for trial in ranked if trial.error <= error + noise][:RIVALS]


def _mean(a, b, n):
    """Return `a`, a mean of n trials, with `b` joined to it."""
    means = {name: (n * getattr(a, name) + getattr(b, name)) / (n + 1) for name in ("error", "mse")}
    return replace(
        a, **means, alpha=float(np.exp((n * np.log(a.alpha) + np.log(b.alpha)) / (n + 1)))
    )


def _spread(ranked, n_kept):
    """Return the best, at most three of a kernel and two of a kernel and scaling."""
    kept: list[Trial] = []
    for trial in ranked:
        mine = trial.candidate
        same = [t.candidate for t in kept if t.candidate.kernel == mine.kernel]
        alike = [c for c in same if c.scaling == mine.scaling]
        if len(kept) < n_kept and len(same) < 4 and len(alike) < 2:
            kept.append(trial)
    return kept


def grid(judge: Judge, width: int) -> Trial:
    """Return the best of everything at one width on all rows."""
    n_held = len(judge.y) - judge.n_fitted
    trials = [judge.try_(c, width, judge.n_fitted, n_held) for c in everything()]
    return order_of(trials)[0]
