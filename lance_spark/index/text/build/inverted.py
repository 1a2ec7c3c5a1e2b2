"""INVERTED: making the segments of a full-text index from texts, and from other segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.index.files import IndexFiles
from lance_spark.index.moves import Translation
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.index.text.analysis.parameters import TextParameters, details_of
from lance_spark.index.text.build.inversion import MOST_OCCURRENCES, inverted
from lance_spark.index.text.build.joined import Source, joined
from lance_spark.index.text.build.partition_writer import SegmentWriter
from lance_spark.index.text.build.split import Splitter
from lance_spark.index.text.conditions import search as search
from lance_spark.index.text.text_index import open_text_index

_BATCH_ROWS = 16 << 10
"""Rows that are taken at once, so that a partition is not much larger than wanted."""


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write the index of the rows, whose values are texts, lists of texts, or JSON. Each partition has as many rows as fit in memory."""
    how = _text_parameters(parameters)
    writer = SegmentWriter(target, how)
    batches = _small(rows)
    while (part := inverted(batches, Splitter(how), how.with_position)) is not None:
        writer.add(part.documents, [part.lists])
        del part
    return _finished(writer, target, how)


def _small(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield batch.slice(start, _BATCH_ROWS)


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one segment with the rows of all sources that still exist. Partitions are joined as far as they stay small."""
    opened = [(open_text_index(files), translation) for files, translation in sources]
    how = opened[0][0].parameters
    if any(index.parameters != how for index, _ in opened):
        raise CorruptFileError(f"{sources[0][0].folder}: the segments of the index have different parameters")
    writer = SegmentWriter(target, how)
    group: list[Source] = []
    size = 0
    for index, translation in opened:
        for part in index.parts:
            source = Source(part, translation, how)
            if group and size + source.total_tokens > MOST_OCCURRENCES:
                writer.add(*joined(group, how))
                group, size = [], 0
            group.append(source)
            size += source.total_tokens
    if group:
        writer.add(*joined(group, how))
    return _finished(writer, target, how)


def parameters(files: IndexFiles) -> dict[str, object]:
    """The parameters that a segment was built with. Raises CorruptFileError, UnsupportedFeatureError or StorageError."""
    return {"parameters": open_text_index(files).parameters}


def _text_parameters(given: Mapping[str, object]) -> TextParameters:
    found = given["parameters"]
    assert isinstance(found, TextParameters), "parameters of a full-text index are checked where it is defined"
    return found


def _finished(writer: SegmentWriter, target: IndexTarget, how: TextParameters) -> Trained:
    writer.finish()
    return target.trained(details_of(how), how.format_version)
