"""Texts that may come from a stranger's file, as a person may see them."""

from collections.abc import Sequence

MAX_BRIEF = 157  # characters of a name in a message


def printable(text: str) -> str:
    """Return a text with what no terminal or page may obey (controls, lone surrogates) escaped.

    Examples
    --------
    >>> print(printable("a\\x1b[2Jb"))
    a\\x1b[2Jb
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def brief(text: str) -> str:
    """Return a text as `printable` does, without its middle where it is long.

    Examples
    --------
    >>> brief("b" * 500 + ".h5").count("b")
    153
    """
    kept = MAX_BRIEF // 2
    return printable(text if len(text) <= MAX_BRIEF else f"{text[:kept]}...{text[-kept:]}")


def listed(words: Sequence[object], n_shown: int) -> str:
    """Return the first of some words, and how many more there are.

    Examples
    --------
    >>> listed([0, 7], 2), listed([0, 7, 9], 2)
    ('0, 7', '0, 7 and 1 more')
    """
    shown = ", ".join(map(str, words[:n_shown]))
    return f"{shown} and {len(words) - n_shown:,} more" if len(words) > n_shown else shown
