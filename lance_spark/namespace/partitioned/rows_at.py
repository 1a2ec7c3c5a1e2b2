"""Rows of a table of a partitioned namespace at given addresses, with the namespace's columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.namespace.partitioned.addresses import Addresses
from lance_spark.namespace.partitioned.leaves import Leaf, LeafView, leaves_of, open_leaf, view_of
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.namespace.partitioned.write import as_field
from lance_spark.table.scan.rows_at import rows_at
from lance_spark.table.versions.snapshot import Snapshot


class LeafRows:
    """The tables of one version by number; each is opened when rows of it are asked for."""

    def __init__(self, version: PartitionedVersion) -> None:
        self.version = version
        self.shape = version.shape.manifest.schema
        self.addresses = Addresses.of(version)
        self._opened: dict[int, tuple[Leaf, Snapshot]] = {}
        self._views: dict[int, LeafView] = {}

    def table(self, number: int) -> tuple[Leaf, Snapshot]:
        """A table and its version.

        Raises ValueError for a number that no address of the version has.
        """
        if number not in self._opened:
            (leaf,) = leaves_of(self.version, self.version.leaves.slice(number, 1))
            snapshot = open_leaf(self.version, leaf)
            if snapshot is None:
                raise ValueError(f"{self.version}: the table {leaf.location} has no rows, but an address refers to one")
            self._opened[number] = leaf, snapshot
        return self._opened[number]

    def values(self, number: int, addresses: np.ndarray, names: Sequence[str]) -> pa.RecordBatch:
        """Columns of rows of one table, in the order of their addresses within it, which may
        repeat."""
        if number not in self._views:
            self._views[number] = view_of(self.version, self.shape, *self.table(number))
        view = self._views[number]
        fields = {f.name: f for f in self.shape.fields}
        stored = [name for name in names if name not in view.constants]
        found = rows_at(view.snapshot, addresses, stored)
        columns = []
        for name in names:
            t = fields[name].to_arrow().type
            if name in view.constants:
                columns.append(pa.repeat(view.constants[name].cast(t), len(addresses)))
            elif name in view.casts:
                columns.append(as_field(found.column(name), fields[name]))
            else:
                columns.append(found.column(name))
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def at(self, addresses: np.ndarray, names: Sequence[str]) -> pa.RecordBatch:
        """Columns of rows of any tables, in the order of their addresses in the namespace, which
        may repeat."""
        if not names:
            return pa.RecordBatch.from_arrays([], schema=pa.schema([]))
        found = [(positions, self.values(number, own, names)) for number, positions, own in self.addresses.by_table(addresses)]
        if not found:
            fields = {f.name: f.to_arrow() for f in self.shape.fields}
            return pa.RecordBatch.from_pylist([], schema=pa.schema([fields[name] for name in names]))
        order = pa.array(np.argsort(np.concatenate([positions for positions, _ in found])))
        rows = pa.Table.from_batches([rows for _, rows in found]).combine_chunks().take(order)
        return rows.combine_chunks().to_batches()[0]
