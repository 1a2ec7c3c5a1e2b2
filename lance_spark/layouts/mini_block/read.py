"""Mini-block pages: values in small chunks, the units of decoding, each with the levels of its values.

Implements "Mini Block Page Layout" of the file encoding page. Buffers: a word for each chunk with its size and number of values;
the chunks; the dictionary, if there is one; for lists the repetition index, two numbers for each chunk.
A chunk: u16 number of levels; the sizes of its buffers, u16 for levels, u16 or u32 for values; padding to 8 bytes; then
repetition levels, definition levels and value buffers, each padded to 8 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.buffers.blocks import Block, Chunks
from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.buffers.limits import check_bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.levels.assemble import Path, nest
from lance_spark.layouts.levels.read import Slots, decode_levels, unravel
from lance_spark.layouts.levels.sparse import read_structure, restrict
from lance_spark.layouts.mini_block.locate import locate, split
from lance_spark.layouts.nodes.page_layouts import Dense, MiniBlock, Sparse
from lance_spark.layouts.values.to_arrow import look_up_later, to_array, to_dictionary_array
from lance_spark.reading import spans
from lance_spark.reading.flat_buffers import bit_width
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Page, Steps

_ALIGNMENT = 8

GAP = 16 << 10
"""Chunks at most so many bytes apart are read together, with what is between them, as stores do."""

FEW = 4
"""Values are picked one by one if the chunks that have them have at least so many times as many."""


@dataclass(frozen=True)
class _Table:
    """All chunks of a page: the start of each in the buffer of chunks, its size and number of values, and its rows."""

    starts: np.ndarray
    sizes: np.ndarray
    counts: np.ndarray
    rows: np.ndarray  # int64 [n, 2]: first row and end of the rows with values in each chunk


@dataclass(frozen=True)
class Fetched:
    """Fetched chunks, all within `data`, with `count` values, and their spans of rows; for lists also their spans of chunks.

    If few of their values are wanted, `few` (int64 [2, n]) has the chunk of each of these, and its position in that chunk.
    """

    data: Bytes
    starts: np.ndarray
    sizes: np.ndarray
    counts: np.ndarray
    count: int
    rows: Spans
    chunks: Spans | None = None
    few: np.ndarray | None = None


def read(layout: MiniBlock, page: Page, path: Path, t: pa.DataType, rows: Spans) -> Steps[tuple[pa.Array, Spans]]:
    """The column `path`, whose leaf is of type `t`: an array with the page's rows `rows` at least, and which rows it has.

    Flat values of a dictionary are looked up by the caller, since more rows are decoded than are wanted.
    """
    count = spans.count(rows)
    whole = count == page.num_rows
    words, *rest = yield from _first_round(layout, page, whole)
    dictionary = rest.pop(0) if layout.dictionary else None
    slots: tuple[Slots, ...] | None = None
    if isinstance(layout.structure, Sparse):
        slots = yield from read_structure(layout.structure, page, page.buffers[3 if layout.dictionary else 2 :])
        num_items = slots[0].count
        whole = whole or any(s.offsets is not None for s in slots)
    else:
        assert layout.num_items is not None
        num_items = layout.num_items
    index = rest.pop(0) if _needs_index(layout, whole) else None
    if whole:
        table = _table(layout, page, words, num_items)
        (data,) = rest or (yield [page.buffers[1]])
        fetched = Fetched(data, table.starts, table.sizes, table.counts, int(table.counts.sum()), spans.all_rows(page.num_rows))
    else:
        if index is None and FEW * count <= page.num_rows:
            fetched = yield from _read_few(layout, page, words, num_items, rows, count)
        else:
            fetched = yield from _read_chunks(_table(layout, page, words, num_items, index), page.buffers[1].start, rows)
        slots = slots and restrict(slots, spans.rows(fetched.rows))
    check_bytes(float(fetched.count) * (bit_width(t) or 32) / 8, "values")
    block, slots, picked = decode(layout, fetched, slots)
    leaf = leaf_of(layout, block, dictionary, t, slots[0].validity, late=len(path) == 1)
    return nest(path, slots, leaf), rows if picked else fetched.rows


def decode_pages(
    layout: MiniBlock, items: Sequence[int], words: Sequence[Bytes], chunks: Sequence[Bytes], path: Path, t: pa.DataType
) -> pa.Array:
    """The values of whole pages, one after the other, which have one layout, without a dictionary, but for their numbers of `items`.

    `words` are those of the chunks of each page, and `chunks` all chunks of each.
    """
    numbers = words_of(layout, np.concatenate(words)).astype(np.int64)
    width = 4 if layout.large else 2
    ends = np.cumsum([len(own) // width for own in words])
    starts = np.append(0, ends[:-1])
    if any(len(own) % width for own in words) or (starts == ends).any():
        raise CorruptFileError("a page has a part of a chunk word, or none")
    sizes = ((numbers >> 4) + 1) * _ALIGNMENT
    counts = np.left_shift(1, numbers & 15)
    # The last chunk of a page has the remaining values.
    counts[ends - 1] = 0
    counts[ends - 1] = np.array(items) - np.add.reduceat(counts, starts)
    stops = np.add.reduceat(sizes, starts).tolist()
    if counts.min() < 0 or any(stop > len(chunk) for stop, chunk in zip(stops, chunks, strict=True)):
        raise CorruptFileError("a page has more items or bytes in its chunks than it declares")
    data = np.concatenate([chunk[:stop] for stop, chunk in zip(stops, chunks)])
    check_bytes(float(sum(items)) * (bit_width(t) or 32) / 8, "values")
    fetched = Fetched(data, np.cumsum(sizes) - sizes, sizes, counts, sum(items), spans.all_rows(sum(items)))
    block, slots, _ = decode(layout, fetched, None)
    return nest(path, slots, leaf_of(layout, block, None, t, slots[0].validity, late=len(path) == 1))


def _needs_index(layout: MiniBlock, whole: bool) -> bool:
    return not whole and isinstance(layout.structure, Dense) and layout.structure.num_lists > 0


def _first_round(layout: MiniBlock, page: Page, whole: bool) -> Steps[Sequence[Bytes]]:
    """Chunk words, dictionary and repetition index; if all rows are wanted, also the chunks. The words stay in memory for other rows."""
    index_at = 3 if layout.dictionary else 2
    needs_index = _needs_index(layout, whole)
    if len(page.buffers) < index_at + needs_index:
        raise CorruptFileError(f"expected at least {index_at + needs_index} buffers in a mini-block page, found {len(page.buffers)}")
    wanted = [page.buffers[0]]
    if layout.dictionary:
        wanted.append(page.buffers[2])
    if needs_index:
        wanted.append(page.buffers[index_at])
    if whole:
        wanted.append(page.buffers[1])
    if len(wanted) == 1 and 0 in page.kept:
        return [page.kept[0]]
    answers = yield wanted
    if whole:
        return answers
    page.kept[0] = answers[0].copy()
    return [page.kept[0], *answers[1:]]


def words_of(layout: MiniBlock, words: Bytes) -> np.ndarray:
    """The chunk words, unsigned numbers of 16 or 32 bits."""
    width = 4 if layout.large else 2
    if len(words) % width or not len(words):
        raise CorruptFileError(f"{len(words)} bytes of chunk words are not a multiple of {width} bytes")
    numbers: np.ndarray = words.view(f"<u{width}")
    return numbers


def _table(layout: MiniBlock, page: Page, words: Bytes, num_items: int, index: Bytes | None = None) -> _Table:
    """A chunk word is (bytes / 8 - 1) << 4 | log2(values); the last chunk has the remaining values."""
    numbers = words_of(layout, words).astype(np.int64)
    sizes = ((numbers >> 4) + 1) * _ALIGNMENT
    starts = sizes.cumsum() - sizes
    limit = page.buffers[1].stop - page.buffers[1].start
    if starts[-1] + sizes[-1] > limit:
        raise CorruptFileError(f"expected {starts[-1] + sizes[-1]} bytes of chunks, found {limit}")
    counts = np.left_shift(1, numbers & 15)
    counts[-1] = num_items - counts[:-1].sum()
    if counts[-1] < 0:
        raise CorruptFileError(f"expected {num_items} items in the page, found more in its chunks")
    if index is not None:
        rows = _indexed_rows(layout, page, index, len(numbers))
    else:
        stops = counts.cumsum()
        rows = spans.of(stops - counts, stops)
    return _Table(starts, sizes, counts, rows)


def _indexed_rows(layout: MiniBlock, page: Page, index: Bytes, num_chunks: int) -> np.ndarray:
    """The rows of each chunk from the repetition index: the number of rows that end in it, and of items of a row that continues."""
    columns = layout.repetition_index_depth + 1
    if columns < 2 or len(index) != num_chunks * columns * 8:
        raise CorruptFileError(f"the repetition index has {len(index)} bytes, an invalid size for {num_chunks} chunks")
    pairs = index.view("<u8").reshape(num_chunks, columns)
    if (pairs[:, 0] > page.num_rows).any():
        raise CorruptFileError(f"expected {page.num_rows} rows in the repetition index, found more")
    ended = np.cumsum(pairs[:, 0].astype(np.int64))
    if ended[-1] != page.num_rows:
        raise CorruptFileError(f"expected {page.num_rows} rows in the repetition index, found {ended[-1]}")
    return spans.of(ended - pairs[:, 0].astype(np.int64), ended + (pairs[:, 1] > 0))


def _check_rows(table: _Table, rows: Spans) -> None:
    """Raise CorruptFileError if the chunks do not have all of `rows`."""
    if rows[-1, 1] > table.rows[-1, 1]:
        raise CorruptFileError(f"expected at least {rows[-1, 1]} rows in the chunks of the page, found {table.rows[-1, 1]}")


def _read_chunks(table: _Table, base: int, rows: Spans) -> Steps[Fetched]:
    """The chunks with values of `rows`."""
    _check_rows(table, rows)
    # A chunk is wanted if fewer spans of rows end before its first row than begin before its end.
    before = np.searchsorted(rows[:, 1], table.rows[:, 0], side="right")
    wanted = np.flatnonzero(np.searchsorted(rows[:, 0], table.rows[:, 1], side="left") > before)
    chunks = spans.from_rows(wanted)
    first, last = chunks[:, 0], chunks[:, 1] - 1
    stored = spans.of(table.starts[first], (table.starts + table.sizes)[last])
    # Chunks that are near each other are not copied together.
    runs = spans.merged(stored, GAP)
    answers = yield [ByteRange(base + a, base + b) for a, b in runs.tolist()]
    starts, sizes = table.starts[wanted], table.sizes[wanted]
    starts = spans.within(spans.of(starts, starts + sizes), runs)[:, 0]
    rows_read = spans.of(table.rows[first, 0], table.rows[last, 1])
    data = answers[0] if len(answers) == 1 else np.concatenate(answers)
    counts = table.counts[wanted]
    return Fetched(data, starts, sizes, counts, int(counts.sum()), rows_read, chunks)


def _read_few(layout: MiniBlock, page: Page, words: Bytes, num_items: int, rows: Spans, count: int) -> Steps[Fetched]:
    """The chunks with values of `rows`, which are `count` rows of a page without lists."""
    numbers = words_of(layout, words)
    most = min(len(numbers), count)
    # The kernel fills these: see `locate`.
    chunks = np.empty((3, most), np.int64)
    runs, rows_read = np.empty((2, most, 2), np.int64)
    few = np.empty((2, count), np.int64)
    found, read, adjacent, values, size, items = locate(numbers, num_items, rows, GAP, chunks, runs, rows_read, few)
    base, stop = page.buffers[1]
    if items < rows[-1, 1] or base + size > stop:
        _check_rows(_table(layout, page, words, num_items), rows)
    answers = yield [ByteRange(base + a, base + b) for a, b in runs[:read].tolist()]
    data = answers[0] if read == 1 else np.concatenate(answers)
    starts, sizes, counts = chunks[:, :found]
    return Fetched(data, starts, sizes, counts, int(values), rows_read[:adjacent], few=few if FEW * count <= values else None)


def decode(layout: MiniBlock, fetched: Fetched, slots: tuple[Slots, ...] | None) -> tuple[Block, tuple[Slots, ...], bool]:
    """The values of the fetched chunks, and their slots, which are given if the structure is not in the chunks.

    Only those of the few wanted values if the encoding can pick them; the bool tells.
    """
    num_levels, starts, sizes = _chunk_buffers(layout, fetched)
    level_buffers = (layout.repetition is not None) + (layout.definition is not None)
    if level_buffers:
        check_bytes(float(num_levels.sum()) * 8, "levels")
    chunks = Chunks(fetched.data, starts[level_buffers:], sizes[level_buffers:], fetched.counts)
    picked = None if fetched.few is None else layout.value.pick_values(chunks, *fetched.few)
    if slots is None:
        if picked is not None and not level_buffers:
            assert isinstance(layout.structure, Dense)
            return picked, unravel(layout.structure, None, None, picked.count), True
        slots = _dense_slots(layout, fetched, Chunks(fetched.data, starts, sizes, num_levels))
    if picked is not None and slots[0].count == fetched.count and fetched.few is not None:
        of, at = fetched.few
        return picked, restrict(slots, (fetched.counts.cumsum() - fetched.counts)[of] + at), True
    block = layout.value.decode_chunks(chunks)
    if slots[0].count != block.count:
        raise CorruptFileError(f"the page's levels declare {slots[0].count} values, found {block.count} in its chunks")
    return block, slots, False


def _chunk_buffers(layout: MiniBlock, fetched: Fetched) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The number of levels of each chunk, and the start and size of each of its buffers, from the chunk headers."""
    if layout.num_buffers != layout.value.num_buffers:
        raise CorruptFileError(f"expected {layout.value.num_buffers} value buffers in a chunk, found {layout.num_buffers}")
    levels = 1 + (layout.repetition is not None) + (layout.definition is not None)
    width = 4 if layout.large else 2
    head = 2 * levels + width * layout.num_buffers
    starts, sizes = np.empty((2, levels - 1 + layout.num_buffers, len(fetched.starts)), np.int64)
    if fetched.few is not None:
        counts = np.empty(len(fetched.starts), np.int64)
        if split(fetched.data, fetched.starts, fetched.sizes, levels, layout.large, counts, starts, sizes):
            return counts, starts, sizes
    if head > fetched.sizes.min(initial=head):
        raise CorruptFileError(f"expected at least {head} bytes in a chunk, found {fetched.sizes.min()}")
    # numpy, so that pages without encodings need no kernel: loading numba takes longer than reading them.
    words = fetched.data[: len(fetched.data) // 2 * 2].view("<u2")
    places = (fetched.starts >> 1)[:, None] + np.arange(head // 2)
    heads = words[places].T.astype(np.int64, order="C")
    end = np.full(len(fetched.starts), head, np.int64)
    for i in range(len(starts)):
        starts[i] = fetched.starts + ((end + (_ALIGNMENT - 1)) & -_ALIGNMENT)
        if i < levels - 1 or not layout.large:
            sizes[i] = heads[1 + i]
        else:
            low = levels + 2 * (i - levels + 1)  # large sizes of values take two words each
            sizes[i] = heads[low] | heads[low + 1] << 16
        end = starts[i] + sizes[i] - fetched.starts
    short = end > fetched.sizes
    if short.any():
        c = int(short.argmax())
        raise CorruptFileError(f"expected {end[c]} bytes in chunk {c} of those read, found {fetched.sizes[c]}")
    return heads[0], starts, sizes


def _dense_slots(layout: MiniBlock, fetched: Fetched, buffers: Chunks) -> tuple[Slots, ...]:
    """The slots of all layers from the levels of the fetched chunks, the first of `buffers`."""
    structure = layout.structure
    assert isinstance(structure, Dense)
    if layout.repetition is None and layout.definition is None:
        return unravel(structure, None, None, fetched.count)
    repetition = definition = None
    if layout.repetition is not None:
        repetition = decode_levels(layout.repetition, buffers.select(0, 1))
        chunks = fetched.chunks
        if chunks is not None and (len(chunks) > 1 or chunks[0, 0] > 0):
            # Reading may start mid-row. That row counts as one, so that row numbers are right; it is not selected.
            repetition = repetition.copy()
            lengths = chunks[:, 1] - chunks[:, 0]
            repetition[(np.cumsum(buffers.counts) - buffers.counts)[np.cumsum(lengths) - lengths]] = structure.num_lists
    if layout.definition is not None:
        at = int(layout.repetition is not None)
        definition = decode_levels(layout.definition, buffers.select(at, at + 1))
    return unravel(structure, repetition, definition, int(buffers.counts.sum()))


def leaf_of(layout: MiniBlock, block: Block, dictionary: Bytes | None, t: pa.DataType, validity: np.ndarray | None, late: bool) -> pa.Array:
    if layout.dictionary is None or dictionary is None:
        return to_array(block, t, validity)
    if layout.num_dictionary_items >= 2**31:
        raise UnsupportedFeatureError(f"a dictionary of {layout.num_dictionary_items} items is not supported")
    items = layout.dictionary.decode_block(dictionary, layout.num_dictionary_items)
    return (look_up_later if late else to_dictionary_array)(block, items, t, validity)
