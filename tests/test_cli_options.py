"""Options of commands made of the fields of dataclasses."""

import inspect
from dataclasses import MISSING, dataclass, field
from typing import ClassVar

import pytest
import typer
from typer.testing import CliRunner

from streamrf.cli import app
from streamrf.cli.help import SYNONYMS
from streamrf.cli.maps import KERNELS, MAPS
from streamrf.cli.options import flattened, option, option_from


@dataclass(frozen=True)
class Library:
    """Settings of a library, as the commands find them."""

    depth: int = field(default=3, metadata={"help": "How deep."})


@dataclass(frozen=True, kw_only=True)
class Group:
    """Options of one panel."""

    panel: ClassVar = "Some"
    name: str = option("A name.", "--name", "-n", default=MISSING)
    depth: int = option_from(Library, "depth", min=1)
    kind: str | None = option("A kind.", words=("red", "blue"))
    total: float = option("A sum.", default="1", read=lambda text: sum(map(float, text.split("+"))))


def command(size: int, group: Group, flag: bool = False):
    return size, group, flag


def test_a_command_has_one_parameter_for_each_field():
    parameters = inspect.signature(flattened(command)).parameters
    assert list(parameters) == ["size", "name", "depth", "kind", "total", "flag"]
    assert parameters["name"].default is inspect.Parameter.empty
    assert parameters["depth"].default == 3
    (info,) = parameters["depth"].annotation.__metadata__
    assert (info.help, info.rich_help_panel, info.min) == ("How deep.", "Some", 1)


def test_a_command_gets_whole_objects():
    group = Group(name="x", depth=3, kind=None, total=1.0)
    assert flattened(command)(size=2, name="x") == (2, group, False)
    found = flattened(command)(size=2, name="x", total="1+2.5", kind="red", flag=True)
    assert found == (2, Group(name="x", depth=3, kind="red", total=3.5), True)


@pytest.mark.parametrize(
    ("given", "message"),
    [({"kind": "green"}, "'green' is not one of red, blue"), ({"total": "?"}, "no sum")],
)
def test_a_wrong_value_names_its_option(given, message):
    def read(text):
        raise typer.BadParameter("no sum")

    @dataclass(frozen=True, kw_only=True)
    class Strict(Group):
        total: float = option("A sum.", read=read)

    def strict(group: Strict):
        return group

    with pytest.raises(typer.BadParameter, match=message) as caught:
        flattened(strict)(name="x", **given)
    assert caught.value.param_hint == f"--{next(iter(given))}"


def test_no_command_takes_more_than_twelve_parameters():
    for registered in (
        app.registered_commands + app.registered_groups[0].typer_instance.registered_commands
    ):
        wrapped = inspect.unwrap(registered.callback)
        assert len(inspect.signature(wrapped).parameters) <= 12, registered.name


def test_every_command_has_help_for_every_option():
    runner = CliRunner()
    for name in ("fit", "solve", "evaluate", "predict", "bench", "report"):
        assert runner.invoke(app, [name, "--help"]).exit_code == 0
        (registered,) = (c for c in app.registered_commands if c.callback.__name__ == name)
        for parameter in inspect.signature(registered.callback).parameters.values():
            (info,) = parameter.annotation.__metadata__
            assert info.help.endswith("."), (name, parameter.name)


def test_the_help_of_every_command_fits_a_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert "-h, --help" in CliRunner().invoke(app, ["fit", "-h"]).stdout
    for name in ("fit", "evaluate", "predict", "select", "solve", "bench", "report"):
        lines = CliRunner().invoke(app, [name, "--help"]).stdout.splitlines()
        assert len(lines) <= 50, name
        assert max(map(len, lines)) <= 100, name


def test_help_all_shows_every_option():
    short, whole = (CliRunner().invoke(app, ["fit", word]).stdout for word in ("-h", "--help-all"))
    assert "--tls-ca" in whole
    assert "--tls-ca" not in short
    assert "--alpha" in short


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["train", "x.h5"], "did you mean 'fit'?"),
        (["predct", "x.h5"], "did you mean 'predict'?"),
        (["fit", "x.h5", "--target", "label"], "--y"),
        (["fit", "x.h5", "--checkpiont", "c"], "--checkpoint"),
        (["fit", "x.h5", "--kernel", "rbf", "--model", "m"], "did you mean gaussian?"),
        (["fit", "x.csv", "--y", "a", "--y", "b", "--model", "m"], "--y is given 2 times"),
        (["select", "x.csv", "--x=a", "--x", "b"], "commas between them: --x A,B"),
    ],
)
def test_words_of_other_tools_lead_to_ours(words, advice):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert advice in result.output


def test_a_word_like_none_of_ours_gets_no_advice():
    result = CliRunner().invoke(app, ["fit", "x.h5", "--zzz"])
    assert "No such option: --zzz" in result.output
    assert "ossible" not in result.output


def test_every_synonym_leads_to_a_word_that_exists():
    program = typer.main.get_command(app)
    shown = [
        name for command in program.commands.values() for p in command.params for name in p.opts
    ]
    known = {*program.commands, *shown, *KERNELS, *MAPS}
    assert set(SYNONYMS.values()) <= known


def test_help_is_given_whatever_else_is():
    result = CliRunner().invoke(app, ["fit", "--x", "a", "--x", "b", "--help"])
    assert result.exit_code == 0
    assert "--help-all" in result.output
