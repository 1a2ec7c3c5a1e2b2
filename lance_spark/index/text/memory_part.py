"""Documents that no index covers, split into tokens and kept in memory for one search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from lance_spark.index.text.analysis.tokenizers import Tokens
from lance_spark.index.text.largest import largest
from lance_spark.index.text.postings import Postings


class MemoryPart:
    """Documents in memory; see `postings.Part`.

    `batches` are the rows of some documents and the tokens of each; those without tokens are left out. Only the tokens in `wanted` can be
    found; others just count for the lengths of the documents.
    """

    def __init__(self, batches: Iterable[tuple[np.ndarray, Sequence[Tokens]]], wanted: frozenset[str]) -> None:
        self._numbers = {token: number for number, token in enumerate(sorted(wanted))}
        rows, lengths = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)]
        found = [np.empty((0, 3), np.uint32)]
        first = 0
        for numbers, documents in batches:
            sizes = np.array([len(words) for words, _ in documents], np.uint32)
            rows.append(numbers[sizes > 0])
            lengths.append(sizes[sizes > 0])
            found.append(self._found([tokens for tokens in documents if tokens[0]], first))
            first += len(lengths[-1])
        self.rows: np.ndarray = np.concatenate(rows)
        """See `postings.Part`."""
        self.lengths: np.ndarray = np.concatenate(lengths)
        """See `postings.Part`."""
        self.scored_lengths = self.lengths
        """See `postings.Part`."""
        self.total_tokens = int(self.lengths.sum(dtype=np.uint64))
        """See `postings.Part`."""
        tokens, self._documents, self._positions = np.concatenate(found).T
        order = np.argsort(tokens, kind="stable")
        self._documents, self._positions = self._documents[order], self._positions[order]
        self._bounds = np.searchsorted(tokens[order], np.arange(len(self._numbers) + 1))

    def _found(self, documents: Sequence[Tokens], first: int) -> np.ndarray:
        """The wanted tokens in documents that are numbered from `first`: numbers of the tokens and the documents, and positions."""
        known = self._numbers.get
        there = [
            (number, document, place)
            for document, (words, places) in enumerate(documents, first)
            for word, place in zip(words, places)
            if (number := known(word)) is not None
        ]
        return np.array(there, np.uint32).reshape(-1, 3)

    def find(self, token: str) -> int | None:
        """See `postings.Part`."""
        number = self._numbers.get(token)
        return None if number is None or not self.count(number) else number

    def similar(self, token: str, fuzziness: int, prefix_length: int, most: int) -> list[str]:
        """See `postings.Part`. As in pylance, only the token itself."""
        return [token][:most] if self.find(token) is not None else []

    def count(self, number: int) -> int:
        """See `postings.Part`."""
        return len(self.postings(number).documents)

    def postings(self, number: int) -> Postings:
        """See `postings.Part`."""
        documents, counts = np.unique(self._documents[self._of(number)], return_counts=True)
        return Postings(documents, counts.astype(np.uint32))

    def read_ahead(self, numbers: Sequence[int]) -> None:
        """See `postings.Part`."""

    def largest(self, number: int, average: np.float32) -> np.ndarray:
        """See `postings.Part`."""
        found = self.postings(number)
        return largest(found.documents, found.frequencies, self.scored_lengths, average)

    def first_positions(self, number: int) -> np.ndarray:
        """See `postings.Part`."""
        return self.postings(number).first_positions

    def positions(self, number: int) -> np.ndarray:
        """See `postings.Part`."""
        return np.asarray(self._positions[self._of(number)])

    def _of(self, number: int) -> slice:
        return slice(self._bounds[number], self._bounds[number + 1])
