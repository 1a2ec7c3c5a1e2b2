"""The metadata of one column of a data file, and the interface of its decoders, which request bytes but do no I/O.

A decoder is a generator: it yields the byte ranges that it needs next, is sent their bytes, and returns its result. So the decoders of
many columns can run concurrently, with their ranges fetched together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.buffers.byte_ranges import ByteRange, Bytes

Rows = range | np.ndarray
"""Row numbers of a file, ascending without duplicates: a range of step 1, or an int64 array."""

T = TypeVar("T")

Steps = Generator[Sequence[ByteRange], Sequence[Bytes], T]
"""A generator that yields ranges of its file, is sent the bytes of each in the same order, and returns a T."""


@dataclass(frozen=True)
class Page:
    """Consecutive rows of one column.

    `buffers` are ranges of the file; `encoding_type` is the type URL of the encoding message without its slash, such as
    "lance.encodings21.PageLayout", and `encoding` the message's bytes. `num_rows` is as stored (items for a
    fixed-size list of structs), `first_row` the number of rows before it in the file. `kept` are buffers, by number,
    that stay in memory after rows of the page were read. `bounds`: see `layouts.page_bounds`.
    """

    first_row: int
    num_rows: int
    buffers: tuple[ByteRange, ...]
    encoding_type: str
    encoding: bytes
    bounds: bytes = b""
    kept: dict[int, Bytes] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Column:
    """The pages of one column in row order, and the column's own buffers and encoding.

    `parsed` stays in memory for the next reader: the layouts of the pages.
    """

    pages: tuple[Page, ...]
    buffers: tuple[ByteRange, ...]
    encoding_type: str
    encoding: bytes
    parsed: list[Any] = field(default_factory=list, compare=False, repr=False)

    @cached_property
    def bounds(self) -> np.ndarray:
        """The first row of each page and the end (float64, since sizes are not checked), if each item is a row."""
        return np.array([0, *(page.num_rows for page in self.pages)], np.float64).cumsum()

    @cached_property
    def ends(self) -> Sequence[int]:
        """The number of rows before the end of each page, if each item is a row."""
        return list(itertools.accumulate(page.num_rows for page in self.pages))

    @cached_property
    def size(self) -> int:
        """The bytes of the buffers of all pages."""
        return sum(b.stop - b.start for page in self.pages for b in page.buffers)


@dataclass
class Counts:
    """The cost of reading so far: bytes fetched, pages with selected rows, and all pages."""

    bytes_read: int = 0
    bytes: int = 0
    pages_read: int = 0
    pages: int = 0

    def add(self, other: Counts) -> None:
        """Add the counts of `other`."""
        self.bytes_read += other.bytes_read
        self.bytes += other.bytes
        self.pages_read += other.pages_read
        self.pages += other.pages


class FieldReader(Protocol):
    """Reads one top-level field of a file, for the rows selected when it was opened."""

    def read(self, start: int, stop: int) -> Steps[pa.Array]:
        """The values of selected rows `start` to `stop` (exclusive), as the field's Arrow storage type.

        Calls come in order and without gaps, so a reader keeps the current page decoded and releases earlier ones.
        """


def run(steps: Steps[T], fetch: Callable[[Sequence[ByteRange]], Sequence[Bytes]]) -> T:
    """Run `steps`, with bytes from `fetch`."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(fetch(wanted))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def side_by_side(work: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Run all of `work` concurrently: each round requests the ranges of all unfinished steps together."""
    if len(work) == 1:
        return [(yield from work[0])]
    results: list[T | None] = [None] * len(work)
    wanted: dict[int, Sequence[ByteRange]] = {}

    def advance(i: int, answer: Sequence[Bytes] | None) -> None:
        try:
            wanted[i] = work[i].send(answer)  # type: ignore[arg-type]
        except StopIteration as stop:
            results[i] = stop.value

    for i in range(len(work)):
        advance(i, None)
    while wanted:
        asked, wanted = wanted, {}
        answers = yield [r for ranges in asked.values() for r in ranges]
        at = 0
        for i, ranges in asked.items():
            advance(i, answers[at : at + len(ranges)])
            at += len(ranges)
    return results  # type: ignore[return-value]
