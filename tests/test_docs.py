"""Every code block of the pages for readers runs, or says why not."""

import re
import runpy
import shlex
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

import streamrf
from streamrf.cli import app
from streamrf.training import feature_choice

ROOT = Path(__file__).resolve().parents[1]
MADE = ROOT / "docs/commands.md"  # by scripts/docs, which may run at the same time
FOUND = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page != MADE]
NOTEBOOKS = [page for page in FOUND if page.parent.name == "examples"]  # scripts/docs runs them
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += [page for page in FOUND if page not in NOTEBOOKS]
LINKED = [
    *PAGES,
    *NOTEBOOKS,
    ROOT / "CHANGELOG.md",
    ROOT / "data/README.md",
    *sorted(ROOT.glob("design/*.md")),
]

FENCE = re.compile(r"^ *(`{3,}|~{3,}) *(?:\{code-cell\} )?(\w*)")
NOT_RUN = re.compile(r"<!-- *not run: *(.*?) *-->")


@dataclass(frozen=True)
class CodeBlock:
    language: str
    text: str
    line: int  # of its first line, counted from 1
    not_run: str | None  # the reason given


def code_blocks(page: str) -> list[CodeBlock]:
    """The fenced blocks of a Markdown page, in order."""
    blocks = []
    lines = iter(enumerate(page.splitlines(), start=1))
    reason = None
    for number, line in lines:
        fence = FENCE.match(line)
        if fence:
            body = []
            for _, inner in lines:
                if inner.strip() == fence[1]:
                    break
                body.append(inner)
            text = textwrap.dedent("\n".join(body)) + "\n"
            blocks.append(CodeBlock(fence[2], text, number + 1, reason))
            reason = None
        elif line.strip():
            comment = NOT_RUN.fullmatch(line.strip())
            reason = comment[1] if comment else None
    return blocks


def commands(text: str) -> list[str]:
    """The commands of a console block: lines after ``$``, with their continuations."""
    joined = text.replace("\\\n", " ")
    return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def run_python(block: CodeBlock, page: str, namespace: dict) -> None:
    padding = "\n" * (block.line - 1)  # so that a traceback names the line of the page
    exec(compile(padding + block.text, page, "exec"), namespace)


def run_commands(block: CodeBlock, page: str) -> None:
    where = f"{page}:{block.line}"
    found = commands(block.text)
    assert found, f"{where} holds no line that begins with '$ '"
    for command in found:
        program, *arguments = shlex.split(command, comments=True)
        assert program == "streamrf", (
            f"{where} runs {program!r}, which this test cannot; put above it: <!-- not run: why -->"
        )
        done = CliRunner().invoke(app, arguments)  # here, as starting Python takes seconds
        assert done.exit_code == 0, f"{where}: {command}\n{done.output}"


def run_page(text: str, page: str) -> None:
    """Runs a page's blocks in order, in the present folder and one namespace."""
    namespace = {"__name__": "__main__"}
    for block in code_blocks(text):
        if block.not_run is not None:
            assert block.not_run, f"{page}:{block.line} is not run and gives no reason"
        elif block.language == "python":
            run_python(block, page, namespace)
        elif block.language in ("console", "bash", "sh", "shell"):
            run_commands(block, page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(feature_choice, "BUDGET_SECONDS", 2.0)  # pages make many
    run_page(page.read_text(), str(page.relative_to(ROOT)))


def test_blocks_share_a_namespace_and_keep_their_order():
    run_page("```python\nn = 1\n```\n\n```python\nassert n == 1\n```\n", "page.md")


def test_a_failing_block_names_its_line():
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("# Title\n\n```python\n1 / 0\n```\n", "page.md")
    frame = caught.traceback[-1]
    assert (str(frame.path), frame.lineno + 1) == ("page.md", 4)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("<!-- not run: -->\n```python\n1 / 0\n```\n", "page.md:3 is not run and gives no reason"),
        ("```console\n$ make all\n```\n", "page.md:2 runs 'make'"),
        ("```bash\nmake all\n```\n", "page.md:2 holds no line"),
        ("<!-- not run: slow -->\nText.\n```bash\n$ make\n```\n", "page.md:4 runs 'make'"),
    ],
)
def test_a_block_that_can_hide_is_refused(page, message):
    with pytest.raises(AssertionError, match=re.escape(message)):
        run_page(page, "page.md")


def test_a_block_with_a_reason_is_left_out():
    run_page("<!-- not run: it needs a cluster -->\n\n```python\n1 / 0\n```\n", "page.md")


def test_a_command_may_go_over_several_lines():
    text = "$ streamrf fit a.h5 \\\n    --seed 0\nerror 2.9 %\n$ streamrf info a.h5\n"
    assert [shlex.split(command) for command in commands(text)] == [
        ["streamrf", "fit", "a.h5", "--seed", "0"],
        ["streamrf", "info", "a.h5"],
    ]


def anchors(page: Path) -> set[str]:
    """The names that links to the headings of a page use, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_repository_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text())
    for target in targets:
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), target


def fitted_names() -> set[str]:
    """The attributes that end in an underscore, of all classes of the library."""
    files = (ROOT / "streamrf").rglob("*.py")
    found = (re.findall(r"(?:self\.|def |\")([a-z]\w*_)\b", file.read_text()) for file in files)
    return {name for names in found for name in names}


def named_in_text(page: str) -> set[str]:
    """The names that end in an underscore, of the text of a page; its blocks of code run."""
    text = re.sub(r"^( *```).*?^\1$", "", page, flags=re.M | re.S)
    codes = re.findall(r"`([^`\n]+)`", text)
    return {name for code in codes for name in re.findall(r"\b([a-z]\w*_)(?![\w*])", code)}


def test_names_are_read_from_text_alone():
    page = "`clf.a_b_` and `c_`, not `d_e` or f_\n\n```python\nx.g_ = `h_`\n```\n\n`i_ + 1`\n"
    assert named_in_text(page) == {"a_b_", "c_", "i_"}


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda page: str(page.relative_to(ROOT)))
def test_fitted_attributes_in_the_text_exist(page):
    assert named_in_text(page.read_text()) <= fitted_names()


def test_every_public_name_has_a_place_and_an_example():
    page = (ROOT / "docs/api.md").read_text()
    examples = "".join(b.text for b in code_blocks(page) if b.language == "python")
    listed = re.findall(r"^   (\w+)$", page, flags=re.M)
    assert sorted(listed) == streamrf.__all__
    for name in streamrf.__all__:
        assert re.search(rf"\b{name}\b", streamrf.__doc__), name
        has_doctest = ">>>" in getattr(streamrf, name).__doc__
        assert has_doctest or re.search(rf"srf\.{name}\b", examples), name


def test_the_reference_of_commands_has_every_option():
    page = runpy.run_path(str(ROOT / "docs/conf.py"))["commands_page"]()
    for name in ("fit", "solve", "stats merge", "stats subtract"):
        _, _, section = page.partition(f"## streamrf {name}\n")
        options = set(re.findall(r"--[a-z0-9-]+", section.partition("\n## ")[0]))
        shown = CliRunner().invoke(app, [*name.split(), "--help"]).output
        assert (
            set(re.findall(r"^ +(?:-\w, )?(--[a-z0-9-]+)", shown, flags=re.M))
            - {"--help", "--help-all"}
            <= options
        )
