"""NEAREST JOIN: each row of a DataFrame with the rows of the table whose vectors are nearest to its own.

Questions pass through Spark in three steps, with a shuffle before the second and the third, and none of them in the driver:
`_ask` finds the partitions of the index that each question searches, and sends its vector to the groups of partitions that have them;
`_compare` reads the partitions of a group, each once for many questions; `_answer` chooses among what was found for a question in all
groups, and reads the columns of the table. The columns of a question travel along, so that the questions are evaluated once.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from lance_spark.arrow.types import expected_width
from lance_spark.errors import InvalidOptionError, check_type
from lance_spark.index.vector.vectors import vector_type
from lance_spark.predicate import parse
from lance_spark.schema.blobs import signed
from lance_spark.schema.schema import quoted
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
_ROWS_BYTES = 32 << 20
"""Rows of the result are made in batches of about so many bytes."""
_FOUND_BYTES = 24
"""Of a row that is found, while the nearest are chosen: its question, distance and address."""

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
        from lance_spark.table.join.plan import plan_join

        snapshot, target = self._target.latest(), self._target
        nearest = _nearest(snapshot, on, {**parameters, "k": k, "metric": metric}, how)
        plan = ScanPlan(names_of(columns)).checked(snapshot)
        predicate = None if filter is None else parse(filter, plan.known(snapshot), _zone(target))
        check_type("fast_search", fast_search, bool, "True or False")
        fields = to_spark(signed(plan.fields(snapshot)).to_arrow())
        _check_names(questions.columns, fields.names)
        asked = _asked(questions, on[0], nearest)
        join, told = plan_join(snapshot, nearest, predicate, fast_search, target.cores())
        _LOG.info("nearest join of %s: %s", snapshot, told)
        return _Stages(join, plan, fields, how == "left", told).joined(asked, questions.schema)


def _nearest(snapshot: Snapshot, on: tuple[str | Column, str], given: dict[str, Any], how: str) -> Nearest:
    """What is searched for, with zeros in the place of the questions."""
    if how not in ("inner", "left"):
        raise InvalidOptionError(f"how must be 'inner' or 'left', not {how!r}")
    if not isinstance(on, tuple | list) or len(on) != 2 or not isinstance(on[0], str | Column) or not isinstance(on[1], str):
        raise InvalidOptionError(f"on must be the column of the questions and that of the table, such as ('q', 'vector'), not {on!r}")
    if unknown := given.keys() - {*_PARAMETERS, "k", "metric"}:
        raise InvalidOptionError(f"a nearest join has no parameter {min(unknown)!r}; its parameters are: {', '.join(_PARAMETERS)}")
    vectors, several = vector_type(snapshot.manifest.schema.resolve(on[1])[-1].type)
    if several:
        raise InvalidOptionError(f"column {on[1]!r} has lists of vectors, which a nearest join does not compare")
    q = np.zeros(1 if vectors is None else vectors.list_size, np.int64)  # other columns are refused
    return nearest_of(snapshot, {**given, "column": on[1], "q": q})


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


def _asked(questions: DataFrame, column: str | Column, nearest: Nearest) -> DataFrame:
    """The columns of the questions, c0, c1 and so on, and their `vector`s, in an order that depends only on the rows of a partition.

    The numbers of questions follow from it. If Spark runs a task again, rows may come in another order, but those with one vector find
    the same rows.
    """
    chosen = questions.select("*", column if isinstance(column, Column) else F.col(column))
    field = chosen.schema.fields[-1]
    if not isinstance(field.dataType, st.ArrayType) or not isinstance(field.dataType.elementType, st.NumericType):
        kind = field.dataType.simpleString()
        raise InvalidOptionError(
            f"the questions' column {field.name!r} must be an array of numbers, not {kind}; vector_to_array of pyspark.ml.functions makes one"
        )
    size, own = (field.metadata or {}).get(FIXED_SIZE), nearest.field.type
    if isinstance(size, int) and size != own.list_size:
        where = ".".join(nearest.path)
        raise InvalidOptionError(
            f"questions of {size} dimensions cannot be compared with column {where!r}, whose vectors have {own.list_size}"
        )
    single = own.value_type == pa.float32()
    named = chosen.toDF(*(f"c{i}" for i in range(len(questions.columns))), "vector")
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
        sent = st.StructType(
            [st.StructField("key", st.IntegerType()), st.StructField("group", st.IntegerType()), number, question, vector]
            + [st.StructField("partitions", st.BinaryType())]
        )
        found = st.StructType(
            [number, question, vector, st.StructField("estimated", st.BooleanType())]
            + [st.StructField(name, st.BinaryType()) for name in ("distances", "rows")]
        )
        result = st.StructType([question, *table.fields, st.StructField(_DISTANCE, st.FloatType())])
        groups = max(self.join.group_count, 1)
        probes = self._step(asked, _Ask(self.join, _keys(groups), self.left), sent)
        compared = self._step(probes.repartition(groups, "key"), _Compare(self.join), found)
        ordered = compared.repartition("number").sortWithinPartitions("number", F.col("question").isNull())
        rows = self._step(ordered, _Answer(self.join, self.plan, self.left), result)
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

        work.__name__ = f"{type(function).__name__.strip('_').lower()}: {self.told}"
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


@dataclass(frozen=True)
class _Ask:
    """Sends each question to the groups that it searches, and its own columns along with it to one of them."""

    join: NearestJoin
    keys: np.ndarray
    left: bool

    def __call__(self, batches: Batches, schema: pa.Schema) -> Batches:
        from lance_spark.table.join.questions import probes, question_vectors

        for batch in batches:
            queries, asked = question_vectors(self.join, batch.column("vector"))
            own = batch if self.left else batch.filter(pa.array(asked))
            numbers = own.column("number")
            group = numbers.to_numpy() % len(self.keys)
            sent = {"key": pa.array(self.keys[group]), "number": numbers, "question": _struct(own, schema.field("question").type)}
            yield _batch({**sent, "vector": _bytes(queries if self.left else queries[asked], asked if self.left else None)}, schema)
            which = np.flatnonzero(asked)
            for some in probes(self.join, queries[which]):
                of = which[some.questions]
                sent = {"key": pa.array(self.keys[some.groups]), "group": pa.array(some.groups.astype(np.int32))}
                sent |= {"number": batch.column("number").take(pa.array(of)), "vector": _bytes(queries[of]), "partitions": some.partitions}
                yield _batch(sent, schema)


@dataclass(frozen=True)
class _Compare:
    """Finds the nearest rows in a group for its questions, many at once. Their own columns pass through."""

    join: NearestJoin

    def __call__(self, batches: Batches, schema: pa.Schema) -> Batches:
        from lance_spark.table.join.compare import questions_at_once

        at_once = questions_at_once(self.join)
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            own = batch.filter(batch.column("question").is_valid())
            if own.num_rows:
                yield _batch({name: own.column(name) for name in ("number", "question", "vector")}, schema)
            probes = batch.filter(batch.column("question").is_null()).drop_columns(["question"])
            while probes.num_rows:
                room = at_once - sum(b.num_rows for b in waiting)
                waiting.append(probes.slice(0, room))
                probes = probes.slice(room)
                if probes.num_rows or len(waiting[-1]) == room:
                    yield from self._found(waiting, schema)
                    waiting = []
        if waiting:
            yield from self._found(waiting, schema)

    def _found(self, probes: Sequence[pa.RecordBatch], schema: pa.Schema) -> Batches:
        from lance_spark.table.join.compare import compared

        table = pa.Table.from_batches(probes).combine_chunks()
        groups, of = np.unique(table["group"].to_numpy(), return_inverse=True)
        for number, group in enumerate(groups.tolist()):
            batch = table.take(pa.array(np.flatnonzero(of == number))).combine_chunks().to_batches()[0]
            for found in compared(self.join, group, _matrix(self.join, batch.column("vector")), batch.column("partitions")):
                numbers = batch.column("number").take(pa.array(found.questions))
                estimated = pa.array(np.full(len(numbers), found.estimated))
                yield _batch({"number": numbers, "estimated": estimated, "distances": found.distances, "rows": found.rows}, schema)


@dataclass(frozen=True)
class _Answer:
    """Chooses the nearest rows of each question, whose batches have its own columns first, and reads their columns."""

    join: NearestJoin
    plan: ScanPlan
    left: bool

    def __call__(self, batches: Batches, schema: pa.Schema) -> Batches:
        at_once = max(_ROWS_BYTES // (_FOUND_BYTES * self.join.candidates), 1)
        chunk = _Chunk(self.join)
        for batch in batches:
            while batch.num_rows:
                own = batch.column("question").is_valid().to_numpy(zero_copy_only=False)
                ordinal = chunk.count + np.cumsum(own) - 1
                stop = int(np.searchsorted(ordinal, at_once))
                chunk.add(batch.slice(0, stop), ordinal[:stop], own[:stop])
                batch = batch.slice(stop)
                if batch.num_rows:
                    yield from self._rows(chunk, schema)
                    chunk = _Chunk(self.join)
        if chunk.count:
            yield from self._rows(chunk, schema)

    def _rows(self, chunk: _Chunk, schema: pa.Schema) -> Batches:
        from lance_spark.table.search.hits import Hits, fetched

        numbers, distances, rows = chunk.answers()
        distance = pa.array(distances)
        if self.left:
            without = np.setdiff1d(np.arange(chunk.count), numbers)
            numbers = np.concatenate([numbers, without])
            distance = pa.concat_arrays([distance, pa.nulls(len(without), distance.type)])
        questions = pa.Table.from_batches(chunk.questions).combine_chunks()
        at_once = max(_ROWS_BYTES // sum(expected_width(f.type) for f in schema), 1)
        for start in range(0, len(numbers), at_once):
            stop = min(start + at_once, len(numbers))
            hits = Hits(rows[start:stop], pa.table({_DISTANCE: distance[start : min(stop, len(rows))]}))
            of_table = fetched(self.join.version.snapshot, self.plan, hits).combine_chunks()
            some = questions["question"].take(pa.array(numbers[start:stop])).combine_chunks()
            columns: dict[str, pa.Array] = {"question": some}
            for at, name in enumerate((*schema.names[1:-1], _DISTANCE)):
                found = of_table.column(at)
                padded = pa.chunked_array([*found.chunks, pa.nulls(stop - start - len(found), found.type)], found.type)
                columns[name] = padded.combine_chunks()
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


class _Chunk:
    """Some questions, and what was found for them."""

    def __init__(self, join: NearestJoin) -> None:
        from lance_spark.table.join.answers import Gathered

        self._join = join
        self.count = 0
        self.questions: list[pa.RecordBatch] = []
        self._estimated, self._computed = Gathered(join.room), Gathered(join.nearest.k)

    def add(self, batch: pa.RecordBatch, ordinal: np.ndarray, own: np.ndarray) -> None:
        """Add rows: those of `own` are questions, which have the numbers `ordinal`, and others what was found for them."""
        self.questions.append(batch.filter(pa.array(own)).select(["question", "vector"]))
        self.count += int(own.sum())
        for estimated, gathered in ((True, self._estimated), (False, self._computed)):
            which = np.flatnonzero(~own & (batch.column("estimated").fill_null(not estimated).to_numpy(zero_copy_only=False) == estimated))
            if len(which):
                found = batch.take(pa.array(which))
                rows = np.frombuffer(b"".join(found.column("rows").to_pylist()), np.uint64)
                distances = np.frombuffer(b"".join(found.column("distances").to_pylist()), np.float32)
                gathered.add(np.repeat(ordinal[which], _lengths(found.column("rows")) // rows.itemsize), distances, rows)

    def answers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers of the questions, distances and addresses of the nearest rows."""
        from lance_spark.table.join.answers import answers

        vectors = pa.Table.from_batches(self.questions)["vector"].combine_chunks()
        there = np.flatnonzero(vectors.is_valid().to_numpy(zero_copy_only=False))
        if not len(there):
            return np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.uint64)
        place = np.cumsum(vectors.is_valid().to_numpy(zero_copy_only=False)) - 1
        queries = _matrix(self._join, vectors.drop_null())
        found = [(place[numbers], distances, rows) for numbers, distances, rows in (self._estimated.all(), self._computed.all())]
        numbers, distances, rows = answers(self._join, queries, *found)
        return there[numbers], distances, rows


