"""Commands run in this process, with what each of their endings must look like."""

import json
import re

import pytest
from typer.testing import CliRunner

from streamrf.cli import app


def streamrf(*arguments):
    """Run in this process, with standard output and error apart."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    return done


def answer(*arguments) -> dict:
    """Expect success, one JSON object on standard output, and nothing else anywhere."""
    done = streamrf(*arguments, "--json")
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return json.loads(done.stdout, parse_constant=pytest.fail)


def told(*arguments) -> str:
    """Expect success and give what a person reads."""
    done = streamrf(*arguments)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def refused(*arguments) -> str:
    """Expect a clear error of data or arguments, and give its one line."""
    done = streamrf(*arguments)
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    match = re.fullmatch(r"streamrf: (.*)\n", done.stderr)
    assert match, done.stderr
    return match[1]


def misused(*arguments) -> str:
    """Expect wrong usage, and give what is said of it without the frame around it."""
    done = streamrf(*arguments)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    return " ".join(re.sub("[^ -~]", " ", done.stderr).split())
