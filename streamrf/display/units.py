"""Bytes and seconds as a person reads them."""

_BINARY = (("PiB", 2**50), ("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("kiB", 2**10))
_DAY, _HOUR, _MINUTE = ("d", 86_400), ("hr", 3600), ("m", 60)
_LONG = ((172_800, _DAY, _HOUR), (7200, _HOUR, _MINUTE), (600, _MINUTE, ("s", 1)))


def format_bytes(n: float) -> str:
    """Return bytes as text of at most ten characters.

    Examples
    --------
    >>> format_bytes(1000), format_bytes(12_345_678)
    ('0.98 kiB', '11.77 MiB')
    """
    for unit, size in _BINARY:
        if n >= 0.9 * size:
            return f"{n / size:.2f} {unit}"
    return f"{n} B"


def format_time(seconds: float) -> str:
    """Return seconds as text, in the two greatest units that say enough.

    Examples
    --------
    >>> format_time(0.00123), format_time(123.456), format_time(1234.5), format_time(12345.6)
    ('1.23 ms', '123.46 s', '20m 34s', '3hr 25m')
    """
    for limit, (great, n_great), (small, n_small) in _LONG:
        if seconds > limit:
            count, rest = divmod(int(seconds), n_great)
            return f"{count}{great} {rest // n_small}{small}"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds / 1e-6:.2f} us"
