"""The penalty is chosen on rows held out by position, and X is read once."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import streamrf as srf
from integers import accumulate, assert_same_bytes, features, plain_problem
from passes import add, begin
from streamrf.errors import ConsumedError
from streamrf.solving import JOINED_ROWS, HeldOut, Path, Trial, held_out, max_kept, penalty
from streamrf.training import Pass, finish, finishing, holdout
from streamrf.training.memory import Sizes, plan

pytestmark = pytest.mark.usefixtures("one_thread")

N = 900


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    values = np.sin(2 * X[:, :2]) @ [[1.0, 0.0], [1.0, 3.0]] + rng.normal(size=(N, 2))
    y = np.digitize(values[:, 0], [-1, 0, 1])
    weights = rng.uniform(0.5, 4.0, N)
    for array in (X, y, values, weights):
        array.flags.writeable = False
    return X, y, values, weights


def held_pass(source, *, block_rows=4096, window=(0, None), map_=None, **options):
    """A pass that holds rows out, before they join."""
    pass_ = begin(source, map_ or features(60), hold_out=True, **options)
    start, stop = window
    return add(source, pass_, block_rows=block_rows, start=start, stop=stop)


def positions(pass_):
    parts = [rows.positions for rows in pass_.holdout.held]
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


@pytest.fixture(params=[None, 60], ids=["fixed", "halving"])
def limit(request, monkeypatch):
    """The greatest number of rows held; with 60 an iterator's share must halve on the way."""
    if request.param is not None:
        monkeypatch.setattr(holdout, "MAX_ROWS", request.param)
    return request.param


def stream(X, y, size=100):
    return srf.IteratorSource((X[i : i + size], y[i : i + size]) for i in range(0, len(X), size))


@pytest.mark.parametrize("make", [srf.ArraySource, stream], ids=["array", "iterator"])
def test_rows_are_held_by_their_position_alone(rows, make, limit):
    X, y, _, _ = rows
    chosen = [positions(held_pass(make(X, y), block_rows=size)) for size in (37, 256, 4096)]
    others = positions(held_pass(make(X[::-1], y[::-1]), map_=features(3), normalize="l2"))
    for other in (*chosen, others):
        np.testing.assert_array_equal(other, chosen[0])
    assert 0 < len(chosen[0]) <= (limit or 0.25 * N)


def test_the_rows_held_are_those_of_the_source(rows):
    X, y, _, weights = rows
    for part in held_pass(srf.ArraySource(X, y, weights), block_rows=100).holdout.held:
        np.testing.assert_array_equal(part.X, X[part.positions])
        np.testing.assert_array_equal(part.y, y[part.positions])
        np.testing.assert_array_equal(part.weights, weights[part.positions])


@pytest.mark.parametrize("block_rows", [37, 4096])
def test_rows_held_out_come_in_parts_that_no_block_decides(block_rows):
    """Of as many rows as have features at once, in their order; asking again changes nothing."""
    X = np.arange(30_000.0)[:, np.newaxis] + np.zeros(3)
    source = srf.ArraySource(X, X[:, 0] % 2)
    pass_ = held_pass(source, block_rows=block_rows, map_=features(3))
    parts = pass_.held
    n_held = sum(len(part.X) for part in parts)
    assert n_held > 2 * JOINED_ROWS
    whole, last = divmod(n_held, JOINED_ROWS)
    assert [len(part.X) for part in parts] == [JOINED_ROWS] * whole + [last] * (last > 0)
    joined = np.concatenate([part.positions for part in parts])
    np.testing.assert_array_equal(joined, np.sort(joined))
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), X[joined])
    assert all(a is b for a, b in zip(parts, pass_.held, strict=True))


def test_more_is_kept_of_rows_held_out_where_their_gram_is_large():
    """And the plan of the memory counts them."""
    kept = {width: max_kept(width) for width in (100, 8192, 16_384, 60_000)}
    assert kept[100] == kept[8192] == held_out.MIN_KEPT
    assert kept[8192] < kept[16_384] <= kept[60_000] == held_out.MAX_KEPT
    none, many = (plan(Sizes(16_384, 1, 10, scored_rows=n), "1 TiB") for n in (0, 10_000))
    block = none.block_rows * 6 * 16_384  # four bytes of a feature, and two in panels
    assert many.total_bytes - none.total_bytes > 0.9 * (kept[16_384] - block) > 0


def test_shards_hold_together_what_the_whole_holds(rows):
    X, y, _, _ = rows
    source = srf.ArraySource(X, y)
    windows = source.split(3)
    parts = [positions(held_pass(source, window=window)) for window in windows]
    np.testing.assert_array_equal(np.concatenate(parts), positions(held_pass(source)))


