"""Settings by name, as scikit-learn has them, without importing it.

To import scikit-learn takes longer than all else that a prediction needs (design/0024-start.md).
What asks for nothing but names of settings, `sklearn.base.clone`, searches and pipelines, asks for
these methods, not for `BaseEstimator`.
"""

import copy
import inspect
from typing import Any, Self, TypeVar

MAX_TEXT = 400  # characters of a setting in a repr

T = TypeVar("T")


class Parametrized:
    """What has settings: the arguments of its constructor, kept under their names."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the names of the settings, sorted; named as in `BaseEstimator`."""
        return sorted(_defaults(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings; if `deep` those inside them too, as "NAME__INNER"."""
        params = {name: getattr(self, name) for name in self._get_param_names()}
        if deep:
            params |= {
                f"{name}__{inner}": found
                for name, value in params.items()
                if hasattr(value, "get_params") and not isinstance(value, type)
                for inner, found in value.get_params().items()
            }
        return params

    def set_params(self, **params: Any) -> Self:
        """Set settings by the names that `get_params` returns.

        Raises
        ------
        ValueError
            For a name that is none of them, also of those inside a setting.
        """
        inside: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            outer, dots, inner = name.partition("__")
            if outer not in self.get_params():
                raise ValueError(
                    f"{type(self).__name__} has no setting {outer!r}; it has "
                    f"{self._get_param_names()}"
                )
            if dots:
                inside.setdefault(outer, {})[inner] = value
            else:
                setattr(self, name, value)
        for outer, settings in inside.items():
            found = self.get_params()[outer]
            if not hasattr(found, "set_params") or isinstance(found, type):
                raise ValueError(
                    f"{type(self).__name__} has {outer}={found!r}, which has no settings such as "
                    f"{next(iter(settings))!r}; set {outer} first"
                )
            found.set_params(**settings)
        return self

    def __repr__(self) -> str:
        defaults = _defaults(type(self))
        texts = {name: repr(value) for name, value in self.get_params(deep=False).items()}
        changed = [
            f"{name}={text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + '...'}"
            for name, text in texts.items()
            if text != repr(defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def clone(value: T) -> T:
    """Return a copy with the same settings and nothing fitted; of a list those of its items."""
    if hasattr(value, "__sklearn_clone__") and not isinstance(value, type):
        return value.__sklearn_clone__()
    if isinstance(value, Parametrized):
        settings = value.get_params(deep=False)
        return type(value)(**{name: clone(setting) for name, setting in settings.items()})
    if isinstance(value, list | tuple):
        return type(value)(map(clone, value))
    return copy.deepcopy(value)


def _defaults(cls: type) -> dict[str, Any]:
    """Return the settings of a class with their defaults."""
    if cls.__init__ is object.__init__:  # type: ignore[misc]
        return {}
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    return {parameter.name: parameter.default for parameter in parameters}
