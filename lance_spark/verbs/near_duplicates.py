"""NEAR DUPLICATES: the rows whose vectors are near to those of others, by a nearest join of the table with itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lance_spark.errors import InvalidOptionError
from lance_spark.spark.protocol import identified
from lance_spark.spark.read.nearest_steps import nearest_for
from lance_spark.spark.workers.import_cache import start_task
from lance_spark.storage.location import absolute
from lance_spark.verbs.nearest_join import joined
from lance_spark.verbs.target import Target

_PAIR = "id_a BIGINT, id_b BIGINT"
_ROW_ID = "_rowid"


@dataclass(frozen=True)
class NearDuplicates:
    """Rows with vectors or texts that are near to each other; rows are named by their ids, the column `_rowid`.

    `pairs` have `id_a`, which is lower than `id_b`, and their `_distance`. `groups` have `id` and `group_id`: the lowest id of all rows
    that pairs connect, directly or through other rows. Rows without near duplicates are in none. Both are computed when they are used;
    if both are, `pairs.persist()` computes them once.
    """

    pairs: DataFrame
    groups: DataFrame


class DuplicateVerbs:
    """How near duplicates are found in a `LanceTable`."""

    _target: Target

    def nearDuplicateVectors(
        self, column: str, distance: float, k: int = 20, *, metric: str | None = None, filter: str | None = None, **parameters: Any
    ) -> NearDuplicates:
        """The rows of which the vectors in `column` are at most `distance` apart, as pairs and as groups, in the latest version.

        The table is joined with itself, see `nearestJoin`: of each row, the `k` nearest others are compared, so that a row with more near
        duplicates may not be paired with all of them. With an index, they are searched with the `metric` and `parameters`, and a pair is
        missed if the index finds neither row for the other. Distances are computed from the vectors. `filter` selects rows.

        Examples:
            >>> from lance_spark import LanceTable
            >>> rows = spark.createDataFrame([([0.0, 1.0],), ([3.0, 4.0],), ([0.0, 1.1],), ([0.0, 1.2],)], "vector ARRAY<FLOAT>")
            >>> rows = rows.coalesce(1).write.format("lance").option("vector.arrow.fixed-size-list.size", 2)
            >>> rows.mode("append").save("/tmp/t.lance")
            >>> found = LanceTable.forPath(spark, "/tmp/t.lance").nearDuplicateVectors("vector", distance=0.02)
            >>> found.pairs.select("id_a", "id_b").orderBy("id_a").collect()
            [Row(id_a=0, id_b=2), Row(id_a=2, id_b=3)]
            >>> found.groups.orderBy("id").collect()
            [Row(id=0, group_id=0), Row(id=2, group_id=0), Row(id=3, group_id=0)]
        """
        if not isinstance(distance, Real) or isinstance(distance, bool) or not np.isfinite(float(distance)):
            raise InvalidOptionError(f"distance must be a finite number, not {distance!r}")
        if "distance_range" in parameters:
            raise InvalidOptionError("near duplicates are those up to the argument distance; leave distance_range out")
        target, snapshot = self._target, self._target.latest()
        above = float(np.nextafter(np.float32(distance), np.float32(np.inf)))  # the upper bound of a range is exclusive
        # Most rows have fewer near duplicates than `k`: with the distance as a range, each of them would be searched for everywhere.
        nearest = nearest_for(snapshot, column, {"refine_factor": 1, **parameters, "k": k, "metric": metric})
        nearest = replace(nearest, k=nearest.k + 1)  # each row finds itself
        options = {**identified(target.options, snapshot.identity), "version": str(snapshot.version), "with_row_id": "true"}
        options |= {"columns": json.dumps([column])} | ({} if filter is None else {"filter": filter})
        rows = target.spark.read.format("lance").options(**options).load(absolute(target.uri))
        questions = rows.select(F.col(_ROW_ID).alias("id_a"), F.col(column))
        found = joined(target, snapshot, questions, nearest, (_ROW_ID,), filter, False, False).withColumnRenamed(_ROW_ID, "id_b")
        near = found.where((F.col("id_a") != F.col("id_b")) & (F.col("_distance") < above))
        ordered = near.select(F.least("id_a", "id_b").alias("id_a"), F.greatest("id_a", "id_b").alias("id_b"), "_distance")
        pairs = ordered.groupBy("id_a", "id_b").agg(F.min("_distance").alias("_distance"))
        return grouped(pairs)


def grouped(pairs: DataFrame) -> NearDuplicates:
    """The pairs and their groups."""
    # Each task reduces its pairs to one for each row, so that the last one has few.
    few = pairs.select("id_a", "id_b").mapInArrow(_connected, _PAIR)
    return NearDuplicates(pairs, few.repartition(1).mapInArrow(_connected, _PAIR).toDF("id", "group_id"))


def _connected(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from lance_spark.table.join.components import components

    start_task()
    yield from components(batches)
