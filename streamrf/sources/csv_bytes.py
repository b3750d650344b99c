"""The bytes of CSV files: decompressed, and where lines end in them."""

from typing import Any

import numpy as np

from streamrf.errors import CorruptFileError, StreamrfError
from streamrf.jit.csv_quotes import (
    BROKEN,
    CLOSED,
    FIELD,
    LINES,
    NEWLINE,
    QUOTED,
    RETURN,
    START,
    row_ends,
)
from streamrf.sources.arrow_types import arrow


class Lines:
    """Counts rows as lines come: those that are not empty, and end outside quotes."""

    def __init__(self, offset: int, delimiter: str) -> None:
        self.n_rows = 0
        self.n_between = 0  # empty lines with rows after them
        self._n_empty = 0  # those with none so far
        self._delimiter, self._state = ord(delimiter), START
        self._offset = offset  # of the next byte
        self._line = offset  # where the line begun last began
        self._last = 0  # the byte before the next

    def ends(self, data: bytes) -> int:
        """Count the rows that end in `data`; return the place after the last end, 0 for none."""
        bytes_ = np.frombuffer(data, dtype=np.uint8)
        ends = np.flatnonzero(bytes_ == NEWLINE)
        if self._state not in (START, FIELD, CLOSED) or b'"' in data:
            n_ends, self._state = row_ends(bytes_, self._delimiter, self._state, ends)
            ends = ends[:n_ends]
        else:
            self._state = START if data[-1] in (NEWLINE, RETURN, self._delimiter) else FIELD
        lengths = np.diff(ends + self._offset, prepend=self._line - 1)
        before = np.where(ends > 0, bytes_[ends - 1], self._last)
        empty = (lengths == 1) | ((lengths == 2) & (before == RETURN))
        self.n_rows += len(ends) - int(np.count_nonzero(empty))
        self._n_empty += int(np.count_nonzero(empty))
        if not empty.all():  # some may follow the last row
            n_after = int(empty[::-1].argmin())
            self.n_between += self._n_empty - n_after
            self._n_empty = n_after
        if len(ends):
            self._line = self._offset + int(ends[-1]) + 1
        self._offset += len(data)
        self._last = data[-1]
        return int(ends[-1]) + 1 if len(ends) else 0

    @property
    def is_open(self) -> bool:
        """Whether a quote has opened a field that none has closed yet."""
        return self._state in (QUOTED, LINES)

    @property
    def is_broken(self) -> bool:
        """Whether the quote that closes a field was forgotten before the last row that ends."""
        return self._state == BROKEN

    def finish(self, length: int) -> int:
        """Return the rows, with a last line of some length that has no end."""
        self.n_rows += int(length > 0)
        self.n_between += self._n_empty * int(length > 0)
        return self.n_rows


class Decompressed:
    """A compressed file as bytes; what is wrong with it is an error that names it."""

    def __init__(self, file: Any, compression: str, where: str) -> None:
        self._file = arrow().CompressedInputStream(file, compression)
        self._where = where

    def __enter__(self) -> "Decompressed":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self, n_bytes: int) -> bytes:
        """Return the next bytes, fewer only at the end."""
        parts = []
        try:
            while n_bytes and (part := self._file.read(n_bytes)):
                parts.append(part)
                n_bytes -= len(part)
        except StreamrfError:  # of a URL, which says what to do
            raise
        except OSError as error:
            raise CorruptFileError(
                f"{self._where} cannot be decompressed ({' '.join(str(error).split())}); it is"
                " damaged or truncated: copy or write it again"
            ) from error
        except arrow().ArrowException as error:  # of an empty stream of bzip2 between others
            raise CorruptFileError(
                f"{self._where} cannot be decompressed here ({' '.join(str(error).split())}); it is"
                " damaged, or an empty part lies between others: unpack it first"
            ) from error
        return b"".join(parts)
