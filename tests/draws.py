"""What many draws of a map say about the error of its products."""

import numpy as np
from sklearn.base import clone

from streamrf.jit.threads import computing


def errors_over_draws(features, X, n_draws, *, diagonal=0, change=None):
    """``<Z(x), Z(y)> - K(x, y)`` over pairs of rows, one draw of a map for each seed from 0.

    Parameters
    ----------
    features : a map, which is left alone
    X : (n_rows, n_features)
    n_draws : int
    diagonal : of the kernel matrix, where pairs begin: 1 for those of different rows alone
    change : ``change(features)``, called on every fitted map, or None

    Returns
    -------
    (n_draws, n_pairs) float64
    """
    features = clone(features)
    pairs = np.triu_indices(len(X), diagonal)
    errors = np.empty((n_draws, len(pairs[0])))
    with computing(1):
        for seed in range(n_draws):
            features.set_params(random_state=seed).fit(X)
            if change is not None:
                change(features)
            Z = features.transform(X).astype(np.float64)
            errors[seed] = (Z @ Z.T - features.kernel_(X))[pairs]
    return errors
