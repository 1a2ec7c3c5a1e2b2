"""A few values of each of many mini-block pages of one column, which are decoded together.

The values are those of `read`, page by page, which also reads what cannot be decoded together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import take
from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.buffers.limits import check_bytes
from lance_spark.encodings.fsst import Fsst, decompress_parts
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.levels.assemble import Path, nest
from lance_spark.layouts.mini_block.locate import locate_in_pages
from lance_spark.layouts.mini_block.read import FEW, GAP, Fetched, decode, leaf_of, words_of
from lance_spark.layouts.nodes.page_layouts import MiniBlock
from lance_spark.reading import spans
from lance_spark.reading.flat_buffers import bit_width
from lance_spark.reading.steps import Page


class FewOfPage(NamedTuple):
    """A page with `wanted` rows. Its chunk words are in memory, and its layout has `of_few`."""

    layout: MiniBlock
    page: Page
    wanted: int


@dataclass(frozen=True)
class Located:
    """The chunks that have wanted values, one after the other: the start of each if all of `ranges` are read together, its size and count.

    `at` (int64 [2, n]) has the chunk of each wanted value, and its position in that chunk. `ranges` are those of each page, which has so
    many `values` in its chunks.
    """

    pages: Sequence[FewOfPage]
    chunks: np.ndarray
    at: np.ndarray
    ranges: Sequence[Sequence[ByteRange]]
    values: Sequence[int]


def locate_few(pages: Sequence[FewOfPage], rows: np.ndarray) -> Located:
    """The chunks of pages, which have `of_few` in common, with the wanted `rows` of each, ascending, one page after the other."""
    own = [words_of(layout, page.kept[0]) for layout, page, _ in pages]
    words, wanted = np.concatenate(own, dtype=np.uint32), np.array([page.wanted for page in pages], np.int64)
    items = np.array([layout.num_items for layout, _, _ in pages], np.int64)
    buffers = [page.buffers[1] for _, page, _ in pages]
    sizes = np.array([buffer.stop - buffer.start for buffer in buffers], np.int64)
    bounds, single = np.cumsum([len(part) for part in own]), spans.of(rows, rows + 1)
    # The kernel fills these: see `locate_in_pages`.
    chunks = np.empty((3, len(rows)), np.int64)
    runs = np.empty((len(rows), 2), np.int64)
    at = np.empty((2, len(rows)), np.int64)
    of_pages = np.empty((3, len(pages)), np.int64)
    found = locate_in_pages(words, bounds, items, single, wanted.cumsum(), sizes, GAP, chunks, runs, at, of_pages)
    if found < 0:
        raise CorruptFileError("a page has fewer rows in its chunks than are wanted, or more items or bytes than it declares")
    ranges, done, ends = [], 0, runs.tolist()
    for (_, page, _), count in zip(pages, of_pages[1].tolist()):
        base, own_ends = page.buffers[1].start, ends[done : done + count]
        ranges.append([ByteRange(base + start, base + stop) for start, stop in own_ends])
        done += count
    return Located(pages, chunks[:, :found], at, ranges, of_pages[2].tolist())


def decode_few(few: Located, answers: Sequence[Bytes], path: Path, t: pa.DataType) -> pa.Array:
    """The wanted values of the pages, one page after the other; `answers` are the bytes of all ranges."""
    layout, (starts, sizes, counts), count = few.pages[0].layout, few.chunks, sum(few.values)
    check_bytes(float(count) * (bit_width(t) or 32) / 8, "values")
    is_rare = FEW * len(few.at[0]) <= count
    data = answers[0] if len(answers) == 1 else np.concatenate(answers)
    fetched = Fetched(data, starts, sizes, counts, count, spans.all_rows(count), few=few.at if is_rare else None)
    compressed = [page.layout.value for page in few.pages if isinstance(page.layout.value, Fsst)]
    block, slots, picked = decode(replace(layout, value=compressed[0].values) if compressed else layout, fetched, None)
    if compressed:
        block = decompress_parts(block, compressed, [page.wanted for page in few.pages] if picked else few.values)
    array = nest(path, slots, leaf_of(layout, block, None, t, slots[0].validity, late=False))
    if picked:
        return array
    of, at = few.at
    return take(array, pa.array((counts.cumsum() - counts)[of] + at))
