"""The chunks that are found for a few rows of a page are those that have them, and what is read of the page has these chunks.

Their buffers are those that are found for all rows.
"""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.encodings.flat import Flat
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.mini_block.locate import locate, split
from lance_spark.layouts.mini_block.read import _chunk_buffers, _Fetched
from lance_spark.layouts.nodes.page_layouts import Dense, Layer, MiniBlock
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

    chunks, runs, read, places_of_rows = (np.empty(shape, np.int64) for shape in ((3, 40), (40, 2), (40, 2), (2, len(rows))))
    wanted = spans.from_rows(rows)
    found, ranges, adjacent, values, size, items = locate(words, int(stops[-1]), wanted, GAP, chunks, runs, read, places_of_rows)

    of_rows = np.searchsorted(stops, rows, side="right")
    numbers = np.unique(of_rows)
    places, lengths, held = chunks[:, :found]
    data = np.concatenate([page[a:b] for a, b in runs[:ranges].tolist()])
    assert (size, items, values) == (bounds[-1], stops[-1], held.sum())
    assert held.tolist() == counts[numbers].tolist()
    assert [data[a : a + n].tolist() for a, n in zip(places.tolist(), lengths.tolist())] == [
        page[bounds[c] : bounds[c + 1]].tolist() for c in numbers.tolist()
    ]
    assert (runs[1:ranges, 0] - runs[: ranges - 1, 1] > GAP).all()
    assert spans.rows(read[:adjacent]).tolist() == np.flatnonzero(np.isin(np.repeat(np.arange(40), counts), numbers)).tolist()

    of, at = places_of_rows
    assert numbers[of].tolist() == of_rows.tolist()
    assert ((stops - counts)[of_rows] + at).tolist() == rows.tolist()


def test_chunks_of_more_values_than_the_page_are_found() -> None:
    words, arrays = np.array([3, 3, 0], np.uint16), (np.empty(shape, np.int64) for shape in ((3, 3), (3, 2), (3, 2), (2, 1)))
    assert locate(words, 12, spans.from_rows(np.array([11])), GAP, *arrays)[-1] == -1


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("has_levels", [False, True])
def test_buffers_of_few_rows_are_those_of_all_rows(large: bool, has_levels: bool) -> None:
    levels = Flat(16) if has_levels else None
    layout = MiniBlock(Dense((Layer(False, 0, 0),)), Flat(32), levels, levels, None, 0, 1, 9, 0, large)
    rng = np.random.default_rng(3)
    agreed = refused = 0
    for _ in range(300):
        data = rng.integers(0, 2, 128).astype(np.uint8) * rng.integers(0, 40, 128).astype(np.uint8)
        data[1::2] = 0
        starts, sizes = np.array([0, 64]), np.array([64, 64])
        fetched = _Fetched(data, starts, sizes, np.array([4, 5]), 9, spans.all_rows(9))
        counts, (at, of) = np.empty(2, np.int64), np.empty((2, 1 + 2 * has_levels, 2), np.int64)
        found = split(data, starts, sizes, 1 + 2 * has_levels, large, counts, at, of)
        try:
            expected = _chunk_buffers(layout, fetched)
        except CorruptFileError:
            assert not found
            refused += 1
            continue
        assert found
        assert [array.tolist() for array in (counts, at, of)] == [array.tolist() for array in expected]
        agreed += 1
    assert agreed
    assert refused or not has_levels


def test_chunks_outside_of_what_was_read_have_no_buffers() -> None:
    counts, (at, of) = np.empty(1, np.int64), np.empty((2, 1, 1), np.int64)
    for start, size in ((64, 8), (-8, 8), (0, 72), (0, 2)):
        assert not split(np.zeros(64, np.uint8), np.array([start]), np.array([size]), 1, False, counts, at, of)
