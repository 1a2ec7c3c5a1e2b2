"""Addresses of the rows of a version of a partitioned namespace: those of its tables, with the
number of the table in the upper bits.

The number of a table is its place in `PartitionedVersion.leaves`, so that an address means the same
to all who have opened the version. Addresses keep the form of a table's, a fragment in the upper
half and an offset in the lower one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.table.versions.snapshot import Snapshot

_OFFSET_BITS = 32
_BITS = 63
"""Spark has no unsigned numbers."""


@dataclass(frozen=True)
class Addresses:
    """How the addresses of a version with `tables` tables are divided."""

    tables: int

    @classmethod
    def of(cls, version: PartitionedVersion) -> Addresses:
        """The addresses of a version."""
        return cls(version.leaves.num_rows)

    @property
    def _table_bits(self) -> int:
        return max(self.tables - 1, 0).bit_length()

    @property
    def shift(self) -> int:
        """The lowest bit of the number of the table."""
        return _BITS - self._table_bits

    def first(self, number: int, table: Snapshot) -> int:
        """The address of the row 0 of the fragment 0 of a table.

        Raises UnsupportedFeatureError if the ids of its fragments need bits of the number of the
        table, or are not unique.
        """
        if len(table.manifest.lazy_fragments.shared_ids):
            raise UnsupportedFeatureError(f"{table}: fragments share ids, so that rows have no addresses; compact the table on its own")
        highest = int(table.manifest.lazy_fragments.ids.max(initial=0))
        if highest >> (self.shift - _OFFSET_BITS):
            raise UnsupportedFeatureError(
                f"{table}: the rows of fragment {highest} have no addresses in a namespace of {self.tables} tables; "
                "change the rows of this table on its own"
            )
        return number << self.shift

    def by_table(self, addresses: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """For each table: its number, the positions of its addresses, ascending, and these
        addresses within the table."""
        numbers = addresses >> np.uint64(self.shift)
        within = addresses & np.uint64((1 << self.shift) - 1)
        for number in np.unique(numbers).tolist():
            positions = np.flatnonzero(numbers == number)
            yield number, positions, within[positions]
