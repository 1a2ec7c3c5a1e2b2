"""Partitioned namespaces made by hand: the tables by whoever wrote them, and the rows of `__manifest` that name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lance_spark import Dataset
from lance_spark.namespace.manifest_table import change
from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
from lance_spark.storage.store import Store

Partition = tuple[Mapping[str, object], pa.Table]
"""The partition values by field id, and the rows."""


def with_partitions(namespace: PartitionedNamespace, partitions: Sequence[Partition], pinned: bool = True) -> PartitionedNamespace:
    """The namespace with a new table for each partition, in its newest spec."""
    rows = []
    spec, start = namespace.spec, namespace.partitions().num_rows
    for i, (values, data) in enumerate(partitions, start):
        names = [f"p{i:05}l{level}" for level in range(len(spec.fields))]
        object_id = "$".join([spec.namespace, *names, "dataset"])
        Dataset.write(f"{namespace.uri}/{i:08x}_{object_id}", data)
        columns = {f.column: values[f.field_id] for f in spec.fields}
        pin = {"read_version": 1} if pinned else {}
        rows.append({"object_id": object_id, "object_type": "table", "location": f"{i:08x}_{object_id}", **pin, **columns})
    change(Store(namespace.uri), lambda table: table.with_rows(rows))
    return PartitionedNamespace.open(namespace.uri)


def plain(namespace: PartitionedNamespace, filter: str | None = None) -> list[tuple[object, ...]]:
    """The rows, sorted."""
    return sorted((tuple(row.values()) for row in namespace.scan(filter=filter).to_table().to_pylist()), key=repr)
