"""The warp of rows before the map, learnt from the average outer product of gradients.

A ridge of Fourier features is fitted, ``f_o(x) = sum_i a_oi cos <w_i, x> + b_oi sin <w_i, x>``. Its
gradients are ``sum_i (b_oi cos <w_i, x> - a_oi sin <w_i, x>) w_i``, so their outer products, summed
over rows and outputs, follow from the Gram of the features alone: no row is looked at again.

Radhakrishnan, Beaglehole, Pandit and Belkin, Mechanism for feature learning in neural networks and
backpropagation-free machine learning models, Science 2024; several rounds and the diagonal:
Beaglehole, Holzmueller, Radhakrishnan and Belkin, xRFM, 2025.
"""

from dataclasses import replace

import numpy as np

from streamrf.display import stage
from streamrf.engine import fold
from streamrf.errors import SolveError
from streamrf.features import FeatureMap, RandomFourier
from streamrf.jit.arrays import Array, Floats
from streamrf.jit.threads import computing
from streamrf.models import Model
from streamrf.preprocessing import (
    CALIBRATION_ROWS,
    FAINT,
    WARPS,
    Encoder,
    Preprocessing,
    Warp,
    as_columns,
    variances,
)
from streamrf.solving import HeldOut, Trial, best, read_best, searched
from streamrf.sources import ArraySource, Ledger, Rows
from streamrf.statistics import (
    ClassSums,
    ExactGram,
    Statistics,
    Sums,
    TargetSums,
    ValueSums,
)
from streamrf.training.candidates import PAIRS, Recipe, gamma_unit
from streamrf.training.decoding import before_last, compared
from streamrf.training.kinds import TEACHERS
from streamrf.training.passes import Pass
from streamrf.training.peeking import peek_rows

RELATIVE_ALPHAS = 10.0 ** np.arange(-8, 1)  # coarser than those of a fit: what is compared is more
HIDDEN = 2 / 3  # of the errors, or less by discriminants: classes lie between others
MAX_ROWS, MAX_HELD = 5000, 2000  # that a ridge is fitted to, and that its penalty is chosen by
MAX_WIDTH, ROWS_A_FEATURE = 1024, 4  # of the features that gradients are taken of
REACH = 0.5  # deviations of a column, over which slopes are taken where gradients have no variance
LOOKED_AT = 256  # rows, at which columns of two values are changed
MAX_ROUNDS = 5  # of learning, where each clearly helps
CLEAR_GAIN = 0.05  # of the squared error held out, for which the next round is worth its time
LEVELS = np.arange(1, 10) / 10  # between bins of a column
CHANCE = 3  # deviations of what bins of noise explain
MAX_KNOWN = 0.8  # of the squared distance between rows, for columns that explain much alone
LEARNING_BYTES, LEARNING_VALUE_BYTES = 68 << 20, 12  # of few columns, and of each value; measured
MAX_FULL = 2000  # columns of a full warp: its products take 2 d^2 operations a row


def attempt(
    features: FeatureMap, fitted: Rows, held: Rows, regression: bool, seed: int
) -> tuple[Statistics, Trial | None]:
    """Fit rows for several penalties; return their sums and the best by the rows held out.

    The best by the largest output; its `others` is the surest by discriminants where these find
    classes that are hidden to it. The seconds of the rows alone are those of the stage "rows", see
    `streamrf.display`.
    """
    source = ArraySource(fitted.X, fitted.y, fitted.weights)
    sample = source.sample(CALIBRATION_ROWS)
    encoder = Encoder.calibrate(features, sample, regression=regression, random_state=seed)
    targets: TargetSums = ClassSums.zero(encoder.n_components)
    if regression:
        n_targets = len(encoder.calibration.target_shift)
        targets = ValueSums.zero(encoder.n_components, n_targets, encoder.calibration.exact)
    sums = Sums(ExactGram(encoder.n_components), targets)
    with stage("rows"):
        summed = fold(source, Pass(Statistics(encoder, sums, Ledger())), Pass.update)
    statistics = summed.finished()
    try:
        codes = compared(None, statistics)
        problem = statistics.problem(codes[-1], random_state=seed)
        alphas = (RELATIVE_ALPHAS * (problem.alpha_scale or 1.0)).tolist()
        held_out = HeldOut([held], statistics.encoder, decoders=before_last(codes))
        found = searched(problem.models, alphas, held_out)
    except SolveError:
        found = []
    if not found:
        return statistics, None
    leader = best(found)
    rival = read_best(leader, found, HIDDEN)[0]
    return statistics, replace(leader, others=() if rival is leader else (rival,))


