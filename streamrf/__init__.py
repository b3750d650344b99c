"""Kernel machines on data larger than memory, trained by reading it once."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamrf.api import *  # noqa: F403

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: scikit-learn and SciPy take over a second (PEP 562)."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module 'streamrf' has no attribute {name!r}")
    module = f"streamrf.{name}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
    api = importlib.import_module("streamrf.api")
    if name not in ("__all__", *api.__all__):
        raise AttributeError(f"module 'streamrf' has no attribute {name!r}")
    value = globals()[name] = getattr(api, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *importlib.import_module("streamrf.api").__all__})
