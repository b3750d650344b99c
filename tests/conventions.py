"""scikit-learn's checks of estimators, one by one."""

import warnings

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator


def conventions(estimator):
    """Yield an estimator and a check of it, also of what does not inherit from scikit-learn's base.

    See design/0024.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not inherit from `sklearn.base", UserWarning)
        yield from estimator_checks_generator(estimator, mark=None)


def check_convention(check, estimator, expected):
    """Run a check; one whose name is in `expected`, with the reason, must fail.

    Its traceback, which pytest takes a quarter of a second to write, is not kept.
    """
    reason = expected.get(check.func.__name__)
    if reason is None:
        check(estimator)
    else:
        with pytest.raises(Exception):  # noqa: B017, PT011 - of any kind
            check(estimator)
        pytest.xfail(reason)