@pytest.mark.parametrize("is_kept", [True, False])
def test_rows_held_out_are_mapped_once(is_kept, monkeypatch):
    """For the choice of the penalty and for the sums, as far as memory for them reaches."""
    mapped = []

    def waves(X):
        mapped.append(len(X))
        return np.cos(X)

    if not is_kept:
        monkeypatch.setattr(held_out, "MIN_KEPT", 0)
    X = np.random.default_rng(0).normal(size=(9000, 3))
    totals = {}
    for alpha in (1.0, "auto"):
        mapped.clear()
        model = srf.RandomFeatureRegressor(srf.CallableMap(waves, 3), alpha=alpha, random_state=0)
        sums = model.fit(X, X[:, 0]).statistics_
        totals[alpha] = sum(mapped), sums.gram.tobytes()
    assert totals[1.0][1] == totals["auto"][1]
    n_again = totals["auto"][0] - totals[1.0][0]
    assert n_again < 500 if is_kept else n_again > 1800  # to fill up groups of rows, or all again


def test_lanes_of_no_rows_take_no_part(recwarn):
    """Zeros, of which this map is infinite."""

    def inverse(X):
        with np.errstate(all="ignore"):
            return 1 / X

    X = np.random.default_rng(0).uniform(0.5, 2, (5003, 2))
    srf.RandomFeatureRegressor(srf.CallableMap(inverse, 2), random_state=0).fit(X, X[:, 0])
    assert not recwarn


def test_about_a_fifth_is_held(rows):
    X, y, _, _ = rows
    share = len(positions(held_pass(srf.ArraySource(X, y)))) / N
    assert abs(share - 0.2) < 4 * np.sqrt(0.2 * 0.8 / N)  # four deviations of a binomial


def test_the_rows_held_are_bounded_all_along(rows, monkeypatch):
    X, y, _, _ = rows
    monkeypatch.setattr(holdout, "MAX_ROWS", 20)
    source = stream(X, y)
    pass_ = begin(source, features(8), hold_out=True)
    sizes = []
    for block in source.blocks(block_rows=50):
        pass_.update(block)
        sizes.append(pass_.holdout.n_rows)
        assert pass_.statistics.n_rows + sizes[-1] == block.position + len(block.X)
    assert 5 <= sizes[-1] <= max(sizes) <= 20


