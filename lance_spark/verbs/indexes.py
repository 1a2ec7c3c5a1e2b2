"""CREATE, DROP and OPTIMIZE INDEX: tasks on the executors build the segments of indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lance_spark.table.indexes.create import NewIndex, create_index, drop_index
from lance_spark.table.indexes.describe import Indexes, index_statistics, list_indices
from lance_spark.table.indexes.optimize import Optimization, optimize_indices
from lance_spark.table.write.options import NOTED
from lance_spark.verbs.job import OnExecutors
from lance_spark.verbs.target import Target, given


class IndexVerbs:
    """What a `LanceTable` does with indexes."""

    _target: Target

    def createIndex(
        self, column: str, kind: str, name: str | None = None, replace: bool = False, train: bool = True, **parameters: Any
    ) -> int:
        """Build an index of a column: BTREE, BITMAP, LABEL_LIST (arrays), NGRAM and FM (texts), ZONEMAP, BLOOMFILTER, RTREE, JSON,
        INVERTED or MINHASHLSH; or of vectors: IVF_FLAT, IVF_PQ, IVF_SQ, IVF_RQ, IVF_HNSW_FLAT, IVF_HNSW_PQ or IVF_HNSW_SQ, which are
        trained first.

        The tasks build a segment each, from some fragments. The default name is the column's with "_idx", and a number if an index of
        another kind or column has that name. An existing index of the name is an error unless `replace` is true. Without `train`, it
        covers no rows until `optimizeIndices`. For parameters
        see `Dataset.create_scalar_index` and `Dataset.create_index`. Returns the new version.

        Examples:
            >>> from lance_spark import LanceTable
            >>> spark.range(10).write.format("lance").mode("append").save("/tmp/t.lance")
            >>> table = LanceTable.forPath(spark, "/tmp/t.lance")
            >>> version = table.createIndex("id", "BTREE")
            >>> [index["name"] for index in table.listIndices()]
            ['id_idx']
        """
        noted = given({key: parameters.pop(key) for key in (*NOTED, "properties") if key in parameters}).noted
        new = NewIndex(column, kind, name, replace, train, parameters)
        return create_index(self._executors(), self._target.latest(), new, noted).version

    def dropIndex(self, name: str, **noted: Any) -> int:
        """Drop an index of any kind. Raises InvalidOptionError if there is none with this name. Returns the new version."""
        return drop_index(self._target.latest(), name, given(noted).noted).version

    def optimizeIndices(
        self, num_indices_to_merge: int | None = None, index_names: Sequence[str] | None = None, retrain: bool = False, **noted: Any
    ) -> int:
        """Extend indexes to the fragments that they do not cover, all or some; see `Dataset.optimize`. Returns the latest version."""
        how = Optimization(num_indices_to_merge, index_names, retrain)
        return optimize_indices(self._executors(), self._target.latest(), how, given(noted).noted).version

    def listIndices(self) -> Indexes:
        """List the segments of all indexes, as dictionaries: "name", "type", "uuid", "fields", "version" and "fragment_ids"."""
        return list_indices(self._target.latest())

    def indexStatistics(self, name: str) -> dict[str, Any]:
        """The kind, size and coverage of an index. Raises InvalidOptionError if there is none with this name."""
        return index_statistics(self._target.latest(), name)

    def _executors(self) -> OnExecutors:
        return OnExecutors(self._target.spark, self._target.cores())
