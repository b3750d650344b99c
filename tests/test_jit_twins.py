"""Every compiled kernel has a plain twin."""

import importlib
import inspect
import pkgutil

import numba
import pytest

import naive
from streamrf import jit

FAMILIES = [family.name for family in pkgutil.iter_modules(jit.__path__)]


def compiled_kernels(family):
    """The public functions that a family defines."""
    module = importlib.import_module(f"streamrf.jit.{family}")
    for name, value in vars(module).items():
        function = value.py_func if isinstance(value, numba.core.dispatcher.Dispatcher) else value
        own = inspect.isfunction(function) and function.__module__ == module.__name__
        if own and not name.startswith("_"):
            yield name


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kernel_has_a_twin(family):
    kernels = list(compiled_kernels(family))
    assert kernels
    missing = [name for name in kernels if not inspect.isfunction(getattr(naive, name, None))]
    assert not missing, f"tests/naive.py lacks twins of {missing}"