def test_the_bytes_held_are_bounded():
    assert holdout.Holdout(None, holdout.MAX_BYTES // 7).limit == 7
    assert holdout.Holdout(None, 10 * holdout.MAX_BYTES).limit == 1
    assert holdout.Holdout(10**12, 1).share * 10**12 < holdout.MAX_ROWS


@pytest.mark.parametrize("make", [srf.ArraySource, stream], ids=["array", "iterator"])
@pytest.mark.parametrize("kind", ["classes", "values"])
def test_rows_held_out_join_the_sums_to_the_last_byte(rows, make, kind, limit):
    X, labels, values, _ = rows
    y, regression = (values, True) if kind == "values" else (labels, False)
    plain = accumulate(make(X, y), features(60), regression=regression)
    pass_ = held_pass(make(X, y), block_rows=100, regression=regression)
    assert pass_.statistics.n_rows < N
    assert_same_bytes(pass_.join().to_tree(), plain.to_tree())


def by_hand(pass_, X, y, weights):
    """(alpha, figure, squared error by row) for each penalty of the grid, by scikit-learn."""
    held = positions(pass_)
    kept = np.setdiff1d(np.arange(N), held)
    statistics = pass_.statistics
    part = None if weights is None else weights[kept]
    Z, targets, plain_weights = plain_problem(statistics, X[kept], y[kept], part)
    centred = Z - np.average(Z, axis=0, weights=plain_weights)
    scale = np.mean(plain_weights @ centred**2)
    encoder = statistics.encoder
    held_Z = encoder.features.transform(encoder.preprocessing.apply(X[held]))
    held_weights = np.ones(len(held)) if weights is None else weights[held]
    truth = y[held]
    for relative in 10.0 ** (np.arange(35) * 10 / 24 - 10):
        model = Ridge(alpha=relative * scale, solver="cholesky").fit(Z, targets, plain_weights)
        outputs = model.predict(held_Z.astype(np.float64))
        if statistics.labels is None:
            variances = truth.var(axis=0)  # several targets count alike
            shares = variances.mean() / variances
            squares = (shares * (outputs - truth) ** 2).mean(axis=1)
            squares *= held_weights / held_weights.sum()
            yield relative * scale, squares.sum(), squares, squares
        else:
            labels = statistics.labels
            wrong = labels[outputs.argmax(axis=1)] != truth
            signs = 2.0 * (truth[:, np.newaxis] == labels) - 1
            squares = ((outputs - signs) ** 2).mean(axis=1) * held_weights / held_weights.sum()
            shares = wrong * held_weights / held_weights.sum()
            yield relative * scale, shares.sum(), squares, shares


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("kind", ["classes", "values"])
def test_auto_takes_the_penalty_of_least_error_on_the_rows_held_out(rows, kind, weighted):
    X, labels, values, weights = rows
    y, regression = (values, True) if kind == "values" else (labels, False)
    weights = weights if weighted else None
    source = srf.ArraySource(X, y, weights)
    pass_ = held_pass(source, regression=regression)
    expected = list(by_hand(pass_, X, y, weights))
    model, statistics = finish(pass_, "auto")
    alphas, figures = np.transpose(model.history)
    every = [alpha for alpha, *_ in expected]
    places = np.searchsorted(every, alphas * (1 - 1e-6))
    np.testing.assert_allclose(alphas, np.take(every, places), rtol=1e-9)
    # the smallest penalties leave a condition number of 1e8: 8 of 16 digits
    tried = [expected[place][1] for place in places]
    np.testing.assert_allclose(figures, tried, rtol=1e-6)
    every = [(alpha, figure, squares.sum()) for alpha, figure, squares, _ in expected]
    best = min((every[place] for place in places), key=lambda row: row[1:])[0]
    # of those that the rows cannot tell from the best, the greatest, or that of least squares
    rows_of = {expected[place][0]: expected[place][2:] for place in places}
    apart = {alpha: found[1] - rows_of[best][1] for alpha, found in rows_of.items()}
    alike = [a for a, d in apart.items() if d.mean() <= d.std() / np.sqrt(len(d))]
    best = max(alike) if regression else min(alike, key=lambda a: rows_of[a][0].sum())
    bottom = min(every, key=lambda row: row[1:])
    assert figures.min() <= 1.01 * bottom[1]
    assert model.alpha == pytest.approx(best, rel=1e-9)
    assert bottom not in (every[0], every[-1])  # a grid without a bottom proves little
    assert_same_bytes(model.coef, statistics.solve(model.alpha).coef)
    assert model.n_rows == statistics.n_rows == N
    plain = accumulate(source, features(60), regression=regression)
    assert_same_bytes(statistics.to_tree(), plain.to_tree())


PLACES = [4.0**k for k in range(25)]  # penalties that stand for their places in a list


def place(one):
    """Return the place of a penalty, or of that of a trial."""
    alpha = one.model.alpha if isinstance(one, Trial) else one
    return round(np.log(alpha) / np.log(4.0))


@pytest.mark.parametrize("valley", range(12))
@pytest.mark.parametrize("n_singular", [0, 4, 7])
def test_the_search_finds_the_valley_wherever_it_lies(monkeypatch, valley, n_singular):
    """Also beyond the nine penalties given; the least `n_singular` of them do not factor."""
    asked = []

    def solve(alphas):
        asked.extend(map(place, alphas))
        return [alpha for alpha in alphas if place(alpha) >= n_singular]

    def tried(models, held):
        return [Trial(SimpleNamespace(alpha=a), abs(place(a) - valley), 0.0) for a in models]

    monkeypatch.setattr(penalty, "tried", tried)
    trials = penalty.searched(solve, PLACES[:9], [])
    assert [place(trial) for trial in trials] == sorted(set(asked) - set(range(n_singular)))
    assert len(asked) == len(set(asked)) <= 7 + max(0, valley - 7) // 2
    assert place(penalty.best(trials)) == max(valley, n_singular)


@pytest.mark.parametrize("valley", range(25))
@pytest.mark.parametrize("n_singular", [0, 3, 12])
def test_from_a_start_the_search_goes_downhill(monkeypatch, valley, n_singular):
    """Also if nothing near the start factors; a good start takes few trials."""
    asked = []

    def solve(alphas):
        asked.extend(map(place, alphas))
        return [alpha for alpha in alphas if place(alpha) >= n_singular]

    def tried(models, held):
        return [
            Trial(SimpleNamespace(alpha=a, book="one"), off, off, losses=np.array([off]))
            for a, off in ((alpha, abs(place(alpha) - valley)) for alpha in models)
        ]

    monkeypatch.setattr(penalty, "tried", tried)
    for start in range(25):
        asked.clear()
        trials = penalty.downhill(solve, PLACES, [], [start])
        if start < n_singular:
            assert trials == []
            continue
        assert [place(trial) for trial in trials] == sorted(set(asked) - set(range(n_singular)))
        assert len(asked) == len(set(asked))
        assert place(penalty.best(trials)) == max(valley, n_singular)
        if abs(start - max(valley, n_singular)) <= 1:
            assert len(asked) <= 6


def test_of_several_starts_the_best_goes_on(monkeypatch):
    """A curve of two valleys; the deeper one has a slope that no step can be sure of."""
    curve = np.minimum(5.0 + np.abs(np.arange(25) - 20), 1.0 + np.abs(np.arange(25) - 6))

    def tried(models, held):
        errors = [np.array([curve[min(place(a), 24)]]) for a in models]
        alike = [SimpleNamespace(alpha=a, book="one") for a in models]
        return [Trial(m, e[0], e[0], e, e) for m, e in zip(alike, errors, strict=True)]

    monkeypatch.setattr(penalty, "tried", tried)
    found = [
        place(penalty.best(penalty.downhill(list, PLACES, [], starts)))
        for starts in ([20], [20, 9], [3])
    ]
    assert found == [20, 6, 6]
    trials = tried(PLACES, [])
    assert [place(trial) for trial in penalty.valleys(trials)] == [6]
    curve[15:] -= 3.6
    assert [place(trial) for trial in penalty.valleys(tried(PLACES, []))] == [6, 20]


def test_a_plateau_is_one_point_and_no_valley(monkeypatch):
    """Below the least eigenvalue all penalties err alike, but for the last digits."""

    def of(errors):
        return [
            Trial(SimpleNamespace(alpha=alpha, book="one"), error, error)
            for alpha, error in zip(PLACES, errors, strict=False)
        ]

    flat = [1.0, 1.0 - 1e-9, 1.0 + 1e-9, 1.0 - 2e-9]
    found = penalty.valleys(of([*flat, 0.9, 0.8, 0.9]))
    assert [place(trial) for trial in found] == [5]
    found = penalty.valleys(of([*flat, 1.1, 1.2, 1.1]))
    assert [place(trial) for trial in found] == [3, 6]


def test_the_place_of_a_penalty_beyond_the_list():
    alphas = [2.0 * 3.0**k for k in range(5)]
    assert [penalty.place(2.0 * 3.0**k, alphas) for k in range(-2, 9)] == list(range(-2, 9))


def test_a_penalty_given_is_not_chosen_with_the_decoder(rows):
    X, labels, _, _ = rows
    codes = srf.OneVsRest(decode="auto")
    fitted = estimator("classes", alpha=0.1, codes=codes).fit(X[:300], labels[:300])
    assert fitted.model_.alpha == 0.1
    assert [alpha for alpha, _ in fitted.model_.history] == [0.1]
    assert not any("penalty" in note for note in fitted.model_.notes)


def test_the_greatest_of_penalties_that_are_alike_is_no_limit(rng):
    """Rows held out cannot tell it from the best, which is among the least."""
    X = rng.uniform(-1, 1, size=(600, 1))
    map_ = srf.RandomFourier(srf.Gaussian(1.0), 64, random_state=0)
    noisy = np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=600)
    model = srf.RandomFeatureRegressor(map_, random_state=0).fit(X, noisy).model_
    figures = dict(model.history)
    assert min(figures, key=figures.get) < model.alpha
    assert not any("penalty tried" in note for note in model.notes)