def learn(
    recipe: Recipe, fitted: Rows, held: Rows, *, regression: bool = False, seed: int = 0
) -> Warp | None:
    """Learn a warp from scaled rows; None where no ridge can be fitted to them.

    Parameters
    ----------
    recipe : kind of warp, kernel of the ridge, and least rounds; of a diagonal warp more follow, up
        to five, while each takes a twentieth off the squared error of the rows held out: where few
        columns of many matter, two do not find them
    fitted : rows, of which the first 5,000 are fitted
    held : rows, by the first 2,000 of which the penalty is chosen
    regression : whether targets are values
    seed : of the features

    Returns
    -------
    Warp of the square root of the average gradient outer product, such that the rows keep their
    mean squared distance; the same bytes for any thread count
    """
    fitted, held = fitted.where(slice(MAX_ROWS)), held.where(slice(MAX_HELD))
    n_components = width(len(fitted.X))
    spread = variances(fitted.X)
    pairs = np.random.default_rng(seed).integers(0, len(fitted.X), (2, PAIRS))
    error, gains = np.inf, True
    # BLAS sums in another order on other numbers of threads
    with computing() as n_threads, computing(1), np.errstate(over="ignore", invalid="ignore"):
        warp = _start(fitted, spread, regression) if recipe.from_effects else None
        for number in range(max(recipe.n_rounds, MAX_ROUNDS)):
            if number >= recipe.n_rounds and not gains:
                break
            rows, rows_held = (_warped(some, warp) for some in (fitted, held))
            gamma = recipe.setting * gamma_unit(rows.X, recipe.kernel, pairs)
            kernel = TEACHERS[recipe.kernel](gamma)
            features = RandomFourier(kernel, n_components, random_state=seed + number)
            with computing(n_threads):
                statistics, trial = attempt(features, rows, rows_held, regression, seed)
            if trial is None:
                return None if number < recipe.n_rounds else warp
            gains = recipe.kind == "diagonal" and trial.mse < (1 - CLEAR_GAIN) * error
            error = trial.mse
            if number >= recipe.n_rounds and not gains:
                break
            reach = None
            if recipe.kernel == "laplacian":
                reach = REACH * np.sqrt(variances(rows.X))
            alone = recipe.kind == "diagonal" and fitted.X.shape[1] > MAX_FULL
            product = gradient_product(statistics, trial.model, reach, alone)
            if warp is not None:
                product = _before(product, warp)
            product = between_values(product, statistics, trial.model, rows, fitted.X, warp)
            warp = _warp(product, recipe.kind, fitted.X, spread)
            if warp is None:
                return None
    return warp


def _start(fitted: Rows, spread: Floats, regression: bool) -> Warp | None:
    """Return a warp to begin with: columns count by what each explains alone, and all a little.

    What is left unexplained, a fifth at least, is shared out to all columns alike.
    """
    if not spread.all():
        return None
    effects = explained(fitted, regression)
    total = effects.sum()
    if not total > 0:
        return None
    known = min(total, MAX_KNOWN)
    shares = known * effects / total + (1 - known) / len(effects)
    return _warp(shares / spread, "diagonal", fitted.X, spread)


