"""Files of streamrf, spoilt: by chance, or on purpose with a digest made right again.

A mutation takes the bytes of a file and a `random.Random` and gives other bytes. Those of `BLIND`
know nothing of the format. Those of `SEALED` end with a header that is right for the bytes, so that
the checks behind the digest are reached: of the JSON document, of arrays, of what they mean.
"""

import hashlib
import json
import math
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

USER_BLOCK = 512
STRANGE = (
    None, True, False, 0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**53, -(2**63), 0.0, -0.0, 0.5,
    -1.5, 1e-300, 1e300, "", "x", "l2", "\x00", "é" * 300, [], [0], [None], ["a", 1], {},
    {"$int": "0x10000000000000000"}, {"$int": "-0x1"}, {"$int": "0x" + "f" * 400},
    {"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}, {"class": "Polynomial"},
    {"class": "Craft", "params": {}, "fitted": {}}, {"$array": {}},
)  # fmt: skip
DTYPES = ("|b1", "|i1", "|u1", "<i2", "<i4", "<i8", "<u8", "<f2", "<f4", "<f8", ">f8", "<U1", "<U9")
WORDS = tuple(
    np.array(value, dtype).tobytes().rjust(8, b"\0")
    for dtype, values in (
        ("<f8", (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, 5e-324)),
        ("<f4", (np.nan, np.inf, -1.0, 3e38)),
        ("<i4", (-1, 0, 1, 7, 2**31 - 1)),
        ("<i8", (-1, 0, 1, 2**40, 2**63 - 1)),
    )
    for value in values
)  # of an array's width, its last bytes


def flipped(data: bytes, draw: random.Random) -> bytes:
    """Some bits flipped."""
    spoilt = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8))):
        spoilt[draw.randrange(len(spoilt))] ^= 1 << draw.randrange(8)
    return bytes(spoilt)


def truncated(data: bytes, draw: random.Random) -> bytes:
    """An end missing."""
    return data[: draw.randrange(len(data))]


def spliced(data: bytes, draw: random.Random) -> bytes:
    """A stretch taken from elsewhere in the file: overwritten, put in or cut out."""
    start, stop = sorted(draw.randrange(len(data)) for _ in range(2))
    stop = min(stop, start + 4096)
    place = draw.randrange(len(data))
    return draw.choice(
        (
            data[:place] + data[start:stop] + data[place + stop - start :],
            data[:place] + data[start:stop] + data[place:],
            data[:start] + data[stop:],
        )
    )


def noisy(data: bytes, draw: random.Random) -> bytes:
    """A stretch of noise."""
    place, noise = draw.randrange(len(data)), draw.randbytes(draw.randint(1, 64))
    return data[:place] + noise + data[place + len(noise) :]


BLIND: tuple[Callable[[bytes, random.Random], bytes], ...] = (flipped, truncated, spliced, noisy)


def sealed(data: bytes, offset: int | None = None, size: int | None = None) -> bytes:
    """The bytes with the header that they should have."""
    kind, tree = (_line(data, number) for number in (1, 3))
    if offset is None:
        _, offset, size = (int(word) if word.isdigit() else word for word in tree.split())
    lines = _line(data, 0) + b"\n" + kind + b"\n"
    lines += f"length {len(data)}\ntree {offset} {size}\n".encode()
    digest = hashlib.sha256(lines + data[USER_BLOCK:]).hexdigest()
    return (lines + f"sha256 {digest}\n".encode()).ljust(USER_BLOCK) + data[USER_BLOCK:]


def _line(data: bytes, number: int) -> bytes:
    return data[:USER_BLOCK].split(b"\n")[number]


def document_of(data: bytes) -> Any:
    """The JSON document of a file."""
    _, offset, size = _line(data, 3).split()
    return json.loads(data[int(offset) : int(offset) + int(size)])


def with_document(data: bytes, document: Any) -> bytes:
    """The file with another JSON document, at its end."""
    text = json.dumps(document).encode()
    return sealed(data + text, len(data), len(text))


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document: a list or an object, and an index or a key of it."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(items):
        yield document, key
        if isinstance(value, dict | list):
            yield from places(value)


