"""Full-text indexes before partitions: one file each for the tokens, the documents and the posting lists, which have row ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.index.files import IndexFile, IndexFiles, unsigned
from lance_spark.index.text.analysis.parameters import TextParameters, parse_parameters
from lance_spark.index.text.largest import largest
from lance_spark.index.text.postings import Postings
from lance_spark.index.text.token_set import TokenSet, read_tokens

FIRST_FILE = "tokens.lance"
"""The file of the tokens and the parameters."""

_ENTRY_BYTES = 64
"""About the memory that a token takes."""


class OnePart:
    """A segment without partitions; see `postings.Part`. Its positions are not used, as in pylance."""

    def __init__(self, files: IndexFiles) -> None:
        self._files = files
        tokens = files.open(FIRST_FILE)
        self.parameters: TextParameters = parse_parameters(tokens.metadata.get("tokenizer", "{}"), tokens.path)
        self._tokens: TokenSet = files.cached("tokens", lambda: read_tokens(tokens), lambda _: _ENTRY_BYTES * tokens.num_rows)

    @cached_property
    def _documents(self) -> tuple[np.ndarray, np.ndarray]:
        """The row ids, ascending, and the numbers of tokens."""
        file = self._files.open("docs.lance")

        def read() -> tuple[np.ndarray, np.ndarray]:
            batch = file.read(["_rowid", "_num_tokens"])
            rows, lengths = (unsigned(batch.column(i), file.path) for i in range(2))
            order = np.argsort(rows, kind="stable")
            return rows[order], lengths[order]

        return self._files.cached("documents", read, lambda both: both[0].nbytes + both[1].nbytes)

    @property
    def rows(self) -> np.ndarray:
        """See `postings.Part`."""
        return self._documents[0]

    @property
    def lengths(self) -> np.ndarray:
        """See `postings.Part`."""
        return self._documents[1]

    @property
    def scored_lengths(self) -> np.ndarray:
        """See `postings.Part`."""
        return self.lengths

    @cached_property
    def total_tokens(self) -> int:
        """See `postings.Part`."""
        return int(self.lengths.sum(dtype=np.uint64))

    @cached_property
    def _lists(self) -> IndexFile:
        return self._files.open("invert.lance")

    @cached_property
    def _bounds(self) -> np.ndarray:
        """The first row of the posting list of each token, and the end."""
        file = self._lists
        try:
            bounds = np.array([*json.loads(file.metadata.get("offsets", "")), file.num_rows], np.int64)
        except (ValueError, TypeError, OverflowError) as e:
            raise CorruptFileError(f"{file.path}: the offsets of posting lists are invalid: {e}") from e
        if bounds.ndim != 1 or bounds[0] < 0 or (np.diff(bounds) < 0).any():
            raise CorruptFileError(f"{file.path}: the offsets of posting lists are not in order, or beyond the {file.num_rows} rows")
        return bounds

    def find(self, token: str) -> int | None:
        """See `postings.Part`."""
        number = self._tokens.find(token)
        if number is not None and not 0 <= number < len(self._bounds) - 1:
            raise CorruptFileError(
                f"{self._lists.path}: there are {len(self._bounds) - 1} posting lists, but a token has the number {number}"
            )
        return number

    def similar(self, token: str, fuzziness: int, prefix_length: int, most: int) -> list[str]:
        """See `postings.Part`."""
        return self._tokens.similar(token, fuzziness, prefix_length, most)

    def count(self, number: int) -> int:
        """See `postings.Part`."""
        return int(self._bounds[number + 1] - self._bounds[number])

    def postings(self, number: int) -> Postings:
        """See `postings.Part`."""
        return self._files.cached(f"postings {number}", lambda: self._read(number), lambda found: found.nbytes)

    def _read(self, number: int) -> Postings:
        file = self._lists
        batch = file.read(["_rowid", "_frequency"], range(*self._bounds[number : number + 2].tolist()))
        rows, frequencies = unsigned(batch.column(0), file.path), batch.column(1).cast(pa.float64()).to_numpy(zero_copy_only=False)
        order = np.argsort(rows, kind="stable")
        rows, frequencies = rows[order], frequencies[order]
        documents = np.searchsorted(self.rows, rows)
        valid = (rows[1:] != rows[:-1]).all() and ((frequencies >= 1) & (frequencies < 1 << 32)).all()
        if not valid or (documents >= len(self.rows)).any() or (self.rows[documents] != rows).any():
            raise CorruptFileError(f"{file.path}: the posting list {number} is invalid")
        return Postings(documents.astype(np.uint32), frequencies.astype(np.uint32))

    def read_ahead(self, numbers: Sequence[int]) -> None:
        """See `postings.Part`."""

    def largest(self, number: int, average: np.float32) -> np.ndarray:
        """See `postings.Part`."""
        found = self.postings(number)
        return largest(found.documents, found.frequencies, self.lengths, average)

    def first_positions(self, number: int) -> np.ndarray:
        """See `postings.Part`."""
        return self.postings(number).first_positions

    def positions(self, number: int) -> np.ndarray:
        """See `postings.Part`. Raises UnsupportedFeatureError."""
        raise UnsupportedFeatureError(f"{self._lists.path}: positions of indexes without partitions are not read")
