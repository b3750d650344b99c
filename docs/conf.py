"""Settings of Sphinx. `scripts/docs` builds the site from the pages of this repository.

The source folder is the root, so that links from docs to design and CHANGELOG hold. Two things
are made before a build and not kept: pages of the public names (docs/api) and docs/commands.md.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import typer

import streamrf
from streamrf.cli import app as commands

ROOT = Path(__file__).resolve().parents[1]
ENGINE = {  # methods that are public between rooms, not to users
    *("draw", "draw_for", "map_lanes", "check_drawn", "check_fitted", "check_width", "lane_width"),
    *("grain", "to_tree", "from_tree", "count", "no_errors", "n_scores", "decide", "kind"),
    *("check_settings", "check_domain", "checked_gamma", "n_bytes"),
    *("buffer_bytes", "versions", "settings", "stores", "card"),
}

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
include_patterns = ["docs/**", "design/*.md", "data/README.md"]
include_patterns += ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]

exclude_patterns = ["docs/_templates", "docs/images"]
root_doc = "docs/index"

html_static_path = ["_static"]
html_css_files = ["narrow.css"]
html_theme = "pydata_sphinx_theme"
html_context = {"default_mode": "auto"}  # light or dark, as the reader has it
html_title = f"streamrf {version}"
html_theme_options = {"show_toc_level": 2, "secondary_sidebar_items": ["page-toc"]}
html_sidebars = {"docs/index": []}
html_show_sourcelink = False
html_additional_pages = {"index": "redirect.html"}
templates_path = [str(ROOT / "docs/_templates")]

default_role = "py:obj"
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_in_temp = True  # what they write is gone with them
nb_execution_raise_on_error = True
nb_execution_timeout = 60
suppress_warnings = ["myst.strikethrough"]


def commands_page() -> str:
    """Return the reference of every command and option, Markdown."""
    lines = ["# The command line", ""]
    lines += ["Also `python -m streamrf`. `streamrf COMMAND -h` prints the options of every day;"]
    lines += ["where there are more, `--help-all` prints all.", ""]
    for name, command, context in all_commands(typer.main.get_command(commands), "streamrf"):
        lines += [f"## {name}", "", command.help or "", "", "```text"]
        usage = " ".join(command.collect_usage_pieces(context))
        lines += [f"{name} {usage}", "```", ""]
        rows = [found for option in command.params if (found := option.get_help_record(context))]
        if rows:
            lines += ["| option | meaning |", "|---|---|"]
            lines += [row(*record) for record in rows]
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


def row(option: str, meaning: str) -> str:
    """Return a row of the table; a list of words to choose from goes to the meaning."""
    name, _, kind = option.rpartition(" ")
    if "|" in kind:
        words = ", ".join(f"`{word}`" for word in kind.split("|"))
        option, meaning = name, f"{meaning} One of {words}."
    meaning = " ".join(meaning.split()).replace("|", "\\|").replace("<", "\\<")
    return f"| `{option}` | {meaning} |"


def is_internal(app, what, name: str, member, skip: bool, options) -> bool | None:
    """Leave out what maps offer to the engine, and what scikit-learn's own bases bring."""
    brought = getattr(member, "__module__", None) or ""
    request = name.startswith("set_") and name.endswith("_request")
    return True if name in ENGINE or request or brought.startswith("sklearn") else None


def describe(app, what, name, obj, options, lines: list[str]) -> None:
    """Set what our docstrings say of a parameter, on its own line, below its name.

    Numpydoc takes what stands after the colon for a type, and its second line for a description.
    """
    section, described = "", []
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and re.fullmatch("-{4,}", lines[i + 1].strip()):
            section = line.strip()
        found = re.fullmatch(r"(\S.*?) : (.*)", line)
        if section in ("Parameters", "Attributes") and found:
            described += [found[1], f"    {found[2]}"]
        else:
            described.append(line)
    lines[:] = described


def setup(app) -> None:
    app.connect("autodoc-process-docstring", describe, priority=100)  # before Numpydoc
    app.connect("autodoc-skip-member", is_internal)
    (ROOT / "docs/commands.md").write_text(commands_page())
