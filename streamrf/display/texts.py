"""Texts that may come from a stranger's file, as a person may see them."""


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
