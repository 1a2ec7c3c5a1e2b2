"""The methods of `Dataset` about indexes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, Self

from lance_spark.table.indexes.create import NewIndex, create_index, drop_index
from lance_spark.table.indexes.describe import index_statistics, list_indices
from lance_spark.table.scan.runner import Here
from lance_spark.table.versions.snapshot import Snapshot


class IndexConfig(Protocol):
    """A kind of index with its parameters, such as pylance's `lance.indices.IndexConfig`."""

    index_type: str
    parameters: dict[str, Any]


class IndexMethods(ABC):
    """What a `Dataset` does with indexes; names are those of pylance."""

    snapshot: Snapshot

    @abstractmethod
    def _changed(self, snapshot: Snapshot) -> Self: ...

    def create_scalar_index(
        self,
        column: str,
        index_type: str | IndexConfig,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        **parameters: object,
    ) -> Self:
        """Build an index of a column: BTREE, BITMAP, LABEL_LIST (arrays), NGRAM (texts), ZONEMAP, BLOOMFILTER or JSON.

        The default name is the column's with "_idx", and a number if an index of another kind or column has that name. An index of the
        column with this name is replaced, unless `replace` is false. Without `train`, it
        covers no rows until `optimize.optimize_indices()`. Parameters: `rows_per_zone` of ZONEMAP, `number_of_items` and `probability`
        of BLOOMFILTER, and of JSON the `path` of the values and the kind `target_index_type` of their index, BTREE, BITMAP, NGRAM or
        ZONEMAP, with its own parameters. Raises InvalidOptionError for a column that the kind does not support.

        Examples:
            >>> import pyarrow as pa
            >>> from lance_spark import Dataset
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"id": [1, 2, 3]}))
            >>> table = table.create_scalar_index("id", "BTREE")
            >>> [index["name"] for index in table.list_indices()], table.count_rows("id = 2")
            (['id_idx'], 1)
        """
        if index_type is None:
            raise TypeError("index_type must be text, such as BTREE, or an IndexConfig, not None")
        kind, given = (index_type, {}) if isinstance(index_type, str) else (index_type.index_type, index_type.parameters)
        new = NewIndex(column, kind, name, replace, train, {**given, **parameters})
        return self._changed(create_index(Here(), self.snapshot, new, {}))

    def drop_index(self, name: str) -> Self:
        """Drop an index of any kind. Raises InvalidOptionError if there is none with this name."""
        return self._changed(drop_index(self.snapshot, name, {}))

    def list_indices(self) -> list[dict[str, Any]]:
        """The segments of all indexes, see `table.indexes.describe.list_indices`."""
        return list_indices(self.snapshot)

    def index_statistics(self, index_name: str) -> dict[str, Any]:
        """The kind, size and coverage of an index, see `table.indexes.describe.index_statistics`."""
        return index_statistics(self.snapshot, index_name)
