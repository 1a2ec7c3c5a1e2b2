"""The methods of `Dataset` about indexes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, Self

from lance_spark.errors import InvalidOptionError, check_type
from lance_spark.table.indexes.create import NewIndex, create_index, drop_index
from lance_spark.table.indexes.describe import Indexes, index_statistics, list_indices
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
        """Build an index of a column: BTREE, BITMAP, LABEL_LIST (arrays), NGRAM and FM (texts), ZONEMAP, BLOOMFILTER, RTREE, JSON,
        INVERTED or MINHASHLSH.

        The default name is the column's with "_idx", and a number if an index of another kind or column has that name. An index of the
        column with this name is replaced, unless `replace` is false. Without `train`, it covers no rows until
        `optimize.optimize_indices()`. Parameters: `rows_per_zone` of ZONEMAP, `number_of_items` and `probability` of BLOOMFILTER,
        `page_size` of RTREE, and of JSON the `path` of the values and the kind `target_index_type` of their index, BTREE, BITMAP, NGRAM
        or ZONEMAP, with its own parameters. INVERTED, also called FTS, is a full-text index of texts, lists of texts or JSON; its
        parameters are those of `index.text.analysis.parameters.TextParameters`. MINHASHLSH has signatures of texts; its parameters are
        `num_hashes`, `num_bands`, `shingle_size` and `tokenizer`, a mapping with parameters of INVERTED. Raises InvalidOptionError for a
        column that the kind does not support.

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

    def create_index(
        self,
        column: str | Sequence[str],
        index_type: str,
        name: str | None = None,
        metric: str | None = None,
        replace: bool = False,
        *,
        train: bool = True,
        **parameters: object,
    ) -> Self:
        """Build an index of a column of vectors: IVF_FLAT, IVF_PQ, IVF_SQ, IVF_RQ, IVF_HNSW_FLAT, IVF_HNSW_PQ or IVF_HNSW_SQ.

        `metric` is l2 (the default), cosine, dot, or, for vectors of uint8, hamming. Parameters: `num_partitions` or
        `target_partition_size` (the mean number of rows; else there is a partition for 4096 rows, 8192 of IVF_PQ and IVF_SQ, or 1,048,576
        with a graph), `sample_rate` (256, vectors for each centroid that are trained with), `max_iters` (50, steps of the training), of PQ
        `num_sub_vectors` (by default, one for 16 dimensions) and `num_bits` (8 or 4), of RQ `num_bits` (5, up to 9), of graphs `m` (20),
        `ef_construction` (150) and `max_level` (7), and given `ivf_centroids` and `pq_codebook`. Without `train`, or with too few vectors,
        the index covers no rows until `optimize.optimize_indices()`. An existing index of the name, by default the column's
        with "_idx", is an error unless `replace` is true. Raises InvalidOptionError for a column that the kind does not support.

        Examples:
            >>> import numpy as np
            >>> import pyarrow as pa
            >>> from lance_spark import Dataset
            >>> vectors = pa.FixedSizeListArray.from_arrays(np.arange(4000, dtype=np.float32), 4)
            >>> table = Dataset.write("/tmp/t.lance", pa.table({"vector": vectors}))
            >>> table = table.create_index("vector", "IVF_FLAT", num_partitions=4)
            >>> [(index["name"], index["type"]) for index in table.list_indices()]
            [('vector_idx', 'IVF_FLAT')]
        """
        check_type("index_type", index_type, str, "text, such as IVF_PQ")
        if not isinstance(column, str):
            check_type("column", column, Sequence, "the name of a column")
            if len(column) != 1:
                raise InvalidOptionError(f"an index has one column, not {len(column)}")
            column = column[0]
        new = NewIndex(column, index_type, name, replace, train, {**parameters, **({} if metric is None else {"metric": metric})})
        return self._changed(create_index(Here(), self.snapshot, new, {}))

    def drop_index(self, name: str) -> Self:
        """Drop an index of any kind. Raises InvalidOptionError if there is none with this name."""
        return self._changed(drop_index(self.snapshot, name, {}))

    def list_indices(self) -> Indexes:
        """List the segments of all indexes, as dictionaries: "name", "type", "uuid", "fields", "version" and "fragment_ids"."""
        return list_indices(self.snapshot)

    def index_statistics(self, index_name: str) -> dict[str, Any]:
        """The kind, size and coverage of an index. Raises InvalidOptionError if there is none with this name."""
        return index_statistics(self.snapshot, index_name)
