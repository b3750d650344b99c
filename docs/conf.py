"""Settings of Sphinx. `scripts/docs` builds the site from the pages of this repository.

The source folder is the root, so that links from docs to design and CHANGELOG hold. Two things
are made before a build and not kept: pages of the public names (docs/api) and docs/commands.md.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import typer

import streamrf
from streamrf.cli import app as commands

ROOT = Path(__file__).resolve().parents[1]

project = "streamrf"
author = "streamrf developers"
version = release = streamrf.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
]
include_patterns = ["docs/**", "design/*.md", "data/README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = ["docs/_templates", "docs/images"]
root_doc = "docs/index"

html_theme = "pydata_sphinx_theme"
html_title = f"streamrf {version}"
html_theme_options = {"show_toc_level": 2, "secondary_sidebar_items": ["page-toc"]}
html_sidebars = {"docs/index": []}
html_show_sourcelink = False
html_additional_pages = {"index": "redirect.html"}
templates_path = ["_templates"]

default_role = "py:obj"
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 60
suppress_warnings = ["myst.strikethrough"]


def commands_page() -> str:
    """Return the reference of every command and option, Markdown."""
    lines = ["# The command line", "", "`streamrf COMMAND -h` prints the options of every day, "]
    lines += ["`--help-all` all. The same as `python -m streamrf`.", ""]
    for name, command, context in all_commands(typer.main.get_command(commands), "streamrf"):
        lines += [f"## {name}", "", command.help or "", "", "```text"]
        usage = " ".join(command.collect_usage_pieces(context))
        lines += [f"{name} {usage}", "```", ""]
        rows = [row for option in command.params if (row := option.get_help_record(context))]
        if rows:
            lines += ["| option | meaning |", "|---|---|"]
            lines += [f"| `{cell(left)}` | {cell(right)} |" for left, right in rows]
            lines.append("")
    return "\n".join(lines)


def all_commands(
    command: click.Command, name: str
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield the commands below `command` with their full names, in order."""
    context = typer.Context(command, info_name=name)
    if hasattr(command, "commands"):
        for below, inner in command.commands.items():
            yield from all_commands(inner, f"{name} {below}")
    else:
        yield name, command, context


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")


def setup(app) -> None:
    sys.stdout.flush()
    (ROOT / "docs/commands.md").write_text(commands_page())
