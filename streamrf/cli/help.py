"""Help that fits a screen, and the right word for a wrong one."""

import difflib
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

MAX_SHOWN = 20  # options of a command; of one with more, --help shows those of every day
EVERYDAY = {
    *("x", "y", "weights", "task", "kernel", "components", "normalize", "alpha"),
    *("checkpoint", "memory_limit", "seed", "workers"),
    *("model", "statistics", "output", "as_json", "help", "help_all"),
}

LISTS = {  # take several values, with commas
    *("x", "y", "kernels", "gamma", "block_weights", "class_weight", "classes", "alpha"),
}

# What other libraries call it. Words close to ours need no row.
SYNONYMS = {
    "rbf": "gaussian",
    "poly": "polynomial",
    "sigmoid": "arc-cosine",
    "relu": "arc-cosine",
    "sketch": "tensor-sketch",
    "rff": "fourier",
    "orf": "structured-fourier",
    "train": "fit",
    "learn": "fit",
    "test": "evaluate",
    "score": "evaluate",
    "apply": "predict",
    "show": "info",
    "inspect": "info",
    "add": "stats",
    "merge": "stats",
    "subtract": "stats",
    "tune": "select",
    "--target": "--y",
    "--targets": "--y",
    "--label": "--y",
    "--labels": "--y",
    "--features": "--x",
    "--data": "--x",
    "--width": "--components",
    "--n-components": "--components",
    "--scale": "--normalize",
    "--scaling": "--normalize",
    "--lambda": "--alpha",
    "--penalty": "--alpha",
    "--ridge": "--alpha",
    "--random-state": "--seed",
    "--jobs": "--threads",
    "--n-jobs": "--threads",
    "--resume": "--checkpoint",
    "--sample-weight": "--weights",
    "--save": "--model",
    "--out": "--output",
    "-o": "--output",
}


def meant(word: str, words: Iterable[str]) -> str | None:
    """Return the one of `words` that was probably meant, or None.

    Examples
    --------
    >>> meant("rbf", ["gaussian", "cauchy"]), meant("cauchi", ["gaussian", "cauchy"])
    ('gaussian', 'cauchy')
    """
    words = list(words)
    if SYNONYMS.get(word) in words:
        return SYNONYMS[word]
    return next(iter(difflib.get_close_matches(word, words, n=1)), None)


def show_all(ctx: typer.Context, asked: bool) -> None:
    """Print the help of all options and exit, if asked."""
    if asked and not ctx.resilient_parsing:
        ctx.meta["streamrf.all"] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option("--help-all", help="Show all options and exit.", is_eager=True, callback=show_all),
]


class Command(TyperCommand):
    """A command whose help has a section for each panel, and only everyday options if many."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        shows_all = len(self.params) <= MAX_SHOWN or ctx.meta.get("streamrf.all", False)
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for parameter in self.get_params(ctx):
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
            if parameter.param_type_name == "argument":
                panel = "Arguments"
            elif not (shows_all or parameter.name in EVERYDAY):
                continue
            record = parameter.get_help_record(ctx)
            if record is not None:
                panels.setdefault(panel, []).append(record)
        panels["Options"] = panels.pop("Options", [])
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self._check_lists(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            wrong = getattr(error, "option_name", None)
            if wrong is not None:  # typer vendors Click, whose NoSuchOption has no public name
                names = [name for parameter in self.get_params(ctx) for name in parameter.opts]
                word = meant(wrong, names)
                vars(error)["possibilities"] = None if word is None else [word]
            raise

    def _check_lists(self, ctx: Any, args: list[str]) -> None:
        """Fail for an option of several values that is given twice: the last alone would count."""
        if not {"-h", "--help", "--help-all"}.isdisjoint(args):
            return
        for parameter in self.get_params(ctx):
            if parameter.name in LISTS:
                option = parameter.opts[0]
                n_given = sum(arg.partition("=")[0] == option for arg in args)
                if n_given > 1:
                    ctx.fail(
                        f"{option} is given {n_given} times, and the last alone would count; give "
                        f"it once, several with commas between them: {option} A,B"
                    )


class Group(TyperGroup):
    """Commands; a wrong one is answered with the right one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            word = meant(args[0], self.commands)
            advice = "" if word is None else f"; did you mean {word!r}?"
            ctx.fail(f"No such command {args[0]!r}{advice}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(200)) for name, command in self.commands.items()]
            )