def test_weights_of_blocks_are_not_fitted_to_few_rows_held_out(rng, monkeypatch):
    X = rng.normal(size=(800, 4))
    labels = (X[:, 0] + 0.5 * rng.normal(size=800) > 0).astype(int)
    map_ = srf.Concatenate([srf.RandomFourier(srf.Gaussian(g), 60) for g in (0.1, 2.0)])
    fit = srf.RandomFeatureClassifier(map_, block_weights="auto", random_state=0).fit
    asked = []
    monkeypatch.setattr(Pass, "held_sums", lambda pass_: asked.append(1))
    model = fit(X[:200], labels[:200]).model_
    assert not asked
    assert len(model.history) >= 10
    fit(X, labels)
    assert asked


def test_small_steps_downhill_are_taken(monkeypatch):
    """Each is less than a standard error, all of them are not."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(25, 400))

    def tried(models, held):
        rows = [noise[place(m.alpha) % 25] + 5.0 + 0.02 * abs(place(m.alpha) - 3) for m in models]
        return [Trial(m, r.mean(), r.mean(), r, r) for m, r in zip(models, rows, strict=True)]

    def solve(alphas):
        return [SimpleNamespace(alpha=alpha, book=None) for alpha in alphas]

    monkeypatch.setattr(penalty, "tried", tried)
    noise -= noise.mean(axis=1, keepdims=True)
    trials = penalty.downhill(solve, PLACES, [], [20])
    assert place(penalty.best(trials)) == 3


@pytest.mark.parametrize("book", [None, "one"], ids=["values", "classes"])
def test_the_surest_penalty_is_not_at_the_end_of_what_was_tried(monkeypatch, book):
    """Whatever the rows held out say, unless it is at the end of all that may be tried."""
    rng = np.random.default_rng(0)
    n_places = 25 + 7  # 4^7 is beyond 1e4
    for _ in range(200):
        away = np.arange(float(n_places))[:, np.newaxis] - 12
        losses = rng.normal(size=(n_places, 9)) ** 2 + 0.02 * away**2

        def tried(models, held, losses=losses):
            rows = [losses[place(model.alpha)] for model in models]
            return [
                Trial(model, row.mean(), row.mean(), row, row)
                for model, row in zip(models, rows, strict=True)
            ]

        def solve(alphas):
            return [SimpleNamespace(alpha=alpha, book=book) for alpha in alphas]

        monkeypatch.setattr(penalty, "tried", tried)
        trials = penalty.downhill(solve, PLACES, [], [int(rng.integers(25))])
        found = {place(trial) for trial in trials}
        surest = place(penalty.safest(trials))
        assert {surest - 1, surest + 1} & {*range(n_places)} <= found


@pytest.mark.parametrize("weights", [(0.0, 1.0), (1.0, 0.0)])
def test_blocks_that_weigh_nothing_are_no_guess(monkeypatch, rows, weights):
    X, _, values, _ = rows
    monkeypatch.setattr(finishing, "MIN_GUESSED", 64)
    map_ = srf.Concatenate([srf.Identity(), srf.RandomFourier(n_components=90)])
    model = srf.RandomFeatureRegressor(map_, block_weights=weights, random_state=0).fit(X, values)
    assert model.model_.encoder.n_components == (90 if weights[1] else 4)


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_many_features_try_fewer_penalties(monkeypatch, rows, kind):
    """From what a part of the features guesses, a penalty as good as that among all is found."""
    X, labels, values, _ = rows
    y, regression = (values, True) if kind == "values" else (labels, False)
    source = srf.ArraySource(X, y)
    found = []
    for least in (1 << 20, 256):
        monkeypatch.setattr(finishing, "MIN_GUESSED", least)
        pass_ = held_pass(source, map_=features(256), regression=regression)
        found.append(finish(pass_, "auto")[0])
    among_all, guessed = found
    error, least_error = (dict(model.history)[model.alpha] for model in (guessed, among_all))
    assert error <= 1.02 * least_error
    assert len(guessed.history) < len(among_all.history)


def test_starts_beyond_the_greatest_penalty_count_as_it(monkeypatch):
    tried = []

    def solve(alphas):
        tried.extend(map(place, alphas))
        return []

    penalty.downhill(solve, PLACES, HeldOut([], None), [40, 3])
    n_more = round(np.log(penalty.GREATER) / np.log(PLACES[1] / PLACES[0]))
    assert tried == [len(PLACES) - 1 + n_more, 3]


def test_all_features_begin_with_a_penalty_that_has_grown_as_they_have(monkeypatch, rows):
    """The same function of the same kernel: four times the features, four times the penalty."""
    X, labels, _, _ = rows
    monkeypatch.setattr(finishing, "MIN_GUESSED", 256)
    plain, seen = finishing.downhill, []

    def watched(solve, alphas, held, starts):
        seen.extend(alphas[i] / narrow for i, narrow in zip(starts, parts, strict=True))
        return plain(solve, alphas, held, starts)

    parts = []

    def found(trials):
        found = valleys(trials)
        parts.extend(trial.model.alpha for trial in found)
        return found

    valleys = finishing.valleys
    monkeypatch.setattr(finishing, "downhill", watched)
    monkeypatch.setattr(finishing, "valleys", found)
    finish(held_pass(srf.ArraySource(X, labels), map_=features(256)), "auto")
    assert len(seen) == 1
    assert 4 / 1.5 <= seen[0] <= 4 * 10 ** (10 / 24) * 1.5  # scales of the two differ a little


@pytest.mark.parametrize(("n_rows", "is_guessed"), [(600, True), (200, False)])
def test_of_more_features_than_rows_a_part_says_nothing(monkeypatch, rows, n_rows, is_guessed):
    X, labels, _, _ = rows
    monkeypatch.setattr(finishing, "MIN_GUESSED", 256)
    plain, calls = finishing.downhill, []

    def watched(*arguments):
        calls.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(finishing, "downhill", watched)
    source = srf.ArraySource(np.resize(X, (n_rows, X.shape[1])), np.resize(labels, n_rows))
    model = finish(held_pass(source, map_=features(256)), "auto")[0]
    assert bool(calls) == is_guessed
    assert len(model.history) >= (3 if is_guessed else 10)


def test_a_part_with_the_least_penalty_says_nothing(monkeypatch, rows):
    """It holds all that it is given, and more features may want another."""
    X, _, values, _ = rows
    monkeypatch.setattr(finishing, "valleys", lambda trials: trials[:1])
    least = finishing.searched

    def to_the_least(solve, alphas, held, stride, finest=1):
        return least(solve, alphas, held, 1)  # all of them, so that the first is the least

    models = []
    for smallest in (1 << 20, 256):
        monkeypatch.setattr(finishing, "MIN_GUESSED", smallest)
        monkeypatch.setattr(finishing, "searched", to_the_least)
        pass_ = held_pass(srf.ArraySource(X, values), map_=features(256), regression=True)
        models.append(finish(pass_, "auto")[0])
    assert models[0].history == models[1].history


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_too_few_rows_to_choose_by_take_the_evidence(rows, kind):
    X, labels, values, _ = rows
    y, regression = (values, True) if kind == "values" else (labels, False)
    pass_ = held_pass(srf.ArraySource(X[:20], y[:20]), regression=regression)
    model, statistics = finish(pass_, "auto")
    assert model.history == ()
    assert model.alpha == statistics.path().best_alpha("evidence")
    assert "evidence" in model.notes[0]


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_where_few_rows_are_held_out_the_evidence_has_a_say(rows, kind, monkeypatch):
    X, labels, values, _ = rows
    y, regression = (values, True) if kind == "values" else (labels, False)

    def fitted(n_rows):
        pass_ = held_pass(srf.ArraySource(X[:n_rows], y[:n_rows]), regression=regression)
        alpha = pass_.copy().finished().path().best_alpha("evidence")  # of the rows not held out
        return finish(pass_, "auto")[0], alpha

    model, evident = fitted(150)
    many, _ = fitted(N)
    tried = [alpha for alpha, _ in model.history]
    assert sorted(tried) == tried
    if kind == "classes":
        assert model.alpha == pytest.approx(evident)
    assert np.isclose(tried, evident).sum() == 1
    away = abs(np.log(model.alpha / evident))
    monkeypatch.setattr(finishing, "FEW_HELD", 0)
    alone, _ = fitted(150)
    assert away <= abs(np.log(alone.alpha / evident))
    assert len(model.history) in (len(alone.history), len(alone.history) + 1)
    assert fitted(N)[0].history == many.history


def test_rows_held_out_may_speak_against_the_evidence(rows, monkeypatch):
    X = rows[0]
    labels = X[:, 0] > X[:, 1]
    monkeypatch.setattr(Path, "best_alpha", lambda path, criterion: float(path.alphas[-1]))
    pass_ = held_pass(srf.ArraySource(X[:300], labels[:300]))
    model, _ = finish(pass_, "auto")
    assert model.alpha < max(alpha for alpha, _ in model.history)


def test_the_units_of_several_targets_have_no_say(rows):
    X = rows[0]
    rng = np.random.default_rng(0)
    targets = np.column_stack([np.sin(X[:, 0]), rng.normal(size=len(X)), np.full(len(X), 3.0)])
    found = [
        estimator("values").fit(X, targets * [1.0, unit, 1.0]).model_
        for unit in (1.0, 2.0**-20, 2.0**20, 2.0**200)
    ]
    assert len({model.alpha for model in found}) == 1
    figures = [np.array(model.history)[:, 1] / model.history[0][1] for model in found]
    for others in figures[1:]:
        np.testing.assert_allclose(others, figures[0], rtol=1e-6)
    plain = (model for model in (estimator("values").fit(X, targets[:, 0]).model_,))
    assert next(plain).history[0][1] < 1  # a mean square of one target, as it was


def test_few_noisy_rows_are_not_overfitted(rng):
    """By the evidence, and by rows held out beyond the usual penalties where features abound."""
    for n in (40, 150):
        X = rng.normal(size=(n + 500, 5))
        truth = X[:, 0]
        y = truth + 3 * rng.normal(size=n + 500)
        map_ = srf.RandomFourier(srf.Gaussian(0.1), 600, random_state=0)
        model = srf.RandomFeatureRegressor(map_, random_state=0).fit(X[:n], y[:n])
        assert np.mean((model.predict(X[n:]) - truth[n:]) ** 2) < 2 * truth[n:].var()  # 50 by 1e-3
        assert model.alpha_ > model.statistics_.alpha_scale()


@pytest.mark.filterwarnings("ignore:the .* rows of X looked at before the pass are all equal")
def test_features_that_never_vary_still_give_a_model(rows):
    _, y, _, _ = rows
    model, _ = finish(held_pass(srf.ArraySource(np.ones((N, 4)), y)), "auto")
    counts = np.bincount(y)
    assert (model.predict(np.ones((3, 4))) == counts.argmax()).all()


def test_a_penalty_given_is_taken(rows):
    X, y, _, _ = rows
    pass_ = begin(srf.ArraySource(X, y), features(8))
    model, statistics = finish(add(srf.ArraySource(X, y), pass_), 0.25)
    assert (model.alpha, model.history) == (0.25, ())
    assert statistics.n_rows == N


def picks_of(model):
    return model.encoder.columns


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_pruning_is_by_the_rows_summed_and_the_penalty_by_those_held_out(rows, kind):
    X, labels, values, _ = rows
    y, regression = (values, True) if kind == "values" else (labels, False)
    pass_ = held_pass(srf.ArraySource(X, y), regression=regression)
    summed = pass_.fresh().finished()
    wide, _ = finish(pass_.fresh(), "auto")
    narrow = Pass(summed.prune(20, wide.alpha), pass_.holdout.copy())
    expected, _ = finish(narrow, "auto")
    model, statistics = finish(pass_, "auto", prune=20)
    np.testing.assert_array_equal(picks_of(model), picks_of(expected))
    assert model.history == expected.history
    assert model.n_rows == statistics.n_rows == N
    assert statistics.encoder.n_components == 60
    assert_same_bytes(model.coef, statistics.select(picks_of(model)).solve(model.alpha).coef)
    assert_same_bytes(model.coef, expected.coef)


def test_pruning_to_all_features_changes_nothing(rows):
    X, y, _, _ = rows
    pass_ = held_pass(srf.ArraySource(X, y))
    plain, _ = finish(pass_.fresh(), "auto")
    model, _ = finish(pass_, "auto", prune=60)
    assert (model.alpha, model.history) == (plain.alpha, plain.history)
    assert_same_bytes(model.coef, plain.coef)


def test_what_was_pruned_is_pruned_further_by_its_own_places(rows):
    X, y, _, _ = rows
    source = srf.ArraySource(X, y)
    pruned = accumulate(source, features(60)).prune(30, 1.0)
    pass_ = begin(source, None, like=pruned, hold_out=True)
    model, statistics = finish(add(source, pass_), "auto", prune=10)
    assert set(picks_of(model)) <= set(pruned.columns)
    assert statistics.encoder.n_components == 30
    whole = accumulate(source, features(60)).select(picks_of(model))
    assert_same_bytes(model.coef, whole.solve(model.alpha).coef)


@pytest.mark.filterwarnings("ignore:the .* rows of X looked at before the pass are all equal")
def test_pruning_with_a_penalty_given_or_too_few_rows_to_choose_one(rows):
    X, y, _, _ = rows
    model, statistics = finish(held_pass(srf.ArraySource(X, y)), 0.25, prune=8)
    assert_same_bytes(model.coef, statistics.prune(8, 0.25).solve(0.25).coef)
    model, statistics = finish(held_pass(srf.ArraySource(X[:20], y[:20])), "auto", prune=8)
    assert model.history == ()
    assert_same_bytes(model.coef, statistics.prune(8, model.alpha).solve(model.alpha).coef)
    model, _ = finish(held_pass(srf.ArraySource(np.ones((N, 4)), y)), "auto", prune=8)
    assert (model.predict(np.ones((3, 4))) == np.bincount(y).argmax()).all()


def test_a_copy_of_a_pass_goes_its_own_way(rows):
    X, y, _, _ = rows
    source = srf.ArraySource(X, y)
    pass_ = held_pass(source, window=(0, 500))
    half = finish(held_pass(source, window=(0, 500)), "auto")
    model, statistics = finish(pass_.fresh(), "auto")
    assert_same_bytes(statistics.to_tree(), half[1].to_tree())
    assert_same_bytes(model.coef, half[0].coef)
    add(source, pass_, start=500)
    whole = held_pass(source)
    np.testing.assert_array_equal(positions(pass_), positions(whole))
    assert_same_bytes(pass_.join().to_tree(), whole.join().to_tree())


class CountingSource(srf.ArraySource):
    """Counts the rows that a pass reads."""

    n_read = 0

    def blocks(self, *args, **options):
        for block in super().blocks(*args, **options):
            self.n_read += len(block.X)
            yield block


class Once:
    """Blocks that can be had one time only."""

    def __init__(self, *arrays):
        self.arrays = arrays
        self.begun = False

    def __iter__(self):
        assert not self.begun, "iterated a second time"
        self.begun = True
        for start in range(0, N, 64):
            yield tuple(array[start : start + 64] for array in self.arrays)


def estimator(kind, **options):
    model = srf.RandomFeatureRegressor if kind == "values" else srf.RandomFeatureClassifier
    return model(features(60), random_state=0, **options)


@pytest.mark.parametrize("alpha", ["auto", 1.0])
@pytest.mark.parametrize("kind", ["classes", "values"])
def test_the_rows_are_read_once(rows, kind, alpha):
    X, labels, values, weights = rows
    source = CountingSource(X, values if kind == "values" else labels, weights)
    estimator(kind, alpha=alpha).fit(source)
    assert source.n_read == N


@pytest.mark.parametrize("alpha", ["auto", 1.0])
@pytest.mark.parametrize("kind", ["classes", "values"])
def test_an_iterator_that_cannot_be_read_twice_is_enough(rows, kind, alpha):
    X, labels, values, weights = rows
    y = values if kind == "values" else labels
    blocks = Once(X, y, weights)
    fitted = estimator(kind, alpha=alpha).fit(srf.IteratorSource(blocks))
    assert blocks.begun
    with pytest.raises(AssertionError, match="second time"):
        list(blocks)
    assert len(fitted.model_.history) >= 10 if alpha == "auto" else not fitted.model_.history
    # 900 rows calibrate an iterator as they do an array, so the model is that of the array
    same = estimator(kind, alpha=alpha).fit(srf.ArraySource(X, y, weights))
    assert_same_bytes(fitted.model_.coef, same.model_.coef)
    assert fitted.statistics_.n_rows == N


def test_a_second_pass_over_a_generator_is_refused(rows):
    X, y, _, _ = rows
    source = stream(X, y)
    estimator("classes").fit(source)
    with pytest.raises(ConsumedError, match="read"):
        estimator("classes").fit(source)


def test_too_few_rows_to_train_on_take_a_fixed_share(rows):
    """Rows held out are enough to choose by, but hardly any are left to learn from."""
    X, y, _, _ = rows
    held = positions(held_pass(srf.ArraySource(X, y)))
    trained = np.setdiff1d(np.arange(N), held)[:9]
    bad = np.full_like(X, np.nan)
    kept = np.concatenate((held, trained))
    bad[kept] = X[kept]
    fitted = estimator("classes", on_bad_rows="skip").fit(srf.ArraySource(bad, y))
    assert len(held) > 100
    assert fitted.statistics_.n_rows == len(kept)
    assert fitted.model_.history == ()


def test_rows_held_by_unequal_shares_are_those_of_the_lesser(rows, monkeypatch):
    """What a short shard holds by the first share is let go where a long one has halved its own."""
    X, y, _, _ = rows
    monkeypatch.setattr(holdout, "MAX_ROWS", 60)

    def taken(start, stop):
        held, summed = holdout.Holdout(None, 1), []
        for block in srf.ArraySource(X, y).blocks(start, stop, block_rows=50):
            summed += held.take(block)
        return held, summed

    def all_positions(parts):
        return sorted(np.concatenate([part.positions for part in parts]))

    whole, _ = taken(0, N)
    (long, first), (short, second) = taken(0, 840), taken(840, N)
    assert long.share < short.share
    for shards in ((long, short), (short, long)):
        merged = holdout.Holdout(None, 1)
        let_go = list(merged.absorb(shard.copy() for shard in shards))
        assert merged.share == whole.share
        assert all_positions(merged.held) == all_positions(whole.held)
        assert all_positions([*merged.held, *let_go, *first, *second]) == list(range(N))


def test_the_penalty_of_values_does_not_depend_on_their_unit(rng):
    """Squares of squared errors overflowed, and the greatest penalty was taken."""
    X = rng.normal(size=(400, 3))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=400)
    features = srf.RandomFourier(srf.Gaussian(0.5), 64, random_state=0)
    alphas = [
        srf.RandomFeatureRegressor(features, alpha="auto", random_state=0).fit(X, y * unit).alpha_
        for unit in (1, 2.0**265)
    ]
    assert alphas[0] == alphas[1]
