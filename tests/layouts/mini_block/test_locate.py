"""The chunks that are found for a few rows of a page are those that have them, and what is read of the page has these chunks."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.layouts.mini_block.locate import locate, positions
from lance_spark.reading import spans

GAP = 64


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("word", [np.uint16, np.uint32])
def test_each_row_is_in_its_chunk_and_each_chunk_in_what_is_read(seed: int, word: type[np.unsignedinteger]) -> None:
    rng = np.random.default_rng(seed)
    sizes, logs = rng.integers(1, 9, 40), rng.integers(0, 5, 40)
    counts = 1 << logs
    counts[-1] = rng.integers(1, counts[-1] + 1)
    stops, bounds = np.cumsum(counts), np.concatenate([[0], np.cumsum(sizes * 8)])
    words = ((sizes - 1) << 4 | logs).astype(word)
    page = np.arange(bounds[-1])
    rows = np.sort(rng.choice(stops[-1], rng.integers(1, 12), replace=False))

    wanted, (chunks, runs, read) = spans.from_rows(rows), (np.empty(shape, np.int64) for shape in ((4, 40), (40, 2), (40, 2)))
    found, ranges, adjacent, size, items = locate(words, int(stops[-1]), wanted, GAP, chunks, runs, read)

    of_rows = np.searchsorted(stops, rows, side="right")
    numbers = np.unique(of_rows)
    places, lengths, held, first = chunks[:, :found]
    data = np.concatenate([page[a:b] for a, b in runs[:ranges].tolist()])
    assert (size, items) == (bounds[-1], stops[-1])
    assert held.tolist() == counts[numbers].tolist()
    assert first.tolist() == (stops - counts)[numbers].tolist()
    assert [data[a : a + n].tolist() for a, n in zip(places.tolist(), lengths.tolist())] == [
        page[bounds[c] : bounds[c + 1]].tolist() for c in numbers.tolist()
    ]
    assert (runs[1:ranges, 0] - runs[: ranges - 1, 1] > GAP).all()
    assert spans.rows(read[:adjacent]).tolist() == np.flatnonzero(np.isin(np.repeat(np.arange(40), counts), numbers)).tolist()

    of, at = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    positions(wanted, first, held, of, at)
    assert numbers[of].tolist() == of_rows.tolist()
    assert (first[of] + at).tolist() == rows.tolist()


def test_chunks_of_more_values_than_the_page_are_found() -> None:
    words, (chunks, runs, read) = np.array([3, 3, 0], np.uint16), (np.empty(shape, np.int64) for shape in ((4, 3), (3, 2), (3, 2)))
    assert locate(words, 12, spans.from_rows(np.array([11])), GAP, chunks, runs, read)[-1] == -1
