"""The posting lists of several partitions as those of one, with the rows where they are now; rows that are gone are left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import joined as joined_arrays
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.moves import Translation
from lance_spark.index.order import in_order, sort_order
from lance_spark.index.text.analysis.parameters import TextParameters
from lance_spark.index.text.build.inversion import Documents, Lists
from lance_spark.index.text.partition import Partition
from lance_spark.index.text.postings import Part

_MOST = 2 << 20
"""Documents of posting lists that are read at once."""


class Source:
    """A partition and where its rows are now. Raises UnsupportedFeatureError for those of early writers, and CorruptFileError."""

    def __init__(self, part: Part, translation: Translation, parameters: TextParameters) -> None:
        if not isinstance(part, Partition) or (parameters.with_position and not part.has_streams):
            raise UnsupportedFeatureError("posting lists in the form of early writers are not joined")
        self.part = part
        rows, exist = translation.numbers(part.rows)
        self.documents = Documents(rows[exist], part.lengths[exist])
        """The documents that still exist."""
        self._exist = exist

    @property
    def total_tokens(self) -> int:
        """The number of tokens of these documents."""
        return int(self.documents.lengths.sum(dtype=np.uint64))

    def lists(self, ranks: np.ndarray, first: int, with_positions: bool) -> Iterator[pa.RecordBatch]:
        """The posting lists: the rank of each token (uint32), by its number, the documents, which are numbered from `first`, and so on."""
        numbers = np.cumsum(self._exist, dtype=np.int64) - 1 + first
        numbers[~self._exist] = -1
        numbers = np.append(numbers, -1)  # so that it is not empty
        for start, bounds, documents, frequencies, positions in self.part.all_postings(_MOST, with_positions):
            if self._exist.all():
                kept, out_bounds = np.ones(len(documents), np.bool_), bounds
            else:
                kept = numbers[documents] >= 0
                out_bounds = np.concatenate([[0], np.cumsum(kept)])[bounds]
            if positions is not None:
                ends = np.concatenate([[0], np.cumsum(frequencies[kept], dtype=np.int64)])
                places = [_list(positions[np.repeat(kept, frequencies)], ends[out_bounds])]
            tokens = ranks[start : start + len(bounds) - 1]
            columns = [pa.array(tokens), _list(numbers[documents[kept]], out_bounds), _list(frequencies[kept], out_bounds)]
            columns += [] if positions is None else places
            batch = pa.RecordBatch.from_arrays(columns, names=["token", "documents", "frequencies", "positions"][: len(columns)])
            some = np.diff(out_bounds) > 0
            yield batch if some.all() else batch.filter(pa.array(some))


def _list(values: np.ndarray, bounds: np.ndarray) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(pa.array(bounds, pa.int64()), pa.array(values.astype(np.uint32)))


def joined(sources: Sequence[Source], parameters: TextParameters) -> tuple[Documents, Iterator[Lists]]:
    """The documents of a partition made of others, and its posting lists. If there are many, they are in temporary files meanwhile."""
    firsts = np.cumsum([0, *(len(source.documents.rows) for source in sources)])
    documents = Documents(*(np.concatenate([getattr(s.documents, name) for s in sources]) for name in ("rows", "lengths")))
    tokens, ranks = _ranked(sources)

    def batches() -> Iterator[pa.RecordBatch]:
        for source, own, first in zip(sources, ranks, firsts.tolist()):
            yield from source.lists(own, first, parameters.with_position)

    return documents, _united(in_order(batches()), tokens)


def _ranked(sources: Sequence[Source]) -> tuple[pa.LargeBinaryArray, Sequence[np.ndarray]]:
    """The tokens of all sources in order, each once, and for each source the ranks of its tokens, by their numbers."""
    listed = [source.part.all_tokens() for source in sources]
    united = pa.concat_arrays([tokens for tokens, _ in listed]).dictionary_encode()
    order = sort_order(united.dictionary)
    places = np.empty(len(order), np.uint32)
    places[order] = np.arange(len(order), dtype=np.uint32)
    found = places[np.asarray(united.indices)] if len(united) else np.empty(0, np.uint32)
    ranks, at = [], 0
    for source, (tokens, numbers) in zip(sources, listed):
        own = np.zeros(source.part.num_tokens, np.uint32)
        own[numbers] = found[at : at + len(tokens)]
        ranks.append(own)
        at += len(tokens)
    return united.dictionary.take(pa.array(order)), ranks


def _united(batches: Iterable[pa.RecordBatch], tokens: pa.LargeBinaryArray) -> Iterator[Lists]:
    """The lists of each token, which follow one another, as one. The last token of a batch waits for the next batch."""
    waiting: pa.RecordBatch | None = None
    for batch in batches:
        rows = batch if waiting is None else _both(waiting, batch)
        ranks = rows.column(0).to_numpy()
        last = int(np.searchsorted(ranks, ranks[-1])) if len(ranks) else 0
        waiting = rows.slice(last)
        if last:
            yield _lists(rows.slice(0, last), tokens)
    if waiting is not None and waiting.num_rows:
        yield _lists(waiting, tokens)


def _both(a: pa.RecordBatch, b: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([joined_arrays([a.column(i), b.column(i)]) for i in range(a.num_columns)], schema=a.schema)


def _lists(rows: pa.RecordBatch, tokens: pa.LargeBinaryArray) -> Lists:
    ranks = rows.column(0).to_numpy()
    starts = np.flatnonzero(np.append(True, ranks[1:] != ranks[:-1]))
    bounds = np.concatenate([[0], np.cumsum(rows.column(1).value_lengths().to_numpy())]).astype(np.int64)[np.append(starts, len(ranks))]
    documents, frequencies, *positions = (rows.column(i).flatten().to_numpy() for i in range(1, rows.num_columns))
    return Lists(tokens.take(pa.array(ranks[starts])), bounds, documents, frequencies, positions[0] if positions else None)
