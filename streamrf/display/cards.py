"""A line for a prompt and a small table for a notebook, of the same few facts."""

import html
from abc import abstractmethod

from streamrf.display.texts import printable


class Card:
    """What shows itself by a few facts instead of all that it holds."""

    @abstractmethod
    def card(self) -> dict[str, str]:
        """Return the facts, the most telling first: names and short texts."""

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={printable(text)}" for name, text in self.card().items())
        return f"<{type(self).__name__}: {facts}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(text)}</td></tr>'
            for name, text in self.card().items()
        )
        return f"<table><caption>{type(self).__name__}</caption><tbody>{rows}</tbody></table>"