def retold(data: bytes, draw: random.Random) -> bytes:
    """A value or a key of the tree changed, left out or put elsewhere."""
    document = document_of(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        found = list(places(document))
        if not found:
            break
        _retell(*draw.choice(found), found, draw)
    return with_document(data, document)


def _retell(holder: Any, key: Any, found: list, draw: random.Random) -> None:
    other_holder, other_key = draw.choice(found)
    value = holder[key]
    act = draw.randrange(8)
    if act == 0:
        del holder[key]
    elif act == 1:
        holder[key] = draw.choice(STRANGE)
    elif act == 2:
        holder[key], other_holder[other_key] = other_holder[other_key], holder[key]
        if _is_inside(holder, holder[key]) or _is_inside(other_holder, other_holder[other_key]):
            holder[key] = other_holder[other_key] = None  # a tree that holds itself has no text
    elif act == 3 and isinstance(holder, dict):
        holder[draw.choice(("", "x", "class", "$x", "random_state", str(other_key)))] = value
    elif act == 4 and isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = draw.choice(
            (value + 1, value - 1, -value, 2 * value, value / 2, 1000 * value)
        )
    elif act == 5 and isinstance(value, str):
        words = [h[k] for h, k in found if isinstance(h[k], str)]
        holder[key] = draw.choice(words + list(DTYPES))
    elif act == 6 and isinstance(value, list) and value:
        holder[key] = draw.choice((value[:-1], value + value[-1:], value[::-1], value * 3))
    else:
        holder[key] = json.loads(json.dumps(draw.choice(STRANGE)))


def _is_inside(holder: Any, value: Any) -> bool:
    """Whether a holder is a value or in it."""
    if holder is value:
        return True
    if not isinstance(value, dict | list):
        return False
    return any(_is_inside(holder, h[k]) or h is holder for h, k in places(value))


def revalued(data: bytes, draw: random.Random) -> bytes:
    """Some elements of an array changed: to NaN, infinity, other places, noise."""
    spoilt = bytearray(data)
    arrays = [holder[key] for holder, key in places(document_of(data)) if key == "$array"]
    for _ in range(draw.choice((1, 1, 3))):
        array = draw.choice(arrays)
        width = array.get("width") or int(re.sub(r"\D", "", array["dtype"]))
        count = math.prod(array["shape"])
        if count:
            word = draw.choice((*WORDS, draw.randbytes(8)))[-width:]
            start = array["offset"] + width * draw.randrange(count)
            spoilt[start : start + len(word)] = word
    return sealed(bytes(spoilt))


def resized(data: bytes, draw: random.Random) -> bytes:
    """A width or a count changed wherever it stands: in the shapes of arrays, and as a number."""
    document = document_of(data)
    found = list(places(document))
    shapes = [holder[key] for holder, key in found if key == "shape"]  # a map may have one, or None
    sizes = sorted({n for shape in shapes if isinstance(shape, list) for n in shape})
    for _ in range(draw.choice((1, 1, 2))):
        old, share = draw.choice(sizes), draw.choice((1.0, 1.0, 0.5))
        new = draw.choice((0, 0, 0, 1, old - 1, old + 1, 2 * old, 10**6, 10**9, 2**40, 2**62))
        for holder, key in found:
            value = holder[key]
            if key == "shape" and isinstance(value, list):
                holder[key] = [new if n == old and draw.random() < share else n for n in value]
            elif type(value) is int and key != "offset" and value == old:
                holder[key] = new if draw.random() < share else value
    return with_document(data + bytes(draw.choice((0, 10**5))), document)


def rewritten(data: bytes, draw: random.Random) -> bytes:
    """Some characters of the JSON document changed."""
    _, offset, size = _line(data, 3).split()
    spoilt = bytearray(data)
    for _ in range(draw.choice((1, 2, 3))):
        place = draw.randrange(int(offset), int(offset) + int(size))
        spoilt[place] = draw.choice(b'0123456789"$[]{}-,:.eNIU<|ntf')
    return sealed(bytes(spoilt))


SEALED: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    retold, retold, revalued, rewritten, resized,
)  # fmt: skip
