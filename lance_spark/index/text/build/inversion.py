"""From documents with tokens to tokens with documents: the posting lists of one partition, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.index.order import sort_order
from lance_spark.index.text.build.split import Occurrences, Splitter
from lance_spark.kernels.kernel import kernel

MOST_OCCURRENCES = 16 << 20
"""Occurrences of tokens in a partition that is built: with their documents and positions, and sorted, they take 400 MB."""

MOST_TOKENS = 1 << 21
"""Distinct tokens of a partition that is built, which take some 100 bytes each."""


@dataclass(frozen=True)
class Lists:
    """Posting lists of tokens in the order of their bytes: list i is `documents[bounds[i]:bounds[i + 1]]` (uint32, ascending).

    The token occurs in document k of the arrays `frequencies[k]` times (uint32), at the next so many `positions` (uint32; None: unknown).
    """

    tokens: pa.LargeBinaryArray
    bounds: np.ndarray
    documents: np.ndarray
    frequencies: np.ndarray
    positions: np.ndarray | None

    def pieces(self, most: int) -> Iterator[Lists]:
        """The lists with at most so many documents and positions at a time, or a single one."""
        ends = self.frequencies.cumsum(dtype=np.int64) if self.positions is not None else None
        weights = self.bounds if ends is None else np.concatenate([[0], ends])[self.bounds] + self.bounds
        at = 0
        while at < len(self.tokens):
            stop = max(at + 1, int(np.searchsorted(weights, weights[at] + most, side="right")) - 1)
            first, last = int(self.bounds[at]), int(self.bounds[stop])
            positions = self.positions
            if positions is not None and ends is not None:
                positions = positions[int(ends[first - 1]) if first else 0 : int(ends[last - 1]) if last else 0]
            yield Lists(
                self.tokens.slice(at, stop - at),
                self.bounds[at : stop + 1] - first,
                self.documents[first:last],
                self.frequencies[first:last],
                positions,
            )
            at = stop


@dataclass(frozen=True)
class Documents:
    """The documents of a partition: their rows (uint64), and the numbers of their tokens (uint32)."""

    rows: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True)
class Inverted:
    """The documents of a partition, and its posting lists."""

    documents: Documents
    lists: Lists


def inverted(batches: Iterator[pa.RecordBatch], splitter: Splitter, with_positions: bool) -> Inverted | None:
    """The documents of some of the batches, as many as fit a partition; None if there are none left.

    The batches have the columns "value" and "row". Documents without tokens are left out.
    """
    rows, lengths = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)]
    parts: list[Occurrences] = []
    documents = occurrences = 0
    for batch in batches:
        numbers = batch.column(1).to_numpy()
        for start, stop, found in splitter.split(batch.column(0)):
            sizes = np.bincount(found.documents, minlength=stop - start).astype(np.uint32)
            own = np.cumsum(sizes > 0, dtype=np.int64) - 1 + documents
            rows.append(numbers[start:stop][sizes > 0])
            lengths.append(sizes[sizes > 0])
            documents += len(rows[-1])
            occurrences += len(found.tokens)
            places = found.places if with_positions else np.empty(0, np.uint32)
            parts.append(Occurrences(found.tokens, own[found.documents].astype(np.uint32), places))
        if occurrences >= MOST_OCCURRENCES or len(splitter) >= MOST_TOKENS:
            break
    if not documents:
        return None
    return Inverted(Documents(np.concatenate(rows), np.concatenate(lengths)), _lists(splitter.tokens, parts, with_positions))


def _lists(tokens: Sequence[str], parts: list[Occurrences], with_positions: bool) -> Lists:
    texts = pa.array(tokens, pa.large_string()).cast(pa.large_binary())
    order = sort_order(texts)
    ranks = np.empty(len(order), np.uint32)
    ranks[order] = np.arange(len(order), dtype=np.uint32)
    numbers = ranks[np.concatenate([part.tokens for part in parts])]
    documents, places = np.concatenate([part.documents for part in parts]), np.concatenate([part.places for part in parts])
    parts.clear()
    counts = np.bincount(numbers, minlength=len(order))
    documents, places = _by_token(numbers, documents, places, np.concatenate([[0], np.cumsum(counts)[:-1]]))
    bounds = np.zeros(len(order) + 1, np.int64)
    frequencies = np.empty(len(documents), np.uint32)
    size = _counted(np.concatenate([[0], np.cumsum(counts)]), documents, frequencies, bounds)
    used = np.flatnonzero(counts)  # the splitter may know tokens of documents before
    bounds = np.append(bounds[:-1][used], size)
    return Lists(texts.take(pa.array(order[used])), bounds, documents[:size], frequencies[:size], places if with_positions else None)


@kernel
def _by_token(numbers: np.ndarray, documents: np.ndarray, places: np.ndarray, next_: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Documents and places in the order of the numbers of their tokens; `next_` are the places of the first ones."""
    out, out_places = np.empty_like(documents), np.empty_like(places)
    for i in range(len(numbers)):
        at = next_[numbers[i]]
        next_[numbers[i]] = at + 1
        out[at] = documents[i]
        if len(places):
            out_places[at] = places[i]
    return out, out_places


@kernel
def _counted(starts: np.ndarray, documents: np.ndarray, frequencies: np.ndarray, bounds: np.ndarray) -> int:
    """Join repeated documents of each token to one with a frequency, in place; the number of them."""
    size = 0
    for token in range(len(starts) - 1):
        bounds[token] = size
        for i in range(starts[token], starts[token + 1]):
            if i > starts[token] and documents[size - 1] == documents[i]:
                frequencies[size - 1] += np.uint32(1)
            else:
                documents[size] = documents[i]
                frequencies[size] = 1
                size += 1
    bounds[len(starts) - 1] = size
    return size
