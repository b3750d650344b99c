"""Options of commands, declared once as the fields of frozen dataclasses.

A command takes whole objects, ``def fit(rows: RowOptions, run: RunOptions) -> Answer``, and
`flattened` gives it the signature that Typer reads, one parameter for each of their fields.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Annotated, Any, TypeVar

import typer

from streamrf.cli.help import meant

T = TypeVar("T")


@dataclass(frozen=True)
class _Declared:
    names: tuple[str, ...]
    words: tuple[str, ...]
    read: Callable[[str], Any] | None
    typer_settings: dict[str, Any]


def option(
    help: str,
    *names: str,
    default: Any = None,
    words: Iterable[str] = (),
    read: Callable[[str], Any] | None = None,
    **more: Any,
) -> Any:
    """Declare a dataclass field as an option; its panel is the ``panel`` of the class.

    Parameters
    ----------
    help : one sentence
    names : such as "--output", "-o"; by default the name of the field
    default : value where the option is left out; ``MISSING`` where it must be given
    words : all that it may be, if not anything
    read : text to value, raises `typer.BadParameter`
    more : arguments of `typer.Option`, such as metavar and min
    """
    words = tuple(words)
    if words:
        more.setdefault("metavar", "|".join(words))
    more = {"help": help, "show_default": False, **more}
    return field(default=default, metadata={"option": _Declared(names, words, read, more)})


def parameter(help: str, panel: str, *names: str, **more: Any) -> Any:
    """Return what makes a parameter of its own an option, to stand in `Annotated`."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **{"show_default": False, **more})


def help_of(owner: type, name: str) -> str:
    """Return the help text of a field of a dataclass of the library."""
    text: str = _field(owner, name).metadata["help"]
    return text


def _field(owner: type, name: str) -> Field[Any]:
    return next(item for item in fields(owner) if item.name == name)


def option_from(owner: type, name: str, *names: str, **more: Any) -> Any:
    """Declare an option with the help text and default of a field of a dataclass of the library.

    Parameters
    ----------
    owner, name : the dataclass and its field, whose metadata has the text under "help"
    names, more : as of `option`
    """
    default = _field(owner, name).default
    settings: dict[str, Any] = {"default": default, **more}
    return option(help_of(owner, name), *names, **settings)


def flattened(command: Callable[..., T]) -> Callable[..., T]:
    """Return the command as a function of options, one keyword each, that has their signature."""
    groups: dict[str, Any] = {}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            panel = getattr(parameter.annotation, "panel", None)
            parameters += [_parameter(item, panel) for item in fields(parameter.annotation)]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def called(**given: Any) -> T:
        for name, group in groups.items():
            values = {item: given.pop(item.name, item.default) for item in fields(group)}
            given[name] = group(**{item.name: _read(item, value) for item, value in values.items()})
        return command(**given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _parameter(item: Field[Any], panel: str | None) -> inspect.Parameter:
    declared: _Declared | None = item.metadata.get("option")
    kind: Any = item.type
    if declared is not None:
        if declared.read is not None:
            kind = str if isinstance(item.default, str) else str | None
        settings = {"rich_help_panel": panel, **declared.typer_settings}
        kind = Annotated[kind, typer.Option(*declared.names, **settings)]
    default = inspect.Parameter.empty if item.default is MISSING else item.default
    return inspect.Parameter(
        item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
    )


def _read(item: Field[Any], value: Any) -> Any:
    """Return the value of a field for what was given on the command line."""
    declared: _Declared | None = item.metadata.get("option")
    if declared is None or value is None:
        return value
    if declared.words:
        check_word(declared.words, value, option_name(item))
    if declared.read is None:
        return value
    try:
        return declared.read(value)
    except typer.BadParameter as error:
        raise wrong(option_name(item), error.message) from None


def option_name(item: Field[Any]) -> str:
    """Return the option of a field, such as "--on-bad-rows"."""
    names = item.metadata["option"].names
    return names[0].partition("/")[0] if names else option_of(item.name)


def option_of(name: str) -> str:
    """Return the option that sets an argument."""
    return "--" + name.removeprefix("n_").replace("_", "-")


def wrong(option: str, message: str) -> typer.BadParameter:
    """Return the error of wrong usage of an option (exit status 2)."""
    return typer.BadParameter(message, param_hint=option)


class _Misuse(typer.BadParameter):
    def format_message(self) -> str:
        return self.message


def misused(option: str, message: str) -> typer.BadParameter:
    """Return the error (exit status 2) of an option that is none here; it begins the sentence."""
    return _Misuse(f"{option} {message}")


def check_word(words: Iterable[str], word: str, option: str) -> None:
    """Raise the error of wrong usage if a word is none of an option's choices."""
    if word not in words:
        near = meant(word, words)
        advice = "" if near is None else f"; did you mean {near}?"
        raise wrong(option, f"{word!r} is not one of {', '.join(words)}{advice}")


def construct(make: Callable[..., T], words: str, settings: Mapping[str, Any]) -> T:
    """Construct with the settings that were given; wrong usage where they are not its own."""
    given = {name: value for name, value in settings.items() if value is not None}
    takes = inspect.signature(make).parameters
    for name in given:
        if name not in takes:
            raise misused(option_of(name), f"is no setting of {words}; leave it out")
    for name, parameter in takes.items():
        if parameter.default is parameter.empty and name not in given:
            raise wrong(option_of(name), f"{words} needs {option_of(name)}")
    return make(**given)
