"""The messages of an Arrow IPC stream: where record batches lie, so that any can be read.

Sources: Arrow Columnar Format 1.5, "Encapsulated message format" and "IPC Streaming Format"; its
``Message.fbs`` and ``Schema.fbs``, tables of FlatBuffers.
"""

import io
import os
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streamrf.sources.arrow_types import arrow

MARK = b"\xff\xff\xff\xff"  # of every message since version 0.15, and of nothing else here
SCHEMA, DICTIONARY, BATCH = 1, 2, 3  # MessageHeader
KIND, HEADER, BODY_BYTES = 1, 2, 3  # fields of Message
N_ROWS, COMPRESSION = 0, 3  # fields of RecordBatch
ID, IS_DELTA = 0, 2  # fields of DictionaryBatch

Place = tuple[int, int]  # the first byte of a message, and the one after it


@dataclass(frozen=True)
class Batch:
    """A record batch.

    Parameters
    ----------
    place : of its message
    n_before : messages of dictionaries before it
    n_bytes : of its message and of those of the dictionaries that it refers to
    n_rows : of the batch
    compressed : whether its values are
    """

    place: Place
    n_before: int
    n_bytes: int
    n_rows: int
    compressed: bool


@dataclass(frozen=True)
class Dictionary:
    """A message of a dictionary: a new one, or what is added to the one of its number."""

    place: Place
    number: int
    is_delta: bool


@dataclass(frozen=True)
class Messages:
    """All messages of a stream, by their places.

    Parameters
    ----------
    schema : its place
    dictionaries, batches : in their order
    """

    schema: Place
    dictionaries: list[Dictionary]
    batches: list[Batch]

    def from_batch(self, index: int) -> list[Place]:
        """Return the parts of the file that are a stream of the batches from one on."""
        if index >= len(self.batches):
            return [self.schema]
        first, last = self.batches[index], self.batches[-1]
        live: dict[int, list[Place]] = {}
        for one in self.dictionaries[: first.n_before]:
            if not one.is_delta:
                live[one.number] = []
            live.setdefault(one.number, []).append(one.place)
        before = sorted(place for places in live.values() for place in places)
        return [self.schema, *before, (first.place[0], last.place[1])]


def is_stream(file: Any) -> bool:
    """Return whether a file begins as a stream does."""
    file.seek(0)
    return bool(file.read(len(MARK)) == MARK)


def messages_of(file: Any) -> Messages:
    """Return the messages of a stream, of which only the heads are read.

    ArrowInvalid if the stream does not end where the file does, with the mark of its end: a writer
    has not closed it, or it is truncated.
    """
    messages = _messages(file)
    kind, _, schema = next(messages, (0, None, (0, 0)))
    if kind != SCHEMA:
        raise _invalid("it does not begin with a schema")
    found = Messages(schema, [], [])
    live: Counter[int] = Counter()  # bytes of dictionaries, by their numbers
    n_live = 0
    for kind, header, place in messages:
        n_bytes = place[1] - place[0]
        if kind == DICTIONARY:
            number, is_delta = header.number("<q", ID), bool(header.number("<b", IS_DELTA))
            n_live += n_bytes - (0 if is_delta else live[number])
            live[number] = n_bytes + (live[number] if is_delta else 0)
            found.dictionaries.append(Dictionary(place, number, is_delta))
        elif kind == BATCH:
            compressed = header.field(COMPRESSION) is not None
            n_rows, n_before = header.number("<q", N_ROWS), len(found.dictionaries)
            found.batches.append(Batch(place, n_before, n_bytes + n_live, n_rows, compressed))
        else:
            raise _invalid("it holds messages that are neither batches nor dictionaries")
    return found


class Parts(io.RawIOBase):
    """Some parts of a file as one, to be read through."""

    def __init__(self, file: Any, places: list[Place]) -> None:
        self._file = file
        self._places = places[::-1]

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        while self._places:
            start, stop = self._places.pop()
            self._file.seek(start)
            n_bytes = self._file.readinto(memoryview(out)[: stop - start])
            if n_bytes:
                self._places.append((start + n_bytes, stop))
                return int(n_bytes)
        return 0


@dataclass(frozen=True)
class _Table:
    """A table of FlatBuffers, by the place of its first byte."""

    data: bytes
    start: int

    def field(self, index: int) -> int | None:
        """Return the place of a field, or None where it is left to its default."""
        fields = self.start - _at("<i", self.data, self.start)
        place = 4 + 2 * index
        if place >= _at("<H", self.data, fields):
            return None
        offset = _at("<H", self.data, fields + place)
        return self.start + offset if offset else None

    def number(self, form: str, index: int) -> int:
        """Return a number; 0 is the default of all that are read here."""
        place = self.field(index)
        return 0 if place is None else _at(form, self.data, place)

    def table(self, index: int) -> "_Table":
        """Return the table that a field refers to."""
        place = self.field(index)
        if place is None:
            raise _invalid("a message has no header")
        return _Table(self.data, place + _at("<I", self.data, place))


def _messages(file: Any) -> Iterator[tuple[int, _Table, Place]]:
    """Yield kind, header and place of each message."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    start = 0
    while True:
        file.seek(start)
        head = file.read(8)
        if len(head) < 8 or not head.startswith(MARK):
            raise _invalid("it ends before the mark that closes a stream, or within a message")
        n_bytes = _at("<i", head, 4)
        if n_bytes == 0:
            break
        if not 0 < n_bytes <= size - start - 8:
            raise _invalid("it ends within a message")
        data = file.read(n_bytes)
        message = _Table(data, _at("<I", data, 0))
        n_body = message.number("<q", BODY_BYTES)
        stop = start + 8 + n_bytes + n_body
        if n_body < 0 or stop > size:
            raise _invalid("it ends within a message")
        yield message.number("<B", KIND), message.table(HEADER), (start, stop)
        start = stop
    if start + 8 != size:
        raise _invalid(f"it has {size - start - 8:,} bytes after the end of its stream")


def _at(form: str, data: bytes, place: int) -> int:
    """Return a number; ArrowInvalid where it would lie outside."""
    if not 0 <= place <= len(data) - struct.calcsize(form):
        raise _invalid("a message refers to what is not there")
    return int(struct.unpack_from(form, data, place)[0])


def _invalid(why: str) -> Exception:
    error: Exception = arrow().ArrowInvalid(why)
    return error
