"""A page of HTML that needs nothing but itself."""

import base64
import html
from collections.abc import Iterator, Sequence

from streamrf.report.base import Picture, Section, Table

CSS = """
:root { color-scheme: light dark; --ink: #20242a; --page: #fff; --faint: #69727d; --line: #8885; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --page: #16181c; --faint: #9aa3ad; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1.2rem; color: var(--ink);
  background: var(--page); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-top: .8rem;
  border-top: 1px solid var(--line); }
p { max-width: 46rem; margin: .5rem 0; overflow-wrap: anywhere; }
.lead { font-size: 1.1rem; }
.pictures { display: grid; gap: 1.2rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; }
figure img { display: block; width: 100%; max-width: 36rem; height: auto; }
figcaption, caption, footer { color: var(--faint); font-size: .9rem; text-align: left; }
figcaption { font-weight: 600; color: var(--ink); margin-bottom: .3rem; }
.tables { display: flex; flex-wrap: wrap; gap: .5rem 3rem; }
.wide { max-width: 100%; overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { padding-bottom: .3rem; }
th, td { padding: .22rem .6rem; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
th:first-child { text-align: left; }
table.words td { text-align: left; overflow-wrap: anywhere; }
table.shaded td, table.shaded th { padding: .22rem .45rem; }
footer { margin: 3rem 0 1rem; }
"""


def render(
    title: str, lead: Sequence[str], facts: Table, sections: Sequence[Section], end: str
) -> str:
    """Give the page as text.

    Parameters
    ----------
    title, lead : what it is about, and what matters most
    facts : what the files hold, two columns of words
    sections : the rest
    end : the last line
    """
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',  # or a browser asks for one
        f"<title>{_safe(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>",
        f"<header>\n<h1>{_safe(title)}</h1>",
        *(f'<p class="lead">{_safe(text)}</p>' for text in lead),
        "</header>\n<main>\n<section>\n<h2>What the files hold</h2>",
        *_table(facts, "words"),
        "</section>",
    ]
    for section in sections:
        parts += _section(section)
    parts.append(f"</main>\n<footer>{_safe(end)}</footer>\n</body>\n</html>\n")
    return "\n".join(parts)


def _safe(text: str) -> str:
    """Escape; signs that no page may hold (controls, lone surrogates) become backslashes."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return html.escape(shown)


def _section(section: Section) -> Iterator[str]:
    yield f"<section>\n<h2>{_safe(section.title)}</h2>"
    yield from (f"<p>{_safe(text)}</p>" for text in section.text)
    if section.pictures:
        yield '<div class="pictures">'
        yield from map(_figure, section.pictures)
        yield "</div>"
    if section.tables:
        yield '<div class="tables">'
        for table in section.tables:
            yield from _table(table, "plain" if table.shades is None else "shaded")
        yield "</div>"
    yield "</section>"


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.svg.encode()).decode()
    return (
        f"<figure><figcaption>{_safe(picture.caption)}</figcaption>"
        f'<img alt="{_safe(picture.alt)}" src="data:image/svg+xml;base64,{data}"></figure>'
    )


def _table(table: Table, kind: str) -> Iterator[str]:
    yield '<div class="wide" tabindex="0">'
    yield f'<table class="{kind}"><caption>{_safe(table.caption)}</caption>'
    if table.columns:
        cells = "".join(f'<th scope="col">{_safe(name)}</th>' for name in table.columns)
        yield f"<thead><tr>{cells}</tr></thead>"
    yield "<tbody>"
    for i, (name, *texts) in enumerate(table.rows):
        cells = "".join(
            f"<td{_shade(table, i, j)}>{_safe(text)}</td>" for j, text in enumerate(texts)
        )
        yield f'<tr><th scope="row">{_safe(name)}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _shade(table: Table, i: int, j: int) -> str:
    """Give the colour behind a cell: blue where it should be, on the diagonal, else orange."""
    if table.shades is None or not table.shades[i, j] > 0:
        return ""
    colour = "63,127,214" if i == j else "214,128,47"
    return f' style="background:rgba({colour},{table.shades[i, j]:.2f})"'
