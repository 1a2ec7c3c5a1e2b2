"""One partition of an index: the files of its tokens, its documents and its posting lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.index.files import IndexFile, IndexFiles, unsigned
from lance_spark.index.text.analysis.parameters import LARGE
from lance_spark.index.text.blocks import BlockFormat, decode_lists
from lance_spark.index.text.largest import largest, rounded
from lance_spark.index.text.positions import decode_many_streams, decode_old_lists, decode_streams
from lance_spark.index.text.postings import Postings
from lance_spark.index.text.token_set import TokenSet, read_tokens

_STREAMS, _STARTS, _LISTS = "_compressed_position", "_position_block_offset", "_position"
_TOKEN_BYTES = 64
"""About the memory that a token takes."""
_LIST_BYTES = 512
"""The memory that a posting list takes besides its values."""


class Partition:
    """A partition of a segment, `number` in the names of its files; see `postings.Part`."""

    def __init__(self, files: IndexFiles, number: int, layout: BlockFormat) -> None:
        self._files, self._number, self._layout = files, number, layout

    @cached_property
    def _tokens(self) -> TokenSet:
        file = self._open("tokens")
        return self._files.cached(f"{self._number} tokens", lambda: read_tokens(file), lambda _: _TOKEN_BYTES * self._lists.num_rows)

    @cached_property
    def _lists(self) -> IndexFile:
        return self._open("invert")

    def _open(self, what: str) -> IndexFile:
        return self._files.open(f"part_{self._number}_{what}.lance")

    @cached_property
    def _documents(self) -> tuple[np.ndarray, np.ndarray]:
        file = self._open("docs")

        def read() -> tuple[np.ndarray, np.ndarray]:
            batch = file.read(["_rowid", "_num_tokens"])
            return unsigned(batch.column(0), file.path), unsigned(batch.column(1), file.path)

        return self._files.cached(f"{self._number} documents", read, lambda both: both[0].nbytes + both[1].nbytes)

    @property
    def rows(self) -> np.ndarray:
        """See `postings.Part`."""
        return self._documents[0]

    @property
    def lengths(self) -> np.ndarray:
        """See `postings.Part`."""
        return self._documents[1]

    @cached_property
    def scored_lengths(self) -> np.ndarray:
        """See `postings.Part`. With blocks of 256 documents, pylance scores a document by the length that its impacts have."""
        if self._layout.size != LARGE:
            return self.lengths
        return self._files.cached(f"{self._number} scored lengths", lambda: rounded(self.lengths), lambda found: found.nbytes)

    @cached_property
    def total_tokens(self) -> int:
        """See `postings.Part`."""
        return int(self.lengths.sum(dtype=np.uint64))

    @cached_property
    def _counts(self) -> np.ndarray:
        file = self._lists

        def read() -> np.ndarray:
            return unsigned(file.read(["_length"]).column(0), file.path)

        return self._files.cached(f"{self._number} counts", read, lambda counts: counts.nbytes)

    def find(self, token: str) -> int | None:
        """See `postings.Part`."""
        number = self._tokens.find(token)
        if number is not None and not number < len(self._counts):
            raise CorruptFileError(f"{self._lists.path}: there are {len(self._counts)} posting lists, but a token has the number {number}")
        return number

    def similar(self, token: str, fuzziness: int, prefix_length: int, most: int) -> list[str]:
        """See `postings.Part`."""
        return self._tokens.similar(token, fuzziness, prefix_length, most)

    def count(self, number: int) -> int:
        """See `postings.Part`."""
        return int(self._counts[number])

    def postings(self, number: int) -> Postings:
        """See `postings.Part`."""
        return self._postings([number])[0]

    def read_ahead(self, numbers: Sequence[int]) -> None:
        """See `postings.Part`."""
        self._postings(numbers)

    def _postings(self, numbers: Sequence[int]) -> list[Postings]:
        return self._files.cached_each(f"{self._number} postings", numbers, self._read, lambda found: found.nbytes + _LIST_BYTES)

    def _read(self, numbers: Sequence[int]) -> list[Postings]:
        rows, path = np.unique(np.array(numbers, np.int64)), self._lists.path
        (lists,) = self._lists.read(["_posting"], rows).columns
        data, blocks = _binaries(lists, path)
        counts = self._counts[rows].astype(np.int64)
        ends = np.concatenate([[0], np.cumsum(counts)])
        list_blocks = _list_bounds(lists, path)
        plausible = (counts <= len(self.rows)).all()
        found = decode_lists(data, blocks, list_blocks, ends, self._layout, len(self.rows)) if plausible else None
        if found is None:
            raise CorruptFileError(f"{path}: the posting list {rows[0]}, or one of {len(rows)} from it on, is invalid")
        return [Postings(*(values[ends[at] : ends[at + 1]].copy() for values in found)) for at in np.searchsorted(rows, numbers)]

    def largest(self, number: int, average: np.float32) -> np.ndarray:
        """See `postings.Part`."""
        found = self.postings(number)
        return self._files.cached(
            f"{self._number} largest {number} {average}",
            lambda: largest(found.documents, found.frequencies, self.scored_lengths, average),
            lambda scores: scores.nbytes,
        )

    def first_positions(self, number: int) -> np.ndarray:
        """See `postings.Part`."""
        found = self.postings(number)
        return self._files.cached(f"{self._number} first {number}", lambda: found.first_positions, lambda first: first.nbytes)

    def positions(self, number: int) -> np.ndarray:
        """See `postings.Part`."""
        return self._files.cached(f"{self._number} positions {number}", lambda: self._read_positions(number), lambda found: found.nbytes)

    def _read_positions(self, number: int) -> np.ndarray:
        names, path, frequencies = self._lists.schema.names, self._lists.path, self.postings(number).frequencies
        if _STREAMS in names:
            stream, starts = self._row(number, [_STREAMS, _STARTS])
            data, bounds = _binaries(stream, path)
            found = decode_streams(data[int(bounds[0]) :], unsigned(starts.flatten(), path), frequencies, self._layout.size)
        elif _LISTS in names:
            (lists,) = self._row(number, [_LISTS])
            data, bounds = _binaries(lists.flatten(), path)
            found = decode_old_lists(data, bounds, np.concatenate([[0], np.cumsum(lists.flatten().value_lengths())]), frequencies)
        else:
            raise CorruptFileError(f"{path}: the index should have positions, but has none")
        if found is None:
            raise CorruptFileError(f"{path}: the positions of posting list {number} are invalid")
        return found

    @property
    def has_streams(self) -> bool:
        """Whether the positions, if there are any, have the form of new files."""
        return _STREAMS in self._lists.schema.names

    @property
    def num_tokens(self) -> int:
        """The number of tokens."""
        return self._lists.num_rows

    def all_tokens(self) -> tuple[pa.LargeBinaryArray, np.ndarray]:
        """All tokens in order (UTF-8), and their numbers (int64). Raises CorruptFileError."""
        keys, bounds, numbers = self._tokens.listed
        if len(numbers) != self.num_tokens or (np.sort(numbers) != np.arange(len(numbers))).any():
            raise CorruptFileError(
                f"{self._lists.path}: there are {self.num_tokens} posting lists, but {len(numbers)} tokens with other numbers"
            )
        buffers = [None, pa.py_buffer(bounds.astype(np.int64)), pa.py_buffer(np.ascontiguousarray(keys))]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(numbers), buffers), numbers

    def all_postings(self, most: int, with_positions: bool) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]]:
        """The lists of tokens with consecutive numbers, about `most` documents at a time: the first number, the bounds of each list,
        the documents and the frequencies (uint32) of all lists, and the positions (uint32; None unless wanted). Raises CorruptFileError.
        """
        counts, path = self._counts, self._lists.path
        ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        if (counts > len(self.rows)).any() or len(counts) != self.num_tokens:
            raise CorruptFileError(f"{path}: a posting list has more documents than the {len(self.rows)} of the partition")
        start = 0
        while start < len(counts):
            stop = max(start + 1, int(np.searchsorted(ends, ends[start] + most, side="right")) - 1)
            batch = self._lists.read(["_posting", *([_STREAMS, _STARTS] if with_positions else [])], range(start, stop))
            bounds = ends[start : stop + 1] - ends[start]
            data, blocks = _binaries(batch.column(0), path)
            lists = _list_bounds(batch.column(0), path)
            found = decode_lists(data, blocks, lists, bounds, self._layout, len(self.rows))
            if found is None:
                raise CorruptFileError(f"{path}: the posting lists from {start} to {stop} are invalid")
            positions = self._all_positions(batch.column(1), batch.column(2), bounds, found[1]) if with_positions else None
            yield start, bounds, *found, positions
            start = stop

    def _all_positions(self, streams: pa.Array, starts: pa.Array, bounds: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        data, ends = _binaries(streams, self._lists.path)
        start_bounds = _list_bounds(starts, self._lists.path)
        found = decode_many_streams(
            data, ends, unsigned(starts.flatten(), self._lists.path), start_bounds, bounds, frequencies, self._layout.size
        )
        if found is None:
            raise CorruptFileError(f"{self._lists.path}: positions are invalid")
        return found

    def _row(self, number: int, columns: Sequence[str]) -> list[pa.Array]:
        """Columns of the row of a token."""
        return list(self._lists.read(columns, np.array([number])).columns)


def _list_bounds(values: pa.Array, path: str) -> np.ndarray:
    """Where the items of each list of a column start among those of all lists, and where the last ones end."""
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)) or values.null_count:
        raise CorruptFileError(f"{path}: expected lists without nulls, found {values.null_count} nulls in {values.type}")
    return np.concatenate([[0], np.cumsum(values.value_lengths().to_numpy(), dtype=np.int64)])


def _binaries(values: pa.Array, path: str) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of all values of a column, or of its lists, one after the other, and the bounds of each."""
    while pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        values = values.flatten()
    if values.type not in (pa.binary(), pa.large_binary()) or values.null_count:
        raise CorruptFileError(f"{path}: expected bytes without nulls, found {values.null_count} nulls in {values.type}")
    values = values.cast(pa.large_binary())
    bounds = (
        np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
        if len(values)
        else np.zeros(1, np.int64)
    )
    data = values.buffers()[2]
    return (np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[: int(bounds[-1])]), bounds