def _struct(batch: pa.RecordBatch, t: pa.StructType) -> pa.Array:
    """The columns c0, c1 and so on of a batch as one."""
    columns = [batch.column(f.name) for f in t]
    return pa.StructArray.from_arrays(columns, fields=[pa.field(f.name, c.type) for f, c in zip(t, columns)])


def _bytes(vectors: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """The rows of a matrix as binary values; those that are not `valid` are null."""
    size = vectors.shape[1] * vectors.itemsize
    offsets = pa.py_buffer((np.arange(len(vectors) + 1) * size).astype(np.int32))
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(vectors), [bits, offsets, pa.py_buffer(np.ascontiguousarray(vectors))])


def _matrix(join: NearestJoin, column: pa.Array) -> np.ndarray:
    """The vectors in binary values."""
    size, dtype = join.nearest.queries.shape[1], join.nearest.queries.dtype
    offsets = column.offsets.to_numpy()
    return np.frombuffer(column.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]].view(dtype).reshape(-1, size)


def _lengths(column: pa.Array) -> np.ndarray:
    """The numbers of bytes of binary values."""
    return np.diff(column.offsets.to_numpy())


def _batch(columns: dict[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """A batch with these columns, and nulls in all others."""
    count = len(next(iter(columns.values())))
    return pa.RecordBatch.from_arrays([columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in schema], schema.names)
