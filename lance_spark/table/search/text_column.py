"""A column that a full-text search looks into: the segments of its index, and the rows that they do not cover."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError, StorageError, UnsupportedFeatureError
from lance_spark.index.damaged import DamagedSegmentError
from lance_spark.index.text.analysis.analyzer import Analyzer
from lance_spark.index.text.analysis.parameters import SMALL, UNINDEXED, TextParameters
from lance_spark.index.text.analysis.tokenizers import Tokens
from lance_spark.index.text.best import MOST
from lance_spark.index.text.bm25 import Statistics, statistics_of
from lance_spark.index.text.conditions import documents_of
from lance_spark.index.text.match import Found
from lance_spark.index.text.memory_part import MemoryPart
from lance_spark.index.text.postings import Part
from lance_spark.index.text.text_index import TextIndex, open_text_index
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import Column
from lance_spark.schema.schema import quoted
from lance_spark.table.scan.indexed import Segment, segments_of
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.scan.text_parameters import text_parameters
from lance_spark.table.search.text_query import field_of
from lance_spark.table.versions.snapshot import Snapshot

_ADDRESS = "_rowaddr"


Ask = Callable[[Part, Statistics, int | None], Found]
"""A search of a part: the documents that are found, or at least so many of the best ones."""
_MORE = 4
"""If so few of the best documents are left that others must be found, so many times more are searched for."""


@dataclass(frozen=True)
class Scored:
    """Rows by address (uint64, ascending), and their scores (float32)."""

    addresses: np.ndarray
    scores: np.ndarray


class TextColumn:
    """A column in a search: all its rows, since the scores of those that a filter leaves depend on the others.

    Segments whose uuids are in `without` cannot be used: their rows are read. With `fast_search`, only rows in segments are searched,
    which these are, too. Raises UnsupportedFeatureError or CorruptFileError if it is not known how the texts are split.
    """

    def __init__(self, snapshot: Snapshot, name: str, fast_search: bool, without: Mapping[bytes, DamagedSegmentError]) -> None:
        self.path, self.field = field_of(snapshot.manifest.schema, name)
        self._snapshot, self._fast_search = snapshot, fast_search
        self._wanted: set[str] = set()
        told = text_parameters(snapshot, self.field)
        found = segments_of(snapshot).searched("INVERTED", self.field)
        opened = [(segment, self._opened(segment)) for segment in found if segment.index.uuid not in without]
        # An SSTable may be older than the table's index.
        self.segments = [(segment, index) for segment, index in opened if not segment.is_of_log or _alike(index.parameters, told)]
        self._left_out = [segment for segment in found if segment.index.uuid in without]
        self.parameters = self.segments[0][1].parameters if self.segments else told
        """The parameters of its full-text index; None if it has none."""
        self.damage = next((without[segment.index.uuid] for segment in self._left_out), None)
        """Why a segment cannot be used."""

    def _opened(self, segment: Segment) -> TextIndex:
        segments = segments_of(self._snapshot)
        with damaged(segment.index):
            if (reason := segments.other_column(segment)) is not None:
                raise CorruptFileError(reason)
            return open_text_index(segments.files(segment, self.field))

    @cached_property
    def analyzer(self) -> Analyzer:
        """How texts are split into tokens: as in the index, also if it cannot be used otherwise, or as pylance does without one."""
        return Analyzer(self.parameters or UNINDEXED)

    @property
    def has_positions(self) -> bool:
        """Whether phrases can be searched."""
        return all(index.has_positions for _, index in self.segments)

    @cached_property
    def covered(self) -> BitMap:
        """The fragments that the segments cover."""
        return BitMap().union(*(segment.covered for segment, _ in self.segments))

    def want(self, tokens: Sequence[str]) -> None:
        """Say that these tokens will be searched for, before the rows outside of segments are read."""
        self._wanted.update(tokens)

    @cached_property
    def others(self) -> frozenset[int]:
        """The fragments whose rows are searched without an index."""
        if self._fast_search:
            return frozenset(BitMap().union(*(segment.covered for segment in self._left_out)) - self.covered)
        return frozenset(f.id for f in self._snapshot.manifest.fragments if f.id not in self.covered)

    @cached_property
    def parts(self) -> Sequence[Part]:
        """The parts of all segments."""
        return [part for _, index in self.segments for part in index.parts]

    @cached_property
    def other_rows(self) -> MemoryPart:
        """The rows outside of segments, by address."""
        return MemoryPart(self._read_others(), frozenset(self._wanted))

    def _read_others(self) -> Iterator[tuple[np.ndarray, Sequence[Tokens]]]:
        if not self.others:
            return
        plan = ScanPlan((quoted(self.path), _ADDRESS), fragments=self.others)
        column = Column(self.path, self.field.type)
        for task in plan_tasks(self._snapshot, plan):
            for batch in task.read():
                yield batch.column(_ADDRESS).to_numpy(), documents_of(self.analyzer, raw_values(column, batch))

    def statistics(self, tokens: frozenset[str]) -> tuple[Statistics, Statistics]:
        """The statistics that rows in segments are scored with, and those of the other rows, which count the rows of both."""
        indexed = self._in_parts(lambda parts: statistics_of(parts, tokens))
        return indexed, indexed + statistics_of([self.other_rows], tokens) if self.others else indexed

    def _in_parts(self, ask: Callable[[Sequence[Part]], Statistics]) -> Statistics:
        found = Statistics(0, 0, {})
        for segment, index in self.segments:
            with damaged(segment.index):
                found = found + ask(index.parts)
        return found

    def search(self, ask: Ask, tokens: frozenset[str], most: int | None = None) -> Scored:
        """The rows that `ask` finds in the parts, with the statistics of these tokens; the `most` best ones, if not more of them."""
        indexed, all_rows = self.statistics(tokens)
        addresses, scores = [np.empty(0, np.uint64)], [np.empty(0, np.float32)]
        for segment, index in self.segments:
            for part in index.parts:
                with damaged(segment.index):
                    rows, found = self._present(segment, part, partial(ask, part, indexed), most)
                addresses.append(rows)
                scores.append(found)
        if self.others:
            others = ask(self.other_rows, all_rows, most)
            addresses.append(self.other_rows.rows[others.documents])
            scores.append(others.scores)
        unique, at = np.unique(np.concatenate(addresses), return_index=True)
        if most is not None and len(unique) < min(most, sum(map(len, addresses))):
            return self.search(ask, tokens)  # a row is in several parts
        return Scored(unique, np.concatenate(scores)[at])

    def _present(self, segment: Segment, part: Part, ask: Callable[[int | None], Found], most: int | None) -> tuple[np.ndarray, np.ndarray]:
        """The addresses and scores of what is found in a part and not deleted; deleted rows do not count among the `most` best."""
        count = most
        while True:
            found = ask(count)
            rows, exist = segments_of(self._snapshot).present(segment, part.rows[found.documents])
            if most is None or count is None or len(found.documents) < count or np.count_nonzero(exist) >= most:
                return rows[exist], found.scores[exist]
            count = _MORE * count if count <= MOST else None


def _alike(some: TextParameters, others: TextParameters | None) -> bool:
    """Whether indexes split texts in the same way and find the same. SSTables of pylance do not tell that documents are texts."""
    return others is not None and _splitting(some) == _splitting(others)


def _splitting(parameters: TextParameters) -> TextParameters:
    return replace(parameters, lance_tokenizer=parameters.lance_tokenizer or "text", block_size=SMALL)


@contextmanager
def damaged(index: IndexMetadata) -> Iterator[None]:
    """Raise DamagedSegmentError for what shows that the segment cannot be used."""
    try:
        yield
    except (CorruptFileError, UnsupportedFeatureError, StorageError) as e:
        raise DamagedSegmentError(str(e), index) from e
