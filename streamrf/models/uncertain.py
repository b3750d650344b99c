"""What a model that keeps the covariance of its coefficients says: deviations, novelty of rows."""

from typing import Any

import numpy as np

from streamrf.engine import map_blocks
from streamrf.errors import ParameterError, check_choice
from streamrf.jit.arrays import Array, Floats
from streamrf.models.posterior import Posterior
from streamrf.models.prediction import Predictor, Rows
from streamrf.sources import Block


class UncertainPredictor(Predictor):
    """What may keep a posterior.

    Attributes
    ----------
    posterior : or None
    book : code book, None where values are predicted
    block_weights : weights of the blocks of the map, or None
    """

    posterior: Posterior | None
    book: Any
    block_weights: Floats | None

    def _deviations(self, X: Array, posterior: Posterior) -> Floats:
        """Return the standard deviations of new targets at rows X, float64 (n, n_targets)."""
        return posterior.deviations(self._scaled(X), self._step)

    def _scaled(self, X: Array) -> Floats:
        """Return features; once more: little next to what is done with them."""
        Z = np.empty((len(X), self.encoder.n_components))
        self.encoder.scale(X, Z)
        return Z

    def novelty(self, source: Rows, kind: str = "leverage", **options: Any) -> Floats:
        """Return how unlike the rows summed each row is, by its features, float64 (n_rows,).

        Parameters
        ----------
        source : Source, or array (n, n_features); n_components^2 operations a row
        kind : "leverage", ``h = 1 / weight + (z - mean)^T (A + alpha I)^-1 (z - mean)`` with A the
            Gram of the centred features, for a row summed from 0 to 1, on average
            ``posterior.dof / weight``; or "mahalanobis", ``sqrt(weight h - 1)``, the distance to
            the mean in the metric of their covariance, penalised by ``alpha / weight``
        options : as in `scored`

        Raises
        ------
        ParameterError
            Another kind, or a model that was not solved with ``uncertainty=True``.
        """
        check_choice("kind", kind, ("leverage", "mahalanobis"))
        posterior = self._kept_posterior()
        reading, run = self.reading(source, **options)
        found = np.concatenate(list(map_blocks(reading.of_rows_alone(), self._leverages, run, 8)))
        is_leverage = kind == "leverage"
        return found if is_leverage else np.sqrt(np.maximum(found * posterior.weight - 1, 0.0))

    def _leverages(self, block: Block) -> Floats:
        return self._kept_posterior().leverages(self._scaled(block.X), self._step)

    @property
    def coef_variances(self) -> Floats:
        """Variances of the coefficients, in the units of `coef`, float64 (n_outputs, n)."""
        posterior = self._checked_posterior()
        own = np.outer(posterior.noise, posterior.inverse_diagonal)
        return own * self._step**2

    @property
    def _step(self) -> Floats:
        """Steps of the calibration in the unit that coefficients were penalised in."""
        return self.encoder.calibration.step * self.encoder.block_scales(self.block_weights)

    def _checked_posterior(self) -> Posterior:
        if self.book is not None:
            raise ParameterError("return_std is for regressors; use predict_proba")
        return self._kept_posterior()

    def _kept_posterior(self) -> Posterior:
        if self.posterior is None:
            raise ParameterError(
                "this model does not keep the covariance of its coefficients: solve its statistics "
                "with uncertainty=True (streamrf solve --uncertainty), or fit a "
                "RandomFeatureRegressor with it"
            )
        return self.posterior
