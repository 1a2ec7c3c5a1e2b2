"""The chunks that are found for a few rows of a page are those that have them, and what is read of the page has these chunks.

Their buffers are those that are found for all rows.
"""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.encodings.flat import Flat
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.mini_block.locate import locate, locate_in_pages, split
from lance_spark.layouts.mini_block.read import Fetched, _chunk_buffers
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


Pages = tuple[list[np.ndarray], list[np.ndarray], np.ndarray, np.ndarray]


def pages_with_rows(seed: int) -> Pages:
    """The chunk words of some pages, a few rows of each, their numbers of items, and their bytes."""
    rng = np.random.default_rng(seed)
    words, rows, items, sizes = [], [], [], []
    for _ in range(6):
        own, logs = rng.integers(1, 9, 30), rng.integers(0, 5, 30)
        words.append(((own - 1) << 4 | logs).astype(np.uint16))
        items.append(int((1 << logs[:-1]).sum()) + 1)
        sizes.append(int(own.sum()) * 8)
        rows.append(np.sort(rng.choice(items[-1], rng.integers(1, 9), replace=False)))
    return words, rows, np.array(items), np.array(sizes)


def located(pages: Pages) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    words, rows, items, sizes = pages
    wanted = np.concatenate(rows)
    chunks, runs, at, of_pages = (np.empty(shape, np.int64) for shape in ((3, 60), (60, 2), (2, len(wanted)), (3, len(words))))
    ends, bounds = np.cumsum([len(own) for own in words]), np.cumsum([len(own) for own in rows])
    spans_of_rows = spans.of(wanted, wanted + 1)
    found = locate_in_pages(np.concatenate(words), ends, items, spans_of_rows, bounds, sizes, GAP, chunks, runs, at, of_pages)
    return int(found), chunks, runs, at, of_pages


@pytest.mark.parametrize("seed", range(8))
def test_chunks_of_many_pages_are_those_of_each_page_one_after_the_other(seed: int) -> None:
    pages = pages_with_rows(seed)
    found, chunks, runs, at, of_pages = located(pages)
    numbers, read, place, done = 0, 0, 0, 0
    for page, (words, rows, items) in enumerate(zip(*pages[:3])):
        own, ranges, scratch, places = (np.empty(shape, np.int64) for shape in ((3, 60), (60, 2), (60, 2), (2, len(rows))))
        count, parts, _, values, _, _ = locate(words, int(items), spans.from_rows(rows), GAP, own, ranges, scratch, places)
        assert of_pages[:, page].tolist() == [count, parts, values]
        assert (chunks[0, numbers : numbers + count] - place).tolist() == own[0, :count].tolist()
        assert chunks[1:, numbers : numbers + count].tolist() == own[1:, :count].tolist()
        assert runs[read : read + parts].tolist() == ranges[:parts].tolist()
        assert at[0, done : done + len(rows)].tolist() == (places[0] + numbers).tolist()
        assert at[1, done : done + len(rows)].tolist() == places[1].tolist()
        place += int((ranges[:parts, 1] - ranges[:parts, 0]).sum())
        numbers, read, done = numbers + int(count), read + int(parts), done + len(rows)
    assert found == numbers


@pytest.mark.parametrize("wrong", ["too many items", "too few bytes", "a row that is not there"])
def test_a_damaged_page_among_many_is_not_located(wrong: str) -> None:
    words, rows, items, sizes = pages_with_rows(3)
    items[2] -= 5 if wrong == "too many items" else 0
    sizes[2] -= 8 if wrong == "too few bytes" else 0
    rows[2] = np.array([items[2]]) if wrong == "a row that is not there" else rows[2]
    assert located((words, rows, items, sizes))[0] == -1


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
        fetched = Fetched(data, starts, sizes, np.array([4, 5]), 9, spans.all_rows(9))
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
