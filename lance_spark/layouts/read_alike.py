"""Small pages that are encoded alike, such as those of thousands of columns or small files, are decoded together.

The result is that of `read_column`, which also reads such columns if decoding fails, so that the error names the column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import take
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.constant import read as constant
from lance_spark.layouts.levels.assemble import Path, is_list
from lance_spark.layouts.mini_block import read as mini_block
from lance_spark.layouts.nodes.page_layouts import Constant, Dense, MiniBlock, parse_layout
from lance_spark.reading import spans
from lance_spark.reading.naming import checked
from lance_spark.reading.steps import Column, FieldReader, Page, Rows, Steps, run
from lance_spark.schema.schema import Field

_ENOUGH = 4
"""Columns from which on it is faster to read them together."""

_TOGETHER = 256
"""Columns that are decoded at once."""

_CHUNK_BYTES = 32 << 10
"""Bytes of the largest chunk that is decoded with others."""

_MOST_VALUES = 4096

_SMALL = 4 << 10
"""Bytes of an encoding message or of a constant value. Many of them stay in memory."""

Open = Callable[[Field], FieldReader]


def open_alike(fields: Sequence[Field], columns: Mapping[int, Column], rows: Rows, num_rows: int, alone: Open) -> dict[int, FieldReader]:
    """Readers of those of `fields`, by position, that have others like them. `alone` opens the reader of a single field."""
    if num_rows > _MOST_VALUES:
        return {}
    groups: dict[tuple[str, str, bytes], list[int]] = {}
    for i, field in enumerate(fields):
        column = columns.get(field.id)
        if column is None or len(column.pages) != 1 or field.children or field.is_blob:
            continue
        page = column.pages[0]
        if len(page.buffers) == 2 and page.num_rows == num_rows:
            words, chunks = page.buffers
            if words.stop - words.start <= 4 and chunks.stop - chunks.start <= _CHUNK_BYTES:
                groups.setdefault((field.logical_type, page.encoding_type, page.encoding), []).append(i)
    readers: dict[int, FieldReader] = {}
    for numbers in groups.values():
        page = columns[fields[numbers[0]].id].pages[0]
        if len(numbers) < _ENOUGH or (layout := _layout(page, fields[numbers[0]])) is None:
            continue
        for some in (numbers[start : start + _TOGETHER] for start in range(0, len(numbers), _TOGETHER)):
            pages = [columns[fields[i].id].pages[0] for i in some]
            group = _Group(layout, fields[some[0]], pages, rows, num_rows)
            readers.update({i: _AlikeReader(group, k, partial(alone, fields[i])) for k, i in enumerate(some)})
    return readers


def _layout(page: Page, field: Field) -> MiniBlock | None:
    """The layout of a page of plain values, which may be null; None if the page is another one."""
    try:
        layout = checked("", lambda: parse_layout(page.encoding_type, page.encoding))
    except (CorruptFileError, UnsupportedFeatureError):
        return None
    if not isinstance(layout, MiniBlock) or _num_lists(layout) != 0 or layout.num_items != page.num_rows or len(page.buffers) != 2:
        return None
    return None if pa.types.is_nested(field.type) or pa.types.is_dictionary(field.type) else layout


def _num_lists(layout: MiniBlock) -> int | None:
    """The number of lists around the values in chunks; None if not all of the structure and the values are in the chunks."""
    return layout.structure.num_lists if isinstance(layout.structure, Dense) and layout.dictionary is None else None


@dataclass(frozen=True, eq=False)
class Alike:
    """What pages have in common that `decode_alike` takes together: the layout, without its number of items, and the value of all rows.

    Equal ones are the same object, as long as it is kept.
    """

    layout: MiniBlock | Constant
    value: bytes


@lru_cache(maxsize=1024)
def _alike(layout: MiniBlock | Constant, value: bytes = b"") -> Alike:
    return Alike(layout, value)


@lru_cache(maxsize=1024)
def _common(encoding_type: str, encoding: bytes) -> tuple[Alike | None, int | None]:
    """What pages with this layout have in common, None if each must be read alone, and the number of their items."""
    layout = parse_layout(encoding_type, encoding)
    if isinstance(layout, Constant):
        return _alike(layout) if isinstance(layout.structure, Dense) else None, None
    if not isinstance(layout, MiniBlock) or _num_lists(layout) is None:
        return None, None
    return _alike(replace(layout, num_items=None)), layout.num_items


def path_of(field: Field) -> Path | None:
    """The path of the only leaf of a column of values or of lists of them; None for other columns."""
    if field.is_leaf:
        return None if field.children or field.is_blob else (field,)
    below = path_of(field.children[0]) if is_list(field) and len(field.children) == 1 else None
    return below and (field, *below)


def likeness(page: Page, buffers: Sequence[Bytes]) -> Alike | None:
    """What a page with these buffers has in common with others; None if it must be read alone."""
    if len(page.encoding) > _SMALL:
        return None
    try:
        common, items = checked("", lambda: _common(page.encoding_type, page.encoding))
    except (CorruptFileError, UnsupportedFeatureError):
        return None
    if common is None:
        return None
    if isinstance(common.layout, MiniBlock):
        # Lists have a repetition index, which a whole page does not need.
        has_lists = bool(_num_lists(common.layout))
        return common if len(buffers) == 2 + has_lists and (has_lists or items == page.num_rows) else None
    if not buffers:
        return common
    return _alike(common.layout, buffers[0].tobytes()) if len(buffers) == 1 and len(buffers[0]) <= _SMALL else None


def decode_alike(path: Path, alike: Alike, pages: Sequence[tuple[Page, Sequence[Bytes]]]) -> pa.Array | None:
    """The values of pages of the column `path`, one after the other, that have `alike` in common; None if they must be read alone."""
    (first, buffers), rows = pages[0], sum(page.num_rows for page, _ in pages)
    layout, t = alike.layout, path[-1].type
    if isinstance(layout, MiniBlock) and (pa.types.is_nested(t) or pa.types.is_dictionary(t)):
        return None
    try:
        if isinstance(layout, MiniBlock):
            items = [_common(page.encoding_type, page.encoding)[1] or 0 for page, _ in pages]
            words, chunks = zip(*(own[:2] for _, own in pages))
            array = checked("", lambda: mini_block.decode_pages(layout, items, words, chunks, path, t))
        else:
            steps = constant.read(layout, replace(first, num_rows=rows), path, t, spans.all_rows(rows))
            array = checked("", lambda: run(steps, lambda _: buffers)[0])
    except (CorruptFileError, UnsupportedFeatureError):
        return None
    return array if len(array) == rows else None


class _Group:
    """Pages with one layout, and the selected rows of their columns, decoded when the first column is read."""

    def __init__(self, layout: MiniBlock, field: Field, pages: Sequence[Page], rows: Rows, num_rows: int) -> None:
        self._layout, self._field, self._pages, self._rows, self._num_rows = layout, field, pages, rows, num_rows
        self.arrays: list[pa.Array] | None = None

    def load(self) -> Steps[None]:
        """Read and decode all columns. If that fails, there are no arrays."""
        answers = yield [buffer for page in self._pages for buffer in page.buffers]
        try:
            self.arrays = checked("", lambda: self._decoded(answers[::2], answers[1::2]))
        except (CorruptFileError, UnsupportedFeatureError):
            self.arrays = None

    def _decoded(self, words: Sequence[np.ndarray], chunks: Sequence[np.ndarray]) -> list[pa.Array]:
        count = self._num_rows
        array = mini_block.decode_pages(self._layout, [count] * len(words), words, chunks, (self._field,), self._field.type)
        if len(self._rows) < count:
            places = np.arange(len(self._pages))[:, None] * count + np.asarray(self._rows)
            array, count = take(array, pa.array(places.ravel())), len(self._rows)
        return [array.slice(i * count, count) for i in range(len(self._pages))]


class _AlikeReader:
    """Reads the column `number` of a group. All columns of a group are read side by side."""

    def __init__(self, group: _Group, number: int, alone: Callable[[], FieldReader]) -> None:
        self._group, self._number, self._open_alone = group, number, alone
        self._alone: FieldReader | None = None

    def read(self, start: int, stop: int) -> Steps[pa.Array]:
        """The values of selected rows `start` to `stop`."""
        if not start:
            # The first column reads for all. Its bytes are there before the others go on, in the same order as they began.
            yield from self._group.load() if not self._number else _wait()
            if self._group.arrays is None:
                self._alone = self._open_alone()
        if self._alone is not None or self._group.arrays is None:
            assert self._alone is not None
            return (yield from self._alone.read(start, stop))
        return self._group.arrays[self._number].slice(start, stop - start)


def _wait() -> Steps[None]:
    yield []
