"""All rows of many small files with the same columns: of each column, the pages that are encoded alike are decoded at once.

The values are those of `DataFileReader.read`, file by file, which also reads what cannot be decoded together, and names what is damaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lance_spark.arrow.selection import joined
from lance_spark.file.reader import DataFileReader, PageInMemory
from lance_spark.layouts.read_alike import Alike, decode_alike, likeness, path_of
from lance_spark.schema.schema import Field


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
                file.count_page(path[-1].id)
                pieces[i] = together.slice(done, file.num_rows)
                done += file.num_rows
        if together is not None and len(numbers) == len(files):
            return [together]
    return pieces
