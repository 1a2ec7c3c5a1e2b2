"""Where a few rows are in the chunks of a mini-block page without lists.

Compiled, since numpy would take longer to find a row than the store to read its chunk.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.kernel import kernel


@kernel
def locate(
    words: np.ndarray, items: int, rows: np.ndarray, gap: int, chunks: np.ndarray, runs: np.ndarray, spans: np.ndarray, at: np.ndarray
) -> tuple[np.int64, np.int64, np.int64, np.int64, np.int64, np.int64]:
    """Find the chunks with values of the spans `rows` from the chunk words of a page of `items` values; see `read` for the words.

    Fills `chunks` (int64 [3, n]) with the place of each chunk in what is read, its size and its number of values; `runs` (int64 [n, 2])
    with the ranges to be read: chunks at most `gap` bytes apart are read together; `spans` (int64 [n, 2]) with the rows of the chunks; and
    `at` (int64 [2, rows]) with the chunk of each row and its position in that chunk. Returns how many chunks, ranges and spans there are,
    the values of these chunks, and the bytes and the values of the page, negative if there are more than `items`.
    """
    found = read = adjacent = span = start = first = place = values = done = np.int64(0)
    for c in range(len(words)):
        size = (np.int64(words[c] >> 4) + 1) * 8
        stop = first + (np.int64(1) << np.int64(words[c] & 15)) if c + 1 < len(words) else np.int64(items)
        if stop < first:
            return found, read, adjacent, values, start + size, np.int64(-1)
        while span < len(rows) and rows[span, 1] <= first:
            span += 1
        if span < len(rows) and rows[span, 0] < stop:
            if read and start - runs[read - 1, 1] <= gap:
                place += start - runs[read - 1, 1]
            else:
                runs[read, 0] = start
                read += 1
            runs[read - 1, 1] = start + size
            if not adjacent or spans[adjacent - 1, 1] != first:
                spans[adjacent, 0] = first
                adjacent += 1
            spans[adjacent - 1, 1] = stop
            chunks[0, found], chunks[1, found], chunks[2, found] = place, size, stop - first
            some = span
            while some < len(rows) and rows[some, 0] < stop:
                for row in range(max(rows[some, 0], first), min(rows[some, 1], stop)):
                    at[0, done], at[1, done] = found, row - first
                    done += 1
                some += 1
            place += size
            values += stop - first
            found += 1
        start += size
        first = stop
    return found, read, adjacent, values, start, first


@kernel
def locate_in_pages(
    words: np.ndarray,
    bounds: np.ndarray,
    items: np.ndarray,
    rows: np.ndarray,
    row_bounds: np.ndarray,
    sizes: np.ndarray,
    gap: int,
    chunks: np.ndarray,
    runs: np.ndarray,
    at: np.ndarray,
    of_pages: np.ndarray,
) -> np.int64:
    """`locate` in pages: `bounds` and `row_bounds` are the ends of the chunk words and of the spans `rows` of each, `sizes` its bytes.

    Chunks are numbered, and read, one page after the other. Fills `of_pages` (int64 [3, pages]) with the number of chunks and of ranges
    of each page, and of the values of these chunks. Returns how many chunks there are; -1 if a page has more items or bytes than it
    declares, or fewer than are wanted.
    """
    found = read = place = word = row = np.int64(0)
    scratch = np.empty((len(rows), 2), np.int64)
    for page in range(len(bounds)):
        own = rows[row : row_bounds[page]]
        count, ranges, _, values, size, last = locate(
            words[word : bounds[page]], items[page], own, gap, chunks[:, found:], runs[read:], scratch, at[:, row:]
        )
        if last != items[page] or size > sizes[page] or (len(own) and own[-1, 1] > last):
            return np.int64(-1)
        for c in range(found, found + count):
            chunks[0, c] += place
        for i in range(row, row_bounds[page]):
            at[0, i] += found
        for r in range(read, read + ranges):
            place += runs[r, 1] - runs[r, 0]
        of_pages[0, page], of_pages[1, page], of_pages[2, page] = count, ranges, values
        found += count
        read += ranges
        word, row = bounds[page], row_bounds[page]
    return found


@kernel
def split(
    data: np.ndarray,
    starts: np.ndarray,
    sizes: np.ndarray,
    levels: int,
    large: bool,
    counts: np.ndarray,
    places: np.ndarray,
    lengths: np.ndarray,
) -> bool:
    """Fill `counts` with the number of levels of each chunk.

    `places` and `lengths` (int64 [buffers, n]) get the start and size of its buffers.

    The chunks lie at `starts` of `data`; `levels` of the numbers of 16 bits at their beginning are those of levels. False if a chunk is
    too short for its buffers.
    """
    for c in range(len(starts)):
        base = starts[c]
        place = np.int64(2 * levels + (4 if large else 2) * (len(places) + 1 - levels))
        if base < 0 or place > sizes[c] or base + sizes[c] > len(data):
            return False
        counts[c] = np.int64(data[base]) | np.int64(data[base + 1]) << 8
        head = base + 2
        for i in range(len(places)):
            size = np.int64(data[head]) | np.int64(data[head + 1]) << 8
            head += 2
            if large and i >= levels - 1:
                size |= np.int64(data[head]) << 16 | np.int64(data[head + 1]) << 24
                head += 2
            places[i, c], lengths[i, c] = base + ((place + 7) & -8), size
            place = places[i, c] + size - base
        if place > sizes[c]:
            return False
    return True
