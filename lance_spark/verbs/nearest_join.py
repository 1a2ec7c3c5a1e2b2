"""NEAREST JOIN: each row of a DataFrame with the rows of the table whose vectors are nearest to its own.

Tasks do the steps of `spark.read.nearest_steps`; no question is in the driver. The columns of a question travel along, so
that the questions are evaluated once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from lance_spark.errors import InvalidOptionError, check_type
from lance_spark.predicate import parse
from lance_spark.schema.blobs import signed
from lance_spark.spark.columns.batches import conversion_to
from lance_spark.spark.columns.types import FIXED_SIZE, to_spark
from lance_spark.spark.read.nearest_steps import DISTANCE, Step, Steps, nearest_for
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.plan import names as names_of
from lance_spark.table.search.nearest import DEFAULT_K, Nearest
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.verbs.subqueries import with_values
from lance_spark.verbs.target import Target

_LOG = logging.getLogger("lance_spark")


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
        for each question with the same `metric` and `parameters`: recall_target, nprobes, minimum_nprobes, maximum_nprobes, search_effort,
        approx_mode, refine_factor, ef, use_index and distance_range of `Dataset.scan(nearest=)`. `filter`, SQL text, chooses the rows of
        the table that may be found; it may have queries, as in `id IN (SELECT id FROM mine)`, which run now. With `fast_search`, rows that
        the index does not cover are left out.

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
        is_pair = isinstance(on, tuple | list) and len(on) == 2
        if not is_pair or not isinstance(on[0], str | Column) or not isinstance(on[1], str):
            raise InvalidOptionError(f"on must be the column of the questions and that of the table, such as ('q', 'vector'), not {on!r}")
        check_type("fast_search", fast_search, bool, "True or False")
        check_type("questions", questions, DataFrame, "a DataFrame with a column of vectors")
        if questions.isStreaming:
            raise InvalidOptionError("a stream of questions cannot be joined at once; join its batches in foreachBatch")
        snapshot, target = self._target.latest(), self._target
        nearest = nearest_for(snapshot, on[1], {**parameters, "k": k, "metric": metric})
        asked = questions.select("*", on[0] if isinstance(on[0], Column) else F.col(on[0]))
        return joined(target, snapshot, asked, nearest, names_of(columns), filter, fast_search, how == "left")


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
    predicate = None if filter is None else parse(with_values(target.spark, filter), plan.known(snapshot), _zone(target))
    fields = to_spark(signed(plan.fields(snapshot)).to_arrow())
    own = st.StructType(questions.schema.fields[:-1])
    _check_names(own.names, fields.names)
    asked = _asked(questions, nearest)
    join, told = plan_join(snapshot, nearest, predicate, fast_search, target.cores())
    _LOG.info("nearest join of %s: %s", snapshot, told)
    return _result(Steps(join, plan, fields, own, left, told, conversion_to), asked, own)


def _zone(target: Target) -> str:
    return target.spark.conf.get("spark.sql.session.timeZone") or "UTC"


def _check_names(questions: Sequence[str], table: Sequence[str]) -> None:
    """Raise InvalidOptionError if two columns of the result have one name."""
    own = {name.lower() for name in questions}
    if both := [name for name in (*table, DISTANCE) if name.lower() in own]:
        raise InvalidOptionError(
            f"the questions have a column {both[0]!r}, as the result of the join has; rename it with withColumnRenamed, "
            "or leave that of the table out with the argument columns"
        )
    if DISTANCE in table:
        raise InvalidOptionError(f"a nearest join adds the column {DISTANCE!r}, but the table has a column with this name; choose others")


def _asked(questions: DataFrame, nearest: Nearest) -> DataFrame:
    """The columns of the questions as c0, c1 and so on, the last one as `vector`."""
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
    return named.withColumn("vector", F.col("vector").cast(f"array<{'float' if single else 'double'}>"))


def _result(steps: Steps, asked: DataFrame, own: st.StructType) -> DataFrame:
    """The result for the questions of `_asked`, whose own columns are `own`."""
    if steps.join.together:
        (join,) = steps.all
        rows = _applied(asked.repartition(F.xxhash64("vector")), join)
    else:
        ask, compare, answer = steps.all
        # The order, from which the numbers follow, depends only on the rows of a partition. If Spark runs a task again, rows may come in
        # another order, but those with one vector find the same rows.
        numbered = asked.sortWithinPartitions(F.xxhash64("vector")).withColumn("number", F.monotonically_increasing_id())
        compared = _applied(_applied(numbered, ask).repartition(steps.groups, "key"), compare)
        rows = _applied(compared.repartition("number").sortWithinPartitions("number", F.col("question").isNull()), answer)
    asked_columns = [F.col(f"question.c{i}").alias(f.name, metadata=f.metadata) for i, f in enumerate(own)]
    found_columns = [F.col(f"t{i}").alias(f.name, metadata=f.metadata) for i, f in enumerate(steps.fields)]
    return rows.select(*asked_columns, *found_columns, DISTANCE)


def _applied(rows: DataFrame, step: Step) -> DataFrame:
    return rows.mapInArrow(step.function, step.schema)