def explained(rows: Rows, regression: bool) -> Floats:
    """Return the share of the targets' variance that each column explains alone, (n_features,).

    That of the means in ten bins of as many rows (the correlation ratio), beyond what chance gives;
    0 where it is within `CHANCE` deviations of that. Targets, or classes, count alike.
    """
    y = as_columns(rows.y) if regression else rows.y[:, np.newaxis] == np.unique(rows.y)
    T = y.astype(np.float64)
    weights = np.ones(len(T)) if rows.weights is None else rows.weights / rows.weights.mean()
    mean = np.average(T, axis=0, weights=weights)
    T -= mean
    deviations = np.sqrt(np.average(np.square(T), axis=0, weights=weights))
    deviations[deviations <= FAINT * np.abs(mean)] = 0  # of one value, whose mean is rounded
    T /= np.where(deviations > 0, deviations, 1.0)
    total, effects = len(T) * np.count_nonzero(deviations), np.zeros(rows.X.shape[1])
    if total == 0:
        return effects
    for j, edges in enumerate(np.quantile(rows.X, LEVELS, axis=0).T):
        bins = np.searchsorted(np.unique(edges), rows.X[:, j], side="right")
        members = weights[:, np.newaxis] * (bins[:, np.newaxis] == np.arange(len(LEVELS) + 1))
        counts = members.sum(axis=0)
        means = members.T @ T / np.where(counts > 0, counts, 1.0)[:, np.newaxis]
        free = np.count_nonzero(counts) - 1
        above = (counts @ np.square(means)).sum() / total - free / len(T)
        effects[j] = above if above > CHANCE * np.sqrt(2 * free) / len(T) else 0.0
    return effects


def gradient_product(
    statistics: Statistics, model: Model, reach: Floats | None = None, alone: bool = False
) -> Floats:
    """Return the mean over rows of the sum over outputs of ``grad f_o grad f_o^T``, (d, d).

    Parameters
    ----------
    statistics : sums of paired `RandomFourier` features
    model : solved from them; outputs are counted in deviations of their targets
    reach : (d,), instead of derivatives take ``(f(x + h_j e_j) - f(x - h_j e_j)) / 2 h_j`` with
        these h: frequencies of the Laplacian have no variance. None means derivatives
    alone : return the diagonal alone, (d,), for columns whose matrix would be too large
    """
    calibration, features = statistics.encoder.calibration, statistics.encoder.features
    assert isinstance(features, RandomFourier)
    n = features.n_components // 2
    normal = statistics.problem().normal()
    mean = normal.feature_sums / normal.weight * calibration.root_scale
    mean = calibration.shift + calibration.step * mean
    moments = normal.full() / statistics.weight + np.outer(mean, mean)
    coef = _coefficients(statistics, model)
    slopes = np.hstack([coef[:, n:], -coef[:, :n]])  # of cosines, then of sines
    moments *= slopes.T @ slopes
    of_frequencies = moments.reshape(2, n, 2, n).sum(axis=(0, 2))
    frequencies = features.frequencies_.astype(np.float64)
    if reach is not None:
        h = np.where(reach > 0, reach, 1.0)
        frequencies = np.sin(frequencies * h) / h
    if alone:
        products: Floats = of_frequencies @ frequencies
        return (products * frequencies).sum(axis=0)
    return frequencies.T @ of_frequencies @ frequencies


def _coefficients(statistics: Statistics, model: Model) -> Floats:
    """Return the coefficients of features as a map makes them, (n_outputs, n_components)."""
    calibration = statistics.encoder.calibration
    coef = model.coef / calibration.step
    return coef if model.book is not None else coef / calibration.target_step[:, np.newaxis]


