"""Rows of many files with the same columns: all of small files, or a few of each. Of each column, pages that are alike are decoded at once.

The values are those of `DataFileReader.read`, file by file, which also reads what cannot be decoded together, and names what is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import joined
from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.file.reader import DataFileReader, PageInMemory, fetch_all
from lance_spark.layouts.mini_block.few import FewOfPage, Located, decode_few, locate_few
from lance_spark.layouts.nodes.page_layouts import MiniBlock
from lance_spark.layouts.read_alike import Alike, decode_alike, likeness, path_of
from lance_spark.layouts.read_column import layouts_of
from lance_spark.reading.flat_buffers import bit_width
from lance_spark.reading.naming import checked
from lance_spark.reading.steps import Column, Page, Steps, side_by_side
from lance_spark.schema.schema import Field

_FEW_BYTES = 8 << 20
"""Bytes of rows that are decoded at once: a batch has about as many."""

_PAGE_BYTES = 8 << 20
"""Writers end a page after about so many bytes of decoded values; the stored ones tell nothing of values that compress well."""

T = TypeVar("T")


def read_together(files: Sequence[DataFileReader], fields: Sequence[Field], columns: Mapping[int, int]) -> list[pa.Array]:
    """An array for each of `fields`, with the rows of all files, one after the other. All have the same `columns`, by field id."""
    pages = [file.pages_in_memory(fields, columns) for file in files]
    return [joined(_pieces(files, field, columns, [own[i] for own in pages])) for i, field in enumerate(fields)]


def _pieces(
    files: Sequence[DataFileReader], field: Field, columns: Mapping[int, int], pages: Sequence[PageInMemory | None]
) -> list[pa.Array]:
    """The values of a field, in the order of the files."""
    path = path_of(field)
    groups: dict[Alike | None, list[int]] = {}
    for i, page in enumerate(pages):
        groups.setdefault(None if page is None else likeness(*page), []).append(i)
    pieces: list[pa.Array] = [None] * len(files)
    for alike, numbers in groups.items():
        known = [page for i in numbers if (page := pages[i]) is not None]
        together = None if alike is None or path is None else decode_alike(path, alike, known)
        done = 0
        for i in numbers:
            file = files[i]
            if together is None or path is None:
                pieces[i] = joined([array for (array,) in file.read([field], columns, range(file.num_rows), file.num_rows)])
            else:
                file.count_pages(path[-1].id)
                pieces[i] = together.slice(done, file.num_rows)
                done += file.num_rows
        if together is not None and len(numbers) == len(files):
            return [together]
    return pieces


def read_few(
    files: Sequence[DataFileReader], fields: Sequence[Field], columns: Mapping[int, int], rows: Sequence[np.ndarray]
) -> list[pa.Array] | None:
    """An array for each of `fields`, with `rows[i]` (at least one) of each of the files, one after the other; None if they may be large.

    All files have the same `columns`, by field id. Their bytes are read side by side. Blobs are not in the pages, and must not be wanted.
    """
    metadata = [file.metadata_of(fields, columns) for file in files]
    if _most_bytes(files, fields, metadata, rows) > _FEW_BYTES:
        return None
    return checked("", lambda: _read_few(files, fields, columns, metadata, rows))


def _most_bytes(
    files: Sequence[DataFileReader], fields: Sequence[Field], metadata: Sequence[Mapping[int, Column]], rows: Sequence[np.ndarray]
) -> float:
    """The bytes that these rows may have, if they are not larger than the others of their files."""
    widths = {field.id: (bit_width(field.type) or 0) / 8 for field in fields if field.is_leaf}
    total = 0.0
    for file, own, wanted in zip(files, metadata, rows):
        row_size = 0.0
        for i, column in own.items():
            row_size += widths.get(i) or max(column.size, _PAGE_BYTES * len(column.pages)) / file.num_rows
        total += row_size * len(wanted)
    return total


class _Piece(NamedTuple):
    """The wanted rows of a field in a page of a file, to be decoded with others; or in the whole file, which reads them itself."""

    field: int
    file: int
    page: FewOfPage | None
    rows: np.ndarray


def _read_few(
    files: Sequence[DataFileReader],
    fields: Sequence[Field],
    columns: Mapping[int, int],
    metadata: Sequence[Mapping[int, Column]],
    rows: Sequence[np.ndarray],
) -> list[pa.Array]:
    pieces = [piece for i, field in enumerate(fields) for piece in _pieces_of(i, field, files, metadata, rows)]
    _load_words(files, pieces)
    groups = _groups(pieces, fields)
    # Each file reads at once what all columns want of it.
    ranges: list[list[ByteRange]] = [[] for _ in files]
    steps: list[list[Steps[Any]]] = [[_bytes_of(own)] for own in ranges]
    for located, numbers in groups:
        for n, own in zip(numbers, located.ranges):
            ranges[pieces[n].file] += own
    alone: dict[int, int] = {}
    for n, (field, file, page, wanted) in enumerate(pieces):
        if page is None:
            alone[n] = len(steps[file])
            steps[file].append(files[file].steps(fields[field], columns, wanted))
    results = _run(files, [side_by_side(own) for own in steps])
    values: dict[int, pa.Array] = {n: results[pieces[n].file][k] for n, k in alone.items()}
    answers = [iter(result[0]) for result in results]
    for located, numbers in groups:
        first = fields[pieces[numbers[0]].field]
        read = [next(answers[pieces[n].file]) for n, own in zip(numbers, located.ranges) for _ in own]
        values.update(_cut(decode_few(located, read, (first,), first.type), pieces, numbers))
    arrays: list[list[pa.Array]] = [[] for _ in fields]
    for n in sorted(values):
        arrays[pieces[n].field].append(values[n])
    return [joined(parts) for parts in arrays]


def _cut(values: pa.Array, pieces: Sequence[_Piece], numbers: Sequence[int]) -> Iterator[tuple[int, pa.Array]]:
    """The values of consecutive pieces of a field, by the number of the first one, from those of the pieces with these numbers."""
    first, start, stop = numbers[0], 0, 0
    for n, after in zip(numbers, [*numbers[1:], None]):
        stop += len(pieces[n].rows)
        if after is None or after != n + 1 or pieces[after].field != pieces[n].field:
            yield first, values.slice(start, stop - start)
            first, start = after or 0, stop


def _pieces_of(
    number: int, field: Field, files: Sequence[DataFileReader], metadata: Sequence[Mapping[int, Column]], rows: Sequence[np.ndarray]
) -> list[_Piece]:
    """The pieces of a field, in order, whose pages are counted as read."""
    is_single = field.is_leaf and not field.children
    is_plain = is_single and not pa.types.is_nested(field.type) and not pa.types.is_dictionary(field.type)
    found: list[_Piece] = []
    for i, (file, own, wanted) in enumerate(zip(files, metadata, rows)):
        column = own.get(field.id) if is_plain else None
        pages = None if column is None else _pages_with(column, wanted, file.num_rows)
        if column is None or pages is None:
            found.append(_Piece(number, i, None, wanted))
        else:
            file.count_pages(field.id, len(pages), len(column.pages))
            found += [_Piece(number, i, *page) for page in pages]
    return found


def _pages_with(column: Column, rows: np.ndarray, num_rows: int) -> list[tuple[FewOfPage, np.ndarray]] | None:
    """The pages of a column that have some of these rows, and these of their rows; None if some cannot be decoded with others."""
    if not column.pages or column.ends[-1] != num_rows:
        return None
    found, layouts = [], layouts_of(column)
    bounds = [0, len(rows)] if len(layouts) == 1 else [0, *rows.searchsorted(column.ends).tolist()]
    for page, layout, start, stop in zip(column.pages, layouts, bounds, bounds[1:]):
        if start < stop:
            if not isinstance(layout, MiniBlock) or layout.of_few is None or layout.num_items != page.num_rows:
                return None
            own = rows[start:stop] - page.first_row if page.first_row else rows[start:stop]
            found.append((FewOfPage(layout, page, stop - start), own))
    return found


def _load_words(files: Sequence[DataFileReader], pieces: Sequence[_Piece]) -> None:
    """Read the chunk words of pages that are not in memory, where they stay."""
    pages: list[list[Page]] = [[] for _ in files]
    for _, file, few, _ in pieces:
        if few is not None and 0 not in few.page.kept:
            pages[file].append(few.page)
    if any(pages):
        read = _run(files, [_bytes_of([page.buffers[0] for page in own]) for own in pages])
        for own, answers in zip(pages, read):
            for page, answer in zip(own, answers):
                page.kept[0] = answer.copy()


def _groups(pieces: Sequence[_Piece], fields: Sequence[Field]) -> list[tuple[Located, list[int]]]:
    """Where the wanted values of pieces are that are decoded together, and the numbers of these pieces."""
    groups: dict[tuple[int, str], list[int]] = {}
    for n, (field, _, few, _) in enumerate(pieces):
        if few is not None:
            groups.setdefault((id(few.layout.of_few), fields[field].logical_type), []).append(n)
    found = []
    for numbers in groups.values():
        pages = [few for n in numbers if (few := pieces[n].page) is not None]
        found.append((locate_few(pages, np.concatenate([pieces[n].rows for n in numbers])), numbers))
    return found


def _bytes_of(ranges: Sequence[ByteRange]) -> Steps[Sequence[Bytes]]:
    """Only read."""
    return (yield ranges) if ranges else []


def _run(files: Sequence[DataFileReader], work: Sequence[Steps[T]]) -> list[T]:
    """Run the steps of each file; each round reads what all of them want."""
    results: dict[int, T] = {}
    answers: dict[int, Sequence[Bytes] | None] = dict.fromkeys(range(len(files)))
    while answers:
        wanted = {}
        for i, answer in answers.items():
            try:
                wanted[i] = work[i].send(answer)  # type: ignore[arg-type]
            except StopIteration as stop:
                results[i] = stop.value
        answers = dict(zip(wanted, fetch_all([(files[i], ranges) for i, ranges in wanted.items()])))
    return [results[i] for i in range(len(files))]
