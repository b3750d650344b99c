"""What the estimators share: fitting arrays as well as sources."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from streamrf.display import Run, shown
from streamrf.engine import RunOptions
from streamrf.errors import ParameterError, check_flag
from streamrf.estimators.batches import check_alike, check_batch, lock_of, reopened, whole
from streamrf.estimators.settings import (
    OF_SUMS,
    check_unchanged,
    checked_labels,
    checked_rows,
    checked_weights,
    described,
    keep_columns,
    of_sums,
    ordered,
    rows_alone,
)
from streamrf.features import FeatureMap, check_names
from streamrf.jit.threads import computing
from streamrf.models import Model
from streamrf.solving import SQUARED, check_loss, check_penalties
from streamrf.sources import (
    IteratorSource,
    Known,
    Source,
    as_source,
    as_targets,
    check_known,
    is_for_source,
    is_lazy,
    named,
    names_of,
    same_labels,
)
from streamrf.statistics import Statistics
from streamrf.storage import digest
from streamrf.training import (
    READING,
    SOLVING,
    HeldRows,
    Holdout,
    Job,
    Pass,
    Settings,
    begin,
    check_job,
    finish,
    foresee_finish,
    is_auto_decode,
    of_loss,
    peek_rows,
    refine_job,
)

if TYPE_CHECKING:
    from distributed import Client

Rows = Source | ArrayLike
Values = ArrayLike | None  # targets, weights or labels


class RandomFeatureEstimator(BaseEstimator):
    """What the classifier and the regressor share; see there."""

    _regression: bool
    n_components: int | None
    kernels: str | Sequence[str] | None
    budget: float | None = None  # which old pickles lack
    codes: Any
    class_weight: Any
    loss: str
    max_passes: int
    uncertainty: bool
    verbose: bool
    _pass: Pass | None  # that goes on; None before the map is drawn, and after `fit`
    _target_names: tuple[str, ...] | None = None  # of y, where it was a table
    _waiting: list[Any] | None  # batches before the map is drawn, then None
    _classes: Values  # given with the first batch
    _holdout: Holdout | None  # the rows that `fit` held out
    _begun_with: dict[str, str]  # parameters of the sums
    _stream_key: str | None  # ledger key of the batches
    _solved: tuple[Model, Statistics | None] | None  # no statistics if loaded from a file

    @whole
    def fit(
        self,
        X: Rows,
        y: Values = None,
        sample_weight: Values = None,
        *,
        engine: "Client | None" = None,
        parts: int | None = None,
        spill: str | os.PathLike | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Self:
        """Learn in one pass, or of another loss than the squared one in up to `max_passes`.

        Parameters
        ----------
        X : Source with targets, array, Dask array (n_rows, n_features), or table; see `open_source`
        y : (n_rows,) labels, or (n_rows,) or (n_rows, n_targets) values; None with a Source
        sample_weight : (n_rows,) or None; None with a Source, which brings its own
        engine, parts, spill : a `distributed.Client` whose workers do it, see `accumulate`
        progress : called with the number of rows done after each block

        Returns
        -------
        self, which an error leaves as it was
        """
        if self._is_source(X, y, reset=True):
            source = self._named(as_source(X, y, sample_weight))
        else:
            checked = self._checked(X, y, sample_weight, reset=True)
            source = as_source(*checked)
        check_flag("verbose", self.verbose)
        check_flag("uncertainty", self.uncertainty)
        job = self._job(source, engine=engine, parts=parts, spill=spill, progress=progress)
        with shown(Run(expected=[READING, SOLVING]), self.verbose):
            pass_ = begin(job)
            check_job(job, pass_, self.max_passes)
            foresee_finish(pass_, self.alpha, source.n_rows)
            pass_ = job.fold(pass_, self.prune, self.block_weights)
            held = HeldRows.of(pass_)
            holdout = None if pass_.holdout is None else pass_.holdout.copy()
            self._solve(pass_)
            model, statistics = self._answer()
            self._solved = refine_job(job, model, held, self.max_passes), statistics
        self._pass = self._waiting = self._classes = None
        self._holdout, self._begun_with = holdout, of_sums(self)
        return self

    @whole
    def _partial_fit(self, X: Rows, y: Values, classes: Values, sample_weight: Values) -> Self:
        """Add a batch or the rows of a source."""
        if self.loss != SQUARED:
            raise ParameterError(
                f"loss={self.loss!r} is for fit, which reads the rows again; partial_fit sees each "
                "batch once, so leave loss out"
            )
        if isinstance(self.class_weight, str):
            raise ParameterError("class_weight='balanced' is for fit; give partial_fit a dict")
        is_first = not hasattr(self, "_waiting")
        classes = classes if is_first else self._agreed(classes)
        batch: tuple[Any, Any, Any] | None = None
        is_given = self._is_source(X, y, reset=is_first)
        if is_given:
            y = y if is_first else ordered(y, self._target_names)
            source = as_source(X, y, sample_weight)
            if is_first:
                source = self._named(source)
            source = source if classes is None else Known(source, classes)
        else:
            batch = self._checked(X, y, sample_weight, reset=is_first)
            if classes is not None:
                check_known(batch[1], classes)
            source = as_source(*batch) if issparse(batch[0]) else IteratorSource([batch])
            if source.is_sparse:
                batch = None
            elif issparse(batch[0]):
                batch = (batch[0].toarray(), *batch[1:])
        if is_first:
            self._pass, self._waiting, self._classes, self._solved = None, [], classes, None
            self._begun_with = of_sums(self)
        check_unchanged(self, source.has_weights)
        job = self._job(source, self._classes)  # raises for settings that do not fit
        if batch is not None and self._waiting is not None:
            check_batch(job.source, None, self.on_bad_rows)
            self._solved = None
            copies = tuple(None if part is None else np.array(part) for part in batch)
            self._waiting = [*self._waiting, copies]  # a new list: an error leaves the old one
            check_alike(self._waiting[0], copies)
            if self._n_waiting >= peek_rows(self.n_features_in_):
                self._begin_stream()
            return self
        pass_ = self._opened(job)
        self._solved = None
        if not is_given:
            check_batch(job.source, pass_, self.on_bad_rows)  # by rows of the batch
        if batch is not None:
            if self._stream_key is None:  # the first batch after sources
                ledger = pass_.statistics.ledger
                self._stream_key = digest([sorted(ledger.ranges), source.sample(1).key])
                self._rows_seen = ledger.n_rows
            source = IteratorSource([batch], position=self._rows_seen, key=self._stream_key)
            self._rows_seen += len(batch[0])
            job = self._job(source, self._classes)
        self._pass, self._waiting = self._folded(job, pass_), None
        return self

    def _folded(self, job: Job, pass_: Pass) -> Pass:
        """Return the pass after adding the rows of a job, all of which it can answer for."""
        held = [] if pass_.holdout is None else list(pass_.holdout.held)
        return job.fold(pass_, self.prune, self.block_weights).rest(held)

    def _agreed(self, classes: Values) -> Values:
        """Return the classes said to be all; raise ParameterError for others than before."""
        before = self._classes
        if classes is None:
            return before
        seen: Any
        if before is None:  # said late: of the rows so far too
            if self._waiting:
                seen = np.concatenate([batch[1] for batch in self._waiting])
            else:
                seen = self._pass.statistics.labels if self._pass else self._answer()[0].labels
            check_known(seen, classes)
            self._classes = classes
        elif not same_labels(before, classes):
            raise ParameterError(
                f"classes={np.unique(classes).tolist()} are not those of the first call, "
                f"{np.unique(before).tolist()}; leave classes out, or begin anew by a clone"
            )
        return classes

    def _opened(self, job: Job) -> Pass:
        """Return the pass to go on with, in memory of its own: an error leaves ours as it is."""
        if self._waiting:
            self._begin_stream()
            assert self._pass is not None
            return self._pass  # made in this call
        if self._pass is not None:
            return self._pass.copy()
        self._stream_key = None
        if self._waiting is not None:
            return begin(job)
        return reopened(self._answer()[1], self._holdout)

    @property
    def _n_waiting(self) -> int:
        return sum(len(batch[0]) for batch in self._waiting or ())

    def _begin_stream(self) -> None:
        """Draw the map for the batches that wait, and add them."""
        source = IteratorSource(self._waiting)
        self._stream_key = source.sample(1).key
        job = self._job(source, self._classes)
        self._pass = self._folded(job, begin(job))
        self._rows_seen, self._waiting = self._n_waiting, None

    def predict(self, X: Rows, **options: Any) -> Any:
        """Return the label or value of each row of an array or source, see `Model.predict`."""
        return self.model_.predict(self._rows(X), **options)

    def evaluate(self, X: Rows, y: Values = None, **options: Any) -> dict[str, Any]:
        """Return all figures of `Model.evaluate` on a source, a table, or on arrays X and y."""
        rows = X if is_for_source(X, y) else self._rows(X)
        return self.model_.evaluate(rows, ordered(y, self._target_names), **options)

    def save(self, path: str | os.PathLike) -> None:
        """Write model and settings, but no statistics, to an HDF5 file; see `load_model`."""
        model, names = self.model_, getattr(self, "feature_names_in_", None)
        tree = {
            "class": type(self).__name__,
            "settings": described(self.get_params(deep=False)),
            "n_features_in_": self.n_features_in_,
            "feature_names_in_": None if names is None else names.tolist(),
        }
        replace(model, estimator=tree).save(path)

    @property
    def model_(self) -> Model:
        """The trained model."""
        return self._answer()[0]

    @property
    def statistics_(self) -> Statistics:
        """The statistics of the rows seen, all features of the map."""
        if (statistics := self._answer()[1]) is None:
            raise AttributeError("a model file has no statistics; keep them: statistics_.save")
        return statistics

    @property
    def alpha_(self) -> float:
        """The penalty that was used."""
        return self.model_.alpha

    @property
    def features_(self) -> FeatureMap:
        """The fitted feature map."""
        return self.model_.encoder.features

    @property
    def columns_(self) -> np.ndarray:
        """Places in the map of the features that the model keeps, int64."""
        return self.model_.encoder.columns

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients of the features `columns_`, float64 (n_outputs, n_kept); not of columns.

        Selectors of columns take others: ``importance_getter="feature_importances_"``.
        """
        return self.model_.coef / self.model_.encoder.calibration.step

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, float64 (n_outputs,)."""
        return self.model_.intercept - self.coef_ @ self.model_.encoder.calibration.shift

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each column in the squared gradients that taught the warp, (n_columns,)."""
        warp = self.model_.encoder.preprocessing.warp
        if warp is None:
            raise AttributeError(
                "importances come from the warp, and this model has none; warp='diagonal' learns it"
            )
        table = self.model_.encoder.table
        return warp.importances if table is None else table.sums(warp.importances)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _job(self, source: Source, classes: Any = None, **run: Any) -> Job:
        """Return the pass over a source that the parameters describe."""
        names = getattr(self, "feature_names_in_", None)
        check_names(self.features, names)
        source = named(source, names, self._target_names)
        check_penalties(self.alpha)  # now, not after the pass
        check_loss(self.loss)
        settings = replace(self._settings(), classes=classes)
        options = RunOptions(memory_limit=self.memory_limit, n_threads=self.n_threads, **run)
        return replace(Job.of(source, settings, options), loss=self.loss, solves=True)

    @property
    def _codes(self) -> Any:
        return of_loss(self.codes, self.loss)

    def _settings(self) -> Settings:
        """Return what the parameters say of a pass."""
        names = (*OF_SUMS, "class_weight", "on_bad_rows", "random_state")
        given = {name: getattr(self, name) for name in names} | {"codes": self._codes}
        if self.features is None:
            given["features"] = "auto"
        return Settings(
            **given,
            task="regression" if self._regression else "classification",
            hold_out=isinstance(self.alpha, str) or is_auto_decode(self.codes),
        )

    def _solve(self, pass_: Pass) -> None:
        options = {name: getattr(self, name) for name in ("prune", "block_weights", "uncertainty")}
        with computing(self.n_threads):
            self._solved = finish(pass_, self.alpha, self._codes, **options)

    def _answer(self) -> tuple[Model, Statistics | None]:
        check_is_fitted(self, "n_features_in_")
        with lock_of(self):
            if self._solved is None:
                if self._waiting is not None:
                    self._begin_stream()
                assert self._pass is not None
                self._solve(self._pass.fresh())
            assert self._solved is not None
            return self._solved

    def _is_source(self, X: Rows, y: Values, reset: bool) -> bool:
        """Return whether X is a source or is to be read by one, and not checked as an array."""
        if is_for_source(X, y):
            return True
        if reset:
            return False
        if self._pass is not None:
            return self._pass.statistics.encoder.is_of_table
        return self._solved is not None and self._solved[0].encoder.is_of_table

    def _named(self, source: Source) -> Source:
        """Return the source, after keeping the number and names of its columns."""
        keep_columns(self, source)
        return source

    def _rows(self, X: Rows) -> Any:
        if is_lazy(X) or self.model_.encoder.is_of_table:  # read by the names of its columns
            return X
        return rows_alone(self, X, accept_sparse="csr")

    def _checked(self, X: Rows, y: Values, sample_weight: Values, reset: bool) -> Any:
        """Return X, maybe CSR, y and weights checked but for NaN, which the pass names or skips."""
        if reset:
            self._target_names = names_of(y, "y")
        y = ordered(y, self._target_names)
        how = {"accept_sparse": "csr", "ensure_all_finite": False, "reset": reset}
        rows = checked_rows(self, X, y, **how)
        n_rows = rows.shape[0]
        y = as_targets(y, n_rows, "y") if self._regression else checked_labels(y, n_rows)
        return rows, y, None if sample_weight is None else checked_weights(sample_weight, n_rows)