def width(n_rows: int) -> int:
    """Return the width of the features that a warp is learnt with, even as they are in pairs."""
    return 2 * int(np.clip(n_rows // (2 * ROWS_A_FEATURE), 1, MAX_WIDTH // 2))


def learning_bytes(n_features: int, kind: str, n_rows: int | None) -> int:
    """Return the bytes that a warp is learnt in; "auto" tries none of many columns.

    It counts the matrices for a choice of features, which has room for the rest, and all for a map
    that is named.
    """
    least = 0
    if kind in WARPS:
        most = peek_rows(n_features)
        n_values = n_features * (most if n_rows is None else min(most, n_rows))
        least = LEARNING_BYTES + LEARNING_VALUE_BYTES * n_values
    if n_features <= MAX_FULL:
        return least + (64 if kind in WARPS else 32) * n_features**2  # measured
    return least + 24 * MAX_WIDTH * n_features if kind == "diagonal" else least


def _diagonal(product: Floats) -> Floats:
    """Return the diagonal of a gradient product, which it may be itself."""
    return product if product.ndim == 1 else np.diag(product)


def _warped(rows: Rows, warp: Warp | None) -> Rows:
    X = Preprocessing.learn(None, rows.X, warp).apply(rows.X)
    return Rows(X, rows.y, rows.weights, rows.positions, rows.indices)


def _warp(product: Floats, kind: str, X: Array, spread: Floats) -> Warp | None:
    """Return the warp of a gradient product in the columns of X; None if it has no finite one."""
    if not np.isfinite(product).all():
        return None
    squares = np.maximum(_diagonal(product), 0)
    if kind == "diagonal":
        root = np.sqrt(squares)
        n_spread = spread @ squares
    else:
        values, vectors = np.linalg.eigh((product + product.T) / 2)
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        n_spread = np.var(X @ root, axis=0).sum()
    if not n_spread > 0:
        return None
    matrix = (root * np.sqrt(spread.sum() / n_spread)).astype(np.float32)
    importances = squares * spread / (squares @ spread)
    if not (np.isfinite(matrix).all() and np.isfinite(importances).all()):
        return None  # columns are too many powers of ten apart
    return Warp(matrix, importances)


def _before(product: Floats, warp: Warp) -> Floats:
    """Return a gradient product of rows that were warped in columns as they are before it."""
    if warp.matrix.ndim == 1:
        squares = _diagonal(product) * np.square(warp.matrix)
        return squares if product.ndim == 1 else np.diag(squares)
    return warp.matrix.T @ product @ warp.matrix


def between_values(
    product: Floats,
    statistics: Statistics,
    model: Model,
    rows: Rows,
    plain: Array,
    warp: Warp | None = None,
) -> Floats:
    """Return a gradient product with the differences between the values of columns that have two.

    Between two values no row says what the slope is, and a ridge without noise may have any: that
    of a column without effect was the greatest of all. The mean of squared differences takes its
    place on the diagonal, and the rest of row and column is multiplied alike.

    Parameters
    ----------
    product : (d, d), or its diagonal, in columns as they are before the warp
    statistics, model : see `gradient_product`
    rows : fitted, as they were warped
    plain : (n, d), the same rows before it
    warp : None means that they are the same
    """
    low, high = plain.min(axis=0), plain.max(axis=0)
    has_two = (low < high) & ((plain == low) | (plain == high)).all(axis=0)
    columns = np.flatnonzero(has_two).tolist()
    if not columns:
        return product
    features, coef = statistics.encoder.features, _coefficients(statistics, model)
    assert isinstance(features, RandomFourier)
    n = features.n_components // 2
    cosine, sine = coef[:, :n].T, coef[:, n:].T
    frequencies: Floats = features.frequencies_.astype(np.float64)
    Z = features.transform(rows.X[:LOOKED_AT]).astype(np.float64)
    weights = None if rows.weights is None else rows.weights[:LOOKED_AT]
    is_high = (plain[:LOOKED_AT] == high)[:, :, np.newaxis]
    factors, squares = np.ones(len(product)), _diagonal(product)
    for j in columns:
        distance = float(high[j]) - float(low[j])
        phases = distance * (frequencies @ _direction(j, warp, len(product)))
        turned, moved = (np.cos(phases) - 1)[:, np.newaxis], np.sin(phases)[:, np.newaxis]
        even = Z[:, :n] @ (cosine * turned) + Z[:, n:] @ (sine * turned)
        odd = Z[:, :n] @ (sine * moved) - Z[:, n:] @ (cosine * moved)
        change = even + np.where(is_high[:, j], -odd, odd)
        square = np.average(np.square(change).sum(axis=1), weights=weights) / distance**2
        factors[j] = np.sqrt(square / squares[j]) if squares[j] > 0 else 0.0
    return product * (np.outer(factors, factors) if product.ndim == 2 else np.square(factors))


def _direction(j: int, warp: Warp | None, n_features: int) -> Floats:
    """Return how a row moves, as it is warped, with its column j."""
    unit = np.zeros(n_features)
    unit[j] = 1.0
    if warp is None:
        return unit
    return warp.matrix.astype(np.float64)[:, j] if warp.matrix.ndim == 2 else unit * warp.matrix[j]
