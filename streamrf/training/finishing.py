"""The end of a pass: choose the penalty on the rows held out, join them, solve."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.display import advance, begin
from streamrf.errors import ParameterError, StreamrfError
from streamrf.models import Model, Probabilities
from streamrf.solving import (
    RELATIVE_ALPHAS,
    BlockWeights,
    HeldOut,
    NoFreedomError,
    Trial,
    alike,
    best,
    class_finding,
    downhill,
    few_finding,
    guess_finding,
    held_scores,
    is_above,
    nested,
    penalty_finding,
    place,
    read_best,
    reused_memory,
    safest,
    searched,
    tried,
    valleys,
    width_finding,
)
from streamrf.statistics import Statistics
from streamrf.training.copies import n_distinct
from streamrf.training.decoding import before_last, compared, is_auto_decode
from streamrf.training.evidence import Codes, evident_alpha, freeing, is_traced
from streamrf.training.foresight import (
    MIN_GUESSED,
    SOLVING,
    STRIDE,
    foresee_solving,
    held_units,
    n_factors,
    part_width,
)
from streamrf.training.passes import Pass

MIN_HELD = 10
FEW_HELD = 100  # rows held out, below which the sums have a say in the penalty too
DOUBT = 2.0  # standard errors, by which the rows held out may speak against it


@reused_memory()  # of factors
def finish(
    pass_: Pass,
    alpha: float | NDArray[np.float64] | str = "auto",
    codes: Codes | None = None,
    random_state: int = 0,
    *,
    prune: int | None = None,
    block_weights: BlockWeights | None = None,
    uncertainty: bool = False,
    overwrite: bool = False,
    keep: Callable[[Statistics], None] | None = None,
) -> tuple[Model, Statistics]:
    """Choose the penalty, join the rows held out, and solve on all rows.

    Parameters
    ----------
    pass_ : used up
    alpha : float or (n_outputs,) floats, or "auto": the best on the rows held out, which
        also fit the probabilities of classes
    prune : features that the model keeps, see `Statistics.prune`; None means all. With "auto" the
        rows held out have no say in which, so that they choose the penalty fairly: first one to
        prune with, then one for the features kept.
    codes : with a `decode` of "auto", and without codes if there are up to 100 classes, the decoder
        too is chosen on the rows held out
    block_weights : see `Statistics.solve`; with "auto" for both, they are chosen on the rows held
        out, and then the penalty. Not with `prune`
    random_state, uncertainty, overwrite : see `Statistics.solve`
    keep : called with the statistics of all rows before the solve, which may fail or overwrite them

    Returns
    -------
    Model, and the Statistics of all features
    """
    if prune is not None and block_weights is not None:
        raise ParameterError(
            "prune= and block_weights= do not go together: prune the statistics, then solve them "
            "with weights"
        )
    is_auto = isinstance(alpha, str) and alpha == "auto"
    holds = is_auto or is_auto_decode(codes)
    width = pass_.statistics.encoder.n_components
    of_factors = n_factors(is_auto, width) * width**3
    of_held = held_units(of_factors)
    begin(SOLVING, "", of_factors + of_held)
    found, held = _Choice(codes, block_weights=block_weights), None
    try:
        if holds:
            fixed = None if is_auto else float(np.mean(np.asarray(alpha, dtype=np.float64)))
            copies = None if pass_.holdout is None else pass_.holdout.copies
            n_held = n_distinct(pass_.held, copies)
            each = compared(codes, pass_.statistics)
            held = HeldOut(pass_.held, pass_.statistics.encoder, n_held, before_last(each))
            search = _Search(fixed, each, random_state, held, block_weights)
            found = search.choice(pass_, prune)
    except Exception:  # of any kind, so that no fault of the choice costs the pass
        if keep is not None:
            keep(pass_.join(() if held is None else held.surrender()))
        raise
    statistics = pass_.join(() if held is None else held.surrender())
    advance(of_held, SOLVING)
    if keep is not None:
        keep(statistics)
    if is_auto and found.alpha is not None:
        alpha = found.alpha
    elif is_auto:
        alpha = evident_alpha(statistics, found.codes, random_state)
    kept = statistics
    if found.columns is not None:
        kept = statistics.select(np.flatnonzero(np.isin(statistics.columns, found.columns)))
    elif prune is not None:
        mean = float(np.mean(np.asarray(alpha, dtype=np.float64)))
        kept = statistics.prune(prune, mean, found.codes, random_state=random_state)
    solve = partial(
        kept.solve,
        codes=found.codes,
        block_weights=found.block_weights,
        uncertainty=uncertainty,
        overwrite=overwrite,
        random_state=random_state,
    )
    try:
        model = solve(alpha)
    except NoFreedomError:
        if not is_auto:
            raise
        alpha = freeing(kept, float(np.asarray(alpha, dtype=np.float64)), found.codes, random_state)
        model = solve(alpha)
    if holds and model.book is not None:
        model = replace(model, probabilities=found.probabilities)
    return replace(model, history=found.history, notes=found.notes), statistics


def foresee_finish(pass_: Pass, alpha: Any, n_rows: int | None) -> None:
    """Tell the run around how long `finish` will take after a pass over so many rows."""
    is_auto = isinstance(alpha, str) and alpha == "auto"
    n_held = 0.0 if pass_.holdout is None else pass_.holdout.share * (n_rows or 0)
    width = pass_.statistics.encoder.n_components
    foresee_solving(width, n_factors(is_auto, width), n_held)


@dataclass(frozen=True)
class _Choice:
    """What the rows held out have chosen; nothing where there were too few."""

    codes: Codes | None
    alpha: float | None = None
    block_weights: BlockWeights | None = None
    columns: NDArray[np.int64] | None = None
    probabilities: Probabilities = field(default_factory=Probabilities.default)
    history: tuple[tuple[float, float], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Search:
    """A choice by rows held out.

    Parameters
    ----------
    alpha : the only penalty, or None to choose one
    codes : alike but for their decoders, see `compared`
    random_state : seed of the code book
    held : rows and their features
    block_weights : numbers, "auto" to choose them, or None
    """

    alpha: float | None
    codes: list[Codes | None]
    random_state: int
    held: HeldOut
    block_weights: BlockWeights | None

    def choice(self, pass_: Pass, prune: int | None) -> _Choice:
        """Choose weights of blocks, a penalty, a decoder and, if fewer, the features to keep."""
        kept = pass_.finished()
        if not self._is_enough(kept):
            n_held, n_others = self.held.n_rows, kept.sums.n_weighted
            labels, one = kept.labels, ""
            if labels is not None and min(n_held, n_others) >= MIN_HELD:
                one = f"{n_held:,} rows" if len(labels) > 1 else f"{n_others:,} rows not"
            note = few_finding(n_held, n_others, self.alpha is None, labels is not None, one)
            return _Choice(self.codes[0], block_weights=self.block_weights, notes=(note,))
        search = self
        if isinstance(self.block_weights, str):
            problem = kept.problem(self.codes[0], self.random_state)
            sums = None if self._is_few else pass_.held_sums()  # else by the evidence
            weights = np.array(problem.weighted(self.block_weights, held=sums).block_weights)
            search = replace(self, block_weights=weights / weights.max())
        trials, narrow = search.trials(kept)
        if not trials:
            return _Choice(self.codes[0], block_weights=self.block_weights)
        columns = None
        if prune is not None:
            best = float(safest(trials).model.alpha)
            kept = kept.prune(prune, best, self.codes[0], random_state=self.random_state)
            columns = kept.columns
            trials = search.trials(kept)[0]
        return search.found(kept, trials, narrow, columns)

    def found(
        self,
        kept: Statistics,
        trials: list[Trial],
        narrow: list[Trial],
        columns: NDArray[np.int64] | None,
    ) -> _Choice:
        """Return the best of trials, with probabilities and what to doubt.

        Parameters
        ----------
        kept, columns : statistics of the features that are solved for, and which, where not all
        trials : of these features
        narrow : of some of them, or empty
        """
        leader, same = read_best(*self._led(kept, trials))
        model = leader.model
        history = tuple(sorted((float(trial.model.alpha), trial.figure) for trial in same))
        notes: list[str | None] = []
        is_told = kept.rounding_advice(model.alpha, model.block_weights) is not None  # what to do
        is_best = best(same).model.alpha == model.alpha  # and not the greatest of those alike
        if not is_told and is_best and leader.mse > 0:
            notes.append(penalty_finding(float(model.alpha), [alpha for alpha, _ in history]))
        if columns is None and self.block_weights is None:
            notes.append(self._width_note(kept, leader, narrow))
        probabilities = Probabilities.default()
        answers = leader.answers or self.held.answers(model)
        if not self._is_few:
            notes.append(guess_finding(model, answers))
        if model.book is not None:
            scores, index, weights = held_scores(model, answers)
            probabilities = Probabilities.fit(scores, index, weights)
            k = model.book.n_classes
            counts = (np.bincount(i, minlength=k) for i in (index, scores.argmax(axis=1)))
            notes.append(class_finding(model.labels, *counts))
        return _Choice(
            self._code(model),
            float(model.alpha),
            self.block_weights,
            columns,
            probabilities,
            history,
            tuple(note for note in notes if note is not None),
        )

    def _led(self, kept: Statistics, trials: list[Trial]) -> tuple[Trial, list[Trial]]:
        """Return the trial to take, and all trials.

        Where few rows are held out, the penalty of greatest evidence of the others is tried too,
        and taken: for classes unless the rows held out speak against it, as errors are counts of
        few; for values as far as they allow.
        """
        leader = safest(trials)
        if self.alpha is not None or not self._is_few or not is_traced(kept):
            return leader, trials
        problem = kept.problem(self._code(leader.model), self.random_state)
        try:
            alpha = problem.weighted(self.block_weights).path().best_alpha("evidence")
        except StreamrfError:  # of none of them
            return leader, trials
        alphas = [trial.model.alpha for trial in trials]
        if not np.isclose(alphas, alpha, rtol=1e-6).any():  # of another grid
            trials = [*trials, *tried(self._solver(kept)[0]([alpha]), self.held)]
        same = trials
        if leader.model.book is None:
            same = alike(trials, DOUBT)
        nearest = min(same, key=lambda trial: abs(np.log(trial.model.alpha / alpha)))
        is_worse = is_above(nearest.losses - leader.losses, DOUBT)
        return (leader if is_worse else nearest), trials

    @property
    def _is_few(self) -> bool:
        """Whether so few rows are held out that the sums have a say too."""
        return self.held.n_rows < FEW_HELD

    def _code(self, model: Model) -> Codes | None:
        """Return the code, by its decoder, that a model is of."""
        named = (code for code in self.codes if code is not None and code.decode == _decode(model))
        return next(named, self.codes[0])

    def _is_enough(self, statistics: Statistics) -> bool:
        """Return whether there are rows that weigh, and classes, to choose by."""
        labels = statistics.labels
        enough = min(self.held.n_rows, statistics.sums.n_weighted) >= MIN_HELD
        return enough and (labels is None or (len(labels) > 1 and not self.held.is_of_one_class))

    def trials(self, statistics: Statistics) -> tuple[list[Trial], list[Trial]]:
        """Return how penalties and decoders do, and how with some of the features if tried."""
        solve, scale = self._solver(statistics)
        if self.alpha is not None:
            return tried(solve([self.alpha]), self.held), []
        alphas = (RELATIVE_ALPHAS * scale).tolist()
        if not alphas[-1] > 0:
            return [], []
        narrow, starts = self._starts(statistics)
        trials = downhill(solve, alphas, self.held, starts) if starts else []
        return trials or searched(solve, alphas, self.held, STRIDE), narrow

    def _starts(self, statistics: Statistics) -> tuple[list[Trial], list[int]]:
        """Return trials of some of the features, and indices of penalties near the best for all.

        Empty where all are few or where blocks of them may weigh nothing; and where there are more
        than rows, of which the errors may have a second valley, at small penalties, that a part
        does not have. No indices where the part takes the least penalty: it then holds all that it
        is given, and more features may want another.

        The kernel is the mean over features of their products, so that kernel ridge regression with
        one penalty has one for the coefficients that grows as the features do.
        """
        width = statistics.encoder.n_components
        is_guessed = MIN_GUESSED <= width <= statistics.sums.n_weighted
        if not is_guessed or self.block_weights is not None:
            return [], []
        n_some = part_width(width)
        solve, scale = self._solver(_part(statistics, n_some))
        alphas = (RELATIVE_ALPHAS * scale).tolist()
        trials = searched(solve, alphas, self.held, STRIDE, 2)  # the search itself goes on by 1
        found = [place(trial.model.alpha, alphas) for trial in valleys(trials)]
        more = ceil(log(width / n_some) / log(alphas[1] / alphas[0]))
        return trials, [i + more for i in found] if found and found[0] else []

    def _solver(
        self, statistics: Statistics
    ) -> tuple[Callable[[Sequence[float]], list[Model]], float]:
        """Return what solves for penalties, once for all decoders, and the unit of penalties."""
        problem = statistics.problem(self.codes[-1], self.random_state)  # its decoder is learnt
        weighted = problem.weighted(self.block_weights)
        return weighted.solver(), weighted.alpha_scale

    def _width_note(self, statistics: Statistics, leader: Trial, narrow: list[Trial]) -> str | None:
        """Return a sentence if some of the features, half if none were tried, do clearly worse."""
        width = statistics.encoder.n_components
        if width < 2 or leader.figure == 0:  # nothing is to be gained
            return None
        if not narrow:
            solve = self._solver(_part(statistics, width // 2))[0]
            narrow = tried(solve([leader.model.alpha])[:1], self.held)
        if not narrow:
            return None
        one = min(narrow, key=lambda trial: trial.mse)
        if not is_above(one.squares - leader.squares, 2.0):
            return None
        return width_finding(one.model.encoder.n_components, width, one.mse, leader.mse)


def _decode(model: Model) -> str | None:
    """Return the word of a model's decoder, None for values."""
    return None if model.book is None else model.book.decode


def _part(statistics: Statistics, width: int) -> Statistics:
    """Return the statistics of some features, those a map of that width would have."""
    return statistics.select(np.sort(nested(statistics.encoder.n_components)[:width]))
