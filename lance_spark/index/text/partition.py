"""One partition of an index: the files of its tokens, its documents and its posting lists."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.index.files import IndexFile, IndexFiles, unsigned
from lance_spark.index.text.blocks import BlockFormat, decode
from lance_spark.index.text.positions import decode_lists, decode_streams
from lance_spark.index.text.postings import Postings
from lance_spark.index.text.token_set import TokenSet, read_tokens

_STREAMS, _STARTS, _LISTS = "_compressed_position", "_position_block_offset", "_position"
_TOKEN_BYTES = 64
"""About the memory that a token takes."""


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
        return self._files.cached(f"{self._number} postings {number}", lambda: self._read(number), lambda found: found.nbytes)

    def _read(self, number: int) -> Postings:
        (blocks,) = self._row(number, ["_posting"])
        data, bounds = _binaries(blocks, self._lists.path)
        found = decode(data, bounds, self.count(number), self._layout, len(self.rows))
        if found is None:
            raise CorruptFileError(f"{self._lists.path}: the posting list {number} is invalid")
        return Postings(*found)

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
            found = decode_lists(data, bounds, np.concatenate([[0], np.cumsum(lists.flatten().value_lengths())]), frequencies)
        else:
            raise CorruptFileError(f"{path}: the index should have positions, but has none")
        if found is None:
            raise CorruptFileError(f"{path}: the positions of posting list {number} are invalid")
        return found

    def _row(self, number: int, columns: Sequence[str]) -> list[pa.Array]:
        """Columns of the row of a token."""
        return list(self._lists.read(columns, np.array([number])).columns)


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
