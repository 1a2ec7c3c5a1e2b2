"""Index files in which a column is not what it should be."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from lance_spark import Dataset
from lance_spark.index.files import IndexFiles
from lance_spark.index.target import IndexTarget
from lance_spark.operations import CreateIndex

Change = Callable[[pa.Array], pa.Array]


def with_bad_column(table: Dataset, name: str, change: Change) -> Dataset:
    """The table with its only index segment written again, with the column `name` changed."""
    (segment,) = table.snapshot.manifest.indexes
    store, folder = table.snapshot.locations.index_folder(segment)
    files = IndexFiles(store, folder, table.snapshot.manifest.schema.fields[0], {})
    new = uuid.uuid4().bytes
    target = IndexTarget(store, f"_indices/{uuid.UUID(bytes=new)}")
    for listed in segment.files:
        file = files.open(listed.path)
        columns = {f: file.read([f]).column(0) for f in file.schema.names}
        if name in columns:
            columns[name] = change(columns[name])
        with target.create(listed.path, pa.schema([(f, column.type) for f, column in columns.items()])) as out:
            out.put(*columns.values())
            for key, value in file.metadata.items():
                if key in ("null_bitmap", "lance:label_list_nulls"):
                    out.attach(key, file.buffer(key))
                else:
                    out.metadata[key] = value
    bad = replace(segment, uuid=new, files=tuple(target.files))
    return Dataset.commit(table.uri, CreateIndex((bad,), (segment,)), table.version)
