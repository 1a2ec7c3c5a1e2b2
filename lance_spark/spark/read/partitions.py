"""Reading the rows of a partitioned namespace."""

from __future__ import annotations

from dataclasses import replace

from lance_spark.spark.read.kind import Abilities
from lance_spark.spark.read.rows import RowsRead


class PartitionsRead(RowsRead):
    """As the rows of a table, but they cannot be joined by nearness: each of its tables has indexes of its own."""

    kind = "a scan of a partitioned namespace"

    @property
    def abilities(self) -> Abilities:
        unjoined = "the table is a partitioned namespace; join its tables"
        return replace(super().abilities, has_tables=True, unjoined=unjoined)
