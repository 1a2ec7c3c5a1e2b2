"""NEAREST JOIN: each row of a DataFrame with the rows of the table whose vectors are nearest to its own.

Questions pass through Spark in three steps, with a shuffle before the second and the third, and none of them in the driver:
`Ask` finds the partitions of the index that each question searches, and sends its vector to the groups of partitions that have them;
`Compare` reads the partitions of a group, each once for many questions; `Answer` chooses among what was found for a question in all
groups, and reads the columns of the table. The columns of a question travel along, so that the questions are evaluated once.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from lance_spark.errors import InvalidOptionError, check_type
from lance_spark.index.vector.vectors import vector_type
from lance_spark.predicate import parse
from lance_spark.schema.blobs import signed
from lance_spark.spark.batches import Conversion
from lance_spark.spark.types import FIXED_SIZE, promised, to_spark
from lance_spark.spark.workers.import_cache import brief_errors, start_task
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.plan import names as names_of
from lance_spark.table.search.nearest import DEFAULT_K, Nearest, nearest_of
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.verbs.target import Target

if TYPE_CHECKING:
    from lance_spark.table.join.plan import NearestJoin

_LOG = logging.getLogger("lance_spark")
_DISTANCE = "_distance"
_PARAMETERS = ("nprobes", "minimum_nprobes", "maximum_nprobes", "refine_factor", "ef", "use_index", "distance_range")

Batches = Iterator[pa.RecordBatch]


class JoinVerbs:
    """How a `LanceTable` is joined by nearness."""

    _target: Target

    def nearestJoin(
        self,
        questions: DataFrame,
        on: tuple[str | Column, str],
        k: int = DEFAULT_K,
        how: Literal["inner", "left"] = "inner",
        *,
        metric: str | None = None,
        filter: str | None = None,
        columns: Sequence[str] | None = None,
        fast_search: bool = False,
        **parameters: Any,
    ) -> DataFrame:
        """Each row of `questions` with the `k` rows of the table whose vectors are nearest to its own: their `columns`, and `_distance`.

        `on` are the column of `questions` with vectors, arrays of numbers, and that of the table. The rows are those that `search` finds
        for each question with the same `metric` and `parameters`: nprobes, minimum_nprobes, maximum_nprobes, refine_factor, ef, use_index
        and distance_range of `Dataset.scan(nearest=)`. `filter`, SQL text, chooses the rows of the table that may be found. With
        `fast_search`, rows that the index does not cover are left out.

        A question without a vector (it is null, or has null, NaN or infinity in it) or without any row near it has no row in the result;
        with `how="left"`, it has one with nulls. `columns` are those of the table (None: all). The version is the latest now.

        Raises InvalidOptionError for arguments that cannot be, and for a name that both sides have.

        Examples:
            >>> from lance_spark import LanceTable
            >>> rows = spark.createDataFrame([(1, [0.0, 1.0]), (2, [3.0, 4.0])], "id INT, vector ARRAY<FLOAT>")
            >>> rows.write.format("lance").option("vector.arrow.fixed-size-list.size", 2).mode("append").save("/tmp/t.lance")
            >>> questions = spark.createDataFrame([("a", [3.0, 3.0]), ("b", None)], "name STRING, q ARRAY<FLOAT>")
            >>> joined = LanceTable.forPath(spark, "/tmp/t.lance").nearestJoin(questions, ("q", "vector"), k=1, how="left")
            >>> joined.select("name", "id", "_distance").orderBy("name").collect()
            [Row(name='a', id=2, _distance=1.0), Row(name='b', id=None, _distance=None)]
        """
        if how not in ("inner", "left"):
            raise InvalidOptionError(f"how must be 'inner' or 'left', not {how!r}")
        if not isinstance(on, tuple | list) or len(on) != 2 or not isinstance(on[0], str | Column) or not isinstance(on[1], str):
            raise InvalidOptionError(f"on must be the column of the questions and that of the table, such as ('q', 'vector'), not {on!r}")
        check_type("fast_search", fast_search, bool, "True or False")
        check_type("questions", questions, DataFrame, "a DataFrame with a column of vectors")
        if questions.isStreaming:
            raise InvalidOptionError("a stream of questions cannot be joined at once; join its batches in foreachBatch")
        snapshot, target = self._target.latest(), self._target
        nearest = nearest_for(snapshot, on[1], {**parameters, "k": k, "metric": metric})
        asked = questions.select("*", on[0] if isinstance(on[0], Column) else F.col(on[0]))
        return joined(target, snapshot, asked, nearest, names_of(columns), filter, fast_search, how == "left")


def nearest_for(snapshot: Snapshot, column: str, given: dict[str, Any]) -> Nearest:
    """What is searched for, with zeros in the place of the questions. Raises InvalidOptionError."""
    if unknown := given.keys() - {*_PARAMETERS, "k", "metric"}:
        raise InvalidOptionError(f"a nearest join has no parameter {min(unknown)!r}; its parameters are: {', '.join(_PARAMETERS)}")
    vectors, several = vector_type(snapshot.manifest.schema.resolve(column)[-1].type)
    if several:
        raise InvalidOptionError(f"column {column!r} has lists of vectors, which a nearest join does not compare")
    q = np.zeros(1 if vectors is None else vectors.list_size, np.int64)  # other columns are refused
    return nearest_of(snapshot, {**given, "column": column, "q": q})


def joined(
    target: Target,
    snapshot: Snapshot,
    questions: DataFrame,
    nearest: Nearest,
    columns: tuple[str, ...] | None,
    filter: str | None,
    fast_search: bool,
    left: bool,
) -> DataFrame:
    """The columns of the questions but the last one, which has their vectors, the `columns` of the nearest rows, and `_distance`."""
    from lance_spark.table.join.plan import plan_join  # loads the decoders

    plan = ScanPlan(columns).checked(snapshot)
    predicate = None if filter is None else parse(filter, plan.known(snapshot), _zone(target))
    fields, own = to_spark(signed(plan.fields(snapshot)).to_arrow()), st.StructType(questions.schema.fields[:-1])
    _check_names(own.names, fields.names)
    asked = _asked(questions, nearest)
    join, told = plan_join(snapshot, nearest, predicate, fast_search, target.cores())
    _LOG.info("nearest join of %s: %s", snapshot, told)
    return _Stages(join, plan, fields, left, told).joined(asked, own)


def _zone(target: Target) -> str:
    return target.spark.conf.get("spark.sql.session.timeZone") or "UTC"


def _check_names(questions: Sequence[str], table: Sequence[str]) -> None:
    """Raise InvalidOptionError if two columns of the result have one name."""
    own = {name.lower() for name in questions}
    if both := [name for name in (*table, _DISTANCE) if name.lower() in own]:
        raise InvalidOptionError(
            f"the questions have a column {both[0]!r}, as the result of the join has; rename it with withColumnRenamed, "
            "or leave that of the table out with the argument columns"
        )
    if _DISTANCE in table:
        raise InvalidOptionError(f"a nearest join adds the column {_DISTANCE!r}, but the table has a column with this name; choose others")


def _asked(questions: DataFrame, nearest: Nearest) -> DataFrame:
    """The columns of the questions as c0, c1 and so on, the last one as `vector`, in an order that depends only on the rows of a partition.

    The numbers of questions follow from it. If Spark runs a task again, rows may come in another order, but those with one vector find
    the same rows.
    """
    field = questions.schema.fields[-1]
    if not isinstance(field.dataType, st.ArrayType) or not isinstance(field.dataType.elementType, st.NumericType):
        kind = field.dataType.simpleString()
        raise InvalidOptionError(
            f"the questions' column {field.name!r} must be an array of numbers, not {kind}; "
            "vector_to_array of pyspark.ml.functions makes one"
        )
    size, own = (field.metadata or {}).get(FIXED_SIZE), nearest.field.type
    if isinstance(size, int) and size != own.list_size:
        where = ".".join(nearest.path)
        raise InvalidOptionError(
            f"questions of {size} dimensions cannot be compared with column {where!r}, whose vectors have {own.list_size}"
        )
    single = own.value_type == pa.float32()
    named = questions.toDF(*(f"c{i}" for i in range(len(questions.columns) - 1)), "vector")
    numbered = named.withColumn("vector", F.col("vector").cast(f"array<{'float' if single else 'double'}>"))
    return numbered.sortWithinPartitions(F.xxhash64("vector")).withColumn("number", F.monotonically_increasing_id())


@dataclass(frozen=True)
class _Stages:
    """The steps of a join: `plan` has the columns of the table, and `fields` their types in Spark; `told` describes the search."""

    join: NearestJoin
    plan: ScanPlan
    fields: st.StructType
    left: bool
    told: str

    def joined(self, asked: DataFrame, schema: st.StructType) -> DataFrame:
        """The result for the questions of `_asked`, whose own schema is `schema`."""
        own = st.StructType([st.StructField(f"c{i}", f.dataType) for i, f in enumerate(schema)])
        table = st.StructType([st.StructField(f"t{i}", f.dataType) for i, f in enumerate(self.fields)])
        question, number = st.StructField("question", own), st.StructField("number", st.LongType())
        vector = st.StructField("vector", st.BinaryType())
        key, group = (st.StructField(name, st.IntegerType()) for name in ("key", "group"))
        partitions, distances, rows_found = (st.StructField(name, st.BinaryType()) for name in ("partitions", "distances", "rows"))
        sent = st.StructType([key, group, number, question, vector, partitions])
        found = st.StructType([number, question, vector, st.StructField("estimated", st.BooleanType()), distances, rows_found])
        result = st.StructType([question, *table.fields, st.StructField(_DISTANCE, st.FloatType())])
        from lance_spark.table.join.steps import Answer, Ask, Compare  # loads the decoders

        groups = max(self.join.group_count, 1)
        searched = replace(self.join, allowed=None)  # which may be large, and is not for questions
        probes = self._step(asked, Ask(searched, _keys(groups), self.left), sent)
        compared = self._step(probes.repartition(groups, "key"), Compare(self.join), found)
        ordered = compared.repartition("number").sortWithinPartitions("number", F.col("question").isNull())
        rows = self._step(ordered, Answer(self.join, self.plan, self.left), result)
        return rows.select(
            *(F.col(f"question.c{i}").alias(f.name, metadata=f.metadata) for i, f in enumerate(schema)),
            *(F.col(f"t{i}").alias(f.name, metadata=f.metadata) for i, f in enumerate(self.fields)),
            _DISTANCE,
        )

    def _step(self, rows: DataFrame, function: Callable[[Batches, pa.Schema], Batches], schema: st.StructType) -> DataFrame:
        """The rows that a function makes of Arrow batches, as a step that Spark's plans describe."""
        data, conversion = pickle.dumps(function), Conversion(promised(schema))

        def work(batches: Batches) -> Batches:
            start_task()
            with brief_errors():
                yield from map(conversion.apply, pickle.loads(data)(batches, conversion.promised))

        work.__name__ = f"{type(function).__name__.lower()}: {self.told}"
        return rows.mapInArrow(work, schema)


def _keys(count: int) -> np.ndarray:
    """For each of so many partitions, a number (int32) that Spark's hash partitioning sends to it."""
    keys = np.full(count, -1, np.int64)
    start = 0
    while (keys < 0).any():
        tried = np.arange(start, start + 4 * count + 64)
        at, first = np.unique(_spark_hash(tried) % count, return_index=True)
        keys[at] = np.where(keys[at] < 0, tried[first], keys[at])
        start += len(tried)
    return keys.astype(np.int32)


def _spark_hash(values: np.ndarray) -> np.ndarray:
    """Spark's hash of integers: MurmurHash3 with the seed 42."""

    def rotated(value: np.ndarray, by: int) -> np.ndarray:
        return value << np.uint32(by) | value >> np.uint32(32 - by)

    hashed = rotated(values.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593) ^ np.uint32(42)
    hashed = rotated(hashed, 13) * np.uint32(5) + np.uint32(0xE6546B64) ^ np.uint32(4)
    hashed = (hashed ^ hashed >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    hashed = (hashed ^ hashed >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (hashed ^ hashed >> np.uint32(16)).astype(np.int32)
