"""Parquet and Arrow (Feather) files and streams, read by row groups or record batches."""

import io
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

from streamrf.errors import ChangedFileError, CorruptFileError
from streamrf.sources.arrow_streams import Parts, is_stream, messages_of
from streamrf.sources.arrow_types import arrow, index_of
from streamrf.sources.derived import check_names
from streamrf.sources.paths import absolute, decoding, ended, open_bytes, own_name
from streamrf.sources.seekable import Ranges
from streamrf.sources.tables import Table
from streamrf.sources.urls import bare

PAGE_BYTES = 1 << 20  # of Parquet, unpacked, as pyarrow writes them at most


class ChunkedTable(Table):
    """A file whose rows lie in chunks of known length.

    Parameters
    ----------
    name : path or URL
    open_file : what opens a file of this format
    """

    def __init__(self, name: str, open_file: "Callable[[Any], _File]") -> None:
        self.where = bare(name)
        self.name = own_name(name)
        self._path = absolute(name)
        self._open_file = open_file
        with self._opened() as file:
            check_names(file.schema.names, name)
            self.types = dict(zip(file.schema.names, file.schema.types, strict=True))
            self.index = index_of(file.schema)
            lengths = file.lengths()
            if min(lengths, default=0) < 0:
                raise CorruptFileError(
                    f"{self.where} is damaged: it tells of a part of {min(lengths):,} rows; copy or"
                    " write it again"
                )
            self._borders = [0, *accumulate(lengths)]
            self._chunk_bytes = file.chunk_bytes()
        self.n_rows = self._borders[-1]

    @property
    def files(self) -> list[str]:
        """The file."""
        return [self._path]

    @property
    def buffer_bytes(self) -> int:
        """The largest chunk."""
        return self._chunk_bytes

    def chunk(self, row: int) -> tuple[int, int]:
        """Return the bounds of the row group or batch with a row."""
        index = bisect_right(self._borders, row)
        return self._borders[index - 1], self._borders[index]

    def read(
        self, ranges: Ranges, types: dict[str, Any], block_rows: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield the rows of ascending ranges; a chunk that several ranges share is read again."""
        with self._opened() as file:
            self._check(file.has_chunks(self._borders))
            for start, stop in ranges:
                first = bisect_right(self._borders, start) - 1
                last = bisect_right(self._borders, stop - 1) - 1
                row = self._borders[first]
                for number, table in enumerate(file.tables(first, last, list(types), block_rows)):
                    if file.yields_chunks:  # of which some may be empty
                        self._check(row + len(table) == self._borders[first + number + 1])
                    low, high = max(start, row), min(stop, row + len(table))
                    if low < high:
                        yield low, table.slice(low - row, high - low)
                    row += len(table)
                    if row >= stop:
                        break
                if row < stop:
                    raise ended(self.where)

    def _check(self, is_same: bool) -> None:
        if not is_same:
            raise ChangedFileError(
                f"{self.where} was written to after it was opened, and its rows lie otherwise now; "
                "open it again when its writer has ended"
            )

    @contextmanager
    def _opened(self) -> "Iterator[_File]":
        """Open the file; whatever is wrong with it is an error that names it."""
        try:
            with open_bytes(self._path, self.where) as file, decoding(self.where):
                yield self._open_file(file)
        finally:
            arrow().default_memory_pool().release_unused()  # which it keeps for the next reading


class _File:
    """A Parquet file that is open.

    Attributes
    ----------
    yields_chunks : whether `tables` yields whole chunks, one by one
    """

    yields_chunks = False

    def __init__(self, file: Any) -> None:
        from pyarrow import parquet

        # which would keep the bytes of all row groups that are read until the last has been
        self._file = parquet.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
        self.schema = self._file.schema_arrow

    def lengths(self) -> list[int]:
        """Return the rows of each chunk."""
        metadata = self._file.metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def has_chunks(self, borders: list[int]) -> bool:
        """Return whether chunks lie between these rows, as far as the end of the file tells."""
        return [0, *accumulate(self.lengths())] == borders

    def chunk_bytes(self) -> int:
        """Return the bytes of the largest chunk, and of pages of each column (measured)."""
        metadata = self._file.metadata
        sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
        largest = max(sizes, default=0)
        return largest + 3 * min(largest, PAGE_BYTES * metadata.num_columns)

    def tables(self, first: int, last: int, names: list[str], block_rows: int) -> Iterator[Any]:
        """Yield the rows of the chunks from `first` to `last`."""
        groups = list(range(first, last + 1))
        pa = arrow()
        for batch in self._file.iter_batches(block_rows, row_groups=groups, columns=names):
            batch.validate(full=True)  # its texts and indices are used as they are
            yield pa.Table.from_batches([batch])


class _ArrowFile(_File):
    """An Arrow IPC file that is open."""

    yields_chunks = True
    _last: tuple[int, Any] = (-1, None)  # ranges that share a batch share its memory

    def __init__(self, file: Any) -> None:
        self._file = arrow().ipc.open_file(file)
        self.schema = self._file.schema

    def lengths(self) -> list[int]:
        return [n_rows for n_rows, _ in self._sizes]

    def chunk_bytes(self) -> int:
        """Return the bytes of the largest batch, twice: it may be stored compressed."""
        return 2 * max((n_bytes for _, n_bytes in self._sizes), default=0)

    @cached_property
    def _sizes(self) -> list[tuple[int, int]]:
        """Rows and bytes of each batch, which only its unpacking tells."""
        batches = map(self._file.get_batch, range(self._file.num_record_batches))
        return [(batch.num_rows, batch.get_total_buffer_size()) for batch in batches]

    def has_chunks(self, borders: list[int]) -> bool:
        return bool(self._file.num_record_batches == len(borders) - 1)

    def tables(self, first: int, last: int, names: list[str], block_rows: int) -> Iterator[Any]:
        pa = arrow()
        for index in range(first, last + 1):
            if index != self._last[0]:
                self._last = (-1, None)  # so that only one is there at a time
                self._last = (index, self._batch(index))
            batch = self._last[1].select(names)
            batch.validate(full=True)  # its offsets are used as they are
            yield pa.Table.from_batches([batch])

    def _batch(self, index: int) -> Any:
        return self._file.get_batch(index)


class _ArrowStream(_ArrowFile):
    """An Arrow IPC stream in a file, as Hugging Face's datasets are, that is open."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._messages = messages_of(file)
        self._next, self._reader = 0, self._read_from(0)
        self.schema = self._reader.schema

    def lengths(self) -> list[int]:
        return [batch.n_rows for batch in self._messages.batches]

    def chunk_bytes(self) -> int:
        """Return the bytes of the largest batch with its dictionaries, twice, as of files."""
        sizes = [0]
        for i, batch in enumerate(self._messages.batches):
            unpacked = self._batch(i).get_total_buffer_size() if batch.compressed else 0
            sizes.append(max(batch.n_bytes, unpacked))
        return 2 * max(sizes)

    def has_chunks(self, borders: list[int]) -> bool:
        return [0, *accumulate(self.lengths())] == borders

    def _batch(self, index: int) -> Any:
        if index != self._next:
            self._reader = self._read_from(index)
        self._next = index + 1
        batch = next(self._reader, None)
        if batch is None:  # it was not so short when its messages were found
            raise arrow().ArrowInvalid("it ends before the mark that closes a stream")
        return batch

    def _read_from(self, index: int) -> Any:
        """Return a reader of the batches from one on."""
        parts = Parts(self._file, self._messages.from_batch(index))
        return arrow().ipc.open_stream(io.BufferedReader(parts))


def _open_ipc(file: Any) -> _ArrowFile:
    """Return an Arrow file or stream, as its first bytes tell."""
    return (_ArrowStream if is_stream(file) else _ArrowFile)(file)


open_parquet = partial(ChunkedTable, open_file=_File)
open_arrow = partial(ChunkedTable, open_file=_open_ipc)  # also called Feather
