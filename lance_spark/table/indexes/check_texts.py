"""Verification of full-text indexes: the tokens of a sample of rows are in the posting lists, and no others of these rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.text.build.split import Splitter
from lance_spark.index.text.postings import Part
from lance_spark.index.text.text_index import TextIndex, open_text_index
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import Column
from lance_spark.schema.schema import Field
from lance_spark.table.scan.indexed import Segment, Segments

_TOKENS = 20
"""About as many tokens of a sample are looked up."""


def text_problems(
    segments: Segments, index: IndexMetadata, field: Field, column: Column, samples: Iterable[pa.RecordBatch]
) -> Iterator[str]:
    """What is wrong about rows that a segment covers, which have their addresses. Raises CorruptFileError or StorageError."""
    segment = next((s for s in segments.searched("INVERTED", field) if s.index.uuid == index.uuid), None)
    if segment is None:
        return
    try:
        opened = open_text_index(segments.files(segment, field))
        for rows in samples:
            yield from _Sampled(segments, segment, opened, rows).problems(raw_values(column, rows))
    except UnsupportedFeatureError:
        return


class _Sampled:
    """Rows of a sample and what a segment knows of them."""

    def __init__(self, segments: Segments, segment: Segment, index: TextIndex, rows: pa.RecordBatch) -> None:
        self._index = index
        self._addresses = rows.column("_rowaddr").to_numpy()
        self._order = np.argsort(self._addresses)
        places = [segments.present(segment, part.rows) for part in index.parts]
        self._found = [self._of(*place) for place in places]

    def _of(self, addresses: np.ndarray, exist: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The documents that are rows of the sample, and the places of these rows."""
        documents = np.flatnonzero(exist & np.isin(addresses, self._addresses))
        return documents, self._order[np.searchsorted(self._addresses, addresses[documents], sorter=self._order)]

    def problems(self, values: pa.Array) -> Iterator[str]:
        """The first row of the sample, whose values are given, that has another number of tokens than in the index, also of some tokens."""
        splitter = Splitter(self._index.parameters)
        tokens_found, documents_found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for start, _, part in splitter.split(values):
            tokens_found.append(part.tokens)
            documents_found.append(part.documents.astype(np.int64) + start)
        tokens, documents = np.concatenate(tokens_found), np.concatenate(documents_found)
        yield from self._compare(np.bincount(documents, minlength=len(values)), lambda part: part.lengths, "tokens")
        known = splitter.tokens
        for number in range(0, len(known), max(len(known) // _TOKENS, 1)):
            expected = np.bincount(documents[tokens == number], minlength=len(values))
            yield from self._compare(expected, partial(_frequencies, token=known[number]), f"occurrences of {known[number]!r}")

    def _compare(self, expected: np.ndarray, ask: Callable[[Part], np.ndarray], what: str) -> Iterator[str]:
        """Compare the number that each of the rows has with that of its documents in all parts."""
        found = np.zeros(len(expected), np.int64)
        for part, (documents, rows) in zip(self._index.parts, self._found):
            np.add.at(found, rows, ask(part)[documents])
        if (found != expected).any():
            at = int(np.flatnonzero(found != expected)[0])
            yield f"has {found[at]} {what} of the row at address {self._addresses[at]}, which has {expected[at]}"


def _frequencies(part: Part, token: str) -> np.ndarray:
    """How often each document has the token."""
    counts = np.zeros(len(part.rows), np.int64)
    number = part.find(token)
    if number is not None:
        postings = part.postings(number)
        counts[postings.documents] = postings.frequencies
    return counts
