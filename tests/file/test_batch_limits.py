"""Batches are limited by decoded bytes: columns that compress well are not decoded at once because their file is small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.file.batch_limits import BatchLimits
from lance_spark.reading import spans
from lance_spark.reading.steps import Column, Page

SCHEMA = pa.schema([pa.field("s", pa.string(), metadata={"lance-encoding:compression": "zstd"}), ("i", pa.int64())])
MIB = 1 << 20


def texts(count: int) -> Iterator[pa.RecordBatch]:
    """Texts of 1 MiB that take about 100 bytes in a file."""
    for start in range(0, count, 50):
        numbers = range(start, min(start + 50, count))
        yield pa.record_batch([pa.array([f"{i:08}" * (MIB // 8) for i in numbers]), pa.array(numbers)], schema=SCHEMA)


def written(folder: Path, library: str, count: int) -> Dataset:
    reader = pa.RecordBatchReader.from_batches(SCHEMA, texts(count))
    if library == "pylance":
        lance.write_dataset(reader, str(folder))
        return Dataset.open(folder)
    return Dataset.write(folder, reader)


@pytest.mark.parametrize("library", ["pylance", "ours"])
def test_few_pages_are_decoded_at_once(tmp_path: Path, library: str) -> None:
    dataset = written(tmp_path / "t", library, 400)
    assert dataset.scan(["i"]).to_table()["i"].to_pylist() == list(range(400))
    seen = 0
    for batch in dataset.scan(["s", "i"]).to_batches():
        # The buffers of a batch are those of all rows that were decoded with it.
        assert batch.get_total_buffer_size() < 110 * MIB
        assert [text.as_py()[:8] for text in batch["s"]] == [f"{i:08}" for i in range(seen, seen + batch.num_rows)]
        seen += batch.num_rows
    assert seen == 400
    assert [text[-8:] for text in dataset.take([399, 3], ["s"])["s"].to_pylist()] == ["00000399", "00000003"]


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pylance", "ours"])
def test_more_than_2_gib_of_texts_in_a_small_file_are_read(tmp_path: Path, library: str) -> None:
    dataset = written(tmp_path / "t", library, 2300)
    assert sum(batch["s"].nbytes // MIB for batch in dataset.scan(["s"]).to_batches()) == 2300


def column(*lengths: int) -> Column:
    return Column(tuple(Page(0, n, (), "", b"") for n in lengths), (), "", b"")


def test_a_batch_has_few_pages() -> None:
    limits = BatchLimits([column(*[10] * 8), column(80)], spans.from_rows(range(80)), 80)
    assert limits.stop(0, 80) == 10, "the first batch measures the rows"
    assert limits.stop(10, 80) == 50
    assert limits.stop(5, 80) == 45
    assert limits.stop(0, 7) == 7
    assert limits.stop(60, 80) == 80


def test_a_page_with_few_selected_rows_counts_as_a_part() -> None:
    some = spans.from_rows(np.arange(0, 1000, 5))
    limits = BatchLimits([column(*[10] * 100)], some, 1000)
    assert limits.stop(0, 200) == 10, "two of the ten rows of each page are selected, so five pages are one"
    assert limits.stop(20, 200) == 60
    assert BatchLimits([column(*[10] * 100)], spans.from_rows(np.array([3, 500, 999])), 1000).stop(0, 3) == 3


def test_a_batch_has_a_row_at_least() -> None:
    assert BatchLimits([column(1, 1, 1, 1, 1)], spans.from_rows(range(5)), 5).stop(4, 5) == 5
    assert BatchLimits([column(1, 1, 1, 1, 1)], spans.from_rows(range(5)), 5).stop(0, 5) == 1
