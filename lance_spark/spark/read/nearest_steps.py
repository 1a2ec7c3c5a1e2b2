"""The steps of a nearest join as functions of Spark's tasks, for the joins of `LanceTable` and for those in Spark's own words.

Questions pass through three steps, with a shuffle before the second and the third: `ask` finds the partitions of the index that each
question searches, and sends its vector to the groups of partitions that have them; `compare` reads the partitions of a group, each once
for many questions; `answer` chooses among what was found for a question in all groups, and reads the columns of the table. If all that is
searched is small, `join` is these three in one task for its questions.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import types as st

from lance_spark.errors import InvalidOptionError
from lance_spark.index.vector.vectors import vector_type
from lance_spark.spark.options.read import JOINS
from lance_spark.spark.workers.import_cache import brief_errors, start_task
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.search.nearest import Nearest, nearest_of
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.table.join.plan import NearestJoin

# The steps load the decoders, which programs that only plan other things do without.

DISTANCE = "_distance"
"""The last column of the result."""
_PARAMETERS = (*JOINS, "use_index", "distance_range")

Batches = Iterator[pa.RecordBatch]


def nearest_for(snapshot: Snapshot, column: str, given: dict[str, Any]) -> Nearest:
    """What is searched for, with zeros in the place of the questions. Raises InvalidOptionError."""
    if unknown := given.keys() - {*_PARAMETERS, "k", "metric"}:
        raise InvalidOptionError(f"a nearest join has no parameter {min(unknown)!r}; its parameters are: {', '.join(_PARAMETERS)}")
    vectors, several = vector_type(snapshot.manifest.schema.resolve(column)[-1].type)
    if several:
        raise InvalidOptionError(f"column {column!r} has lists of vectors, which a nearest join does not compare")
    q = np.zeros(1 if vectors is None else vectors.list_size, np.int64)  # other columns are refused
    return nearest_of(snapshot, {**given, "column": column, "q": q})


class Conversion(Protocol):
    """Converts batches to the Arrow schema that is promised to Spark (`spark.batches`)."""

    @property
    def promised(self) -> pa.Schema:
        """The schema."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch."""


@dataclass(frozen=True)
class Step:
    """A function that makes rows of this `schema` of Arrow batches. Its name describes it in Spark's plans."""

    function: Callable[[Batches], Batches]
    schema: st.StructType


@dataclass(frozen=True)
class Steps:
    """The steps of a join. `plan` has the columns of the table, and `fields` their types in Spark; `questions` are the columns of the
    questions, and `told` describes the search. With `left`, questions without any row near them have one with nulls.

    The first step gets the columns of the questions as c0, c1 and so on, their vectors as `vector`, and, unless it is `join`, their numbers
    as `number`. Rows go to the second one by the hash of `key`, in `groups` partitions; to the third one by `number`: of each, that with
    the `question` first. The last has the columns of the questions as those of `question`, and those of the table as t0, t1 and so on.
    """

    join: NearestJoin
    plan: ScanPlan
    fields: st.StructType
    questions: st.StructType
    left: bool
    told: str
    conversion_to: Callable[[st.StructType], Conversion]

    @property
    def groups(self) -> int:
        """The number of tasks of the second step."""
        return max(self.join.group_count, 1)

    @cached_property
    def _question(self) -> st.StructField:
        return st.StructField("question", st.StructType([st.StructField(f"c{i}", f.dataType) for i, f in enumerate(self.questions)]))

    @property
    def all(self) -> Sequence[Step]:
        """The steps in their order: `ask`, `compare` and `answer`, or only `join`."""
        from lance_spark.table.join.steps import Answer, Ask, Compare, Join

        searched = replace(self.join, allowed=None)  # which may be large, and is not for questions
        ask, compare, answer = Ask(searched, _keys(self.groups), self.left), Compare(self.join), Answer(self.join, self.plan, self.left)
        if not self.join.together:
            return self._step(ask, self._sent), self._step(compare, self._found), self._step(answer, self._result)
        return (self._step(Join(ask, compare, answer), self._result),)

    @property
    def _sent(self) -> st.StructType:
        ints = [st.StructField(name, st.IntegerType()) for name in ("key", "group")]
        return st.StructType([*ints, _NUMBER, self._question, _VECTOR, st.StructField("partitions", st.BinaryType())])

    @property
    def _found(self) -> st.StructType:
        found = [st.StructField(name, st.BinaryType()) for name in ("distances", "rows")]
        return st.StructType([_NUMBER, self._question, _VECTOR, st.StructField("estimated", st.BooleanType()), *found])

    @property
    def _result(self) -> st.StructType:
        table = [st.StructField(f"t{i}", f.dataType) for i, f in enumerate(self.fields)]
        return st.StructType([self._question, *table, st.StructField(DISTANCE, st.FloatType())])

    def _step(self, function: Callable[[Batches, pa.Schema], Batches], schema: st.StructType) -> Step:
        data, conversion = pickle.dumps(function), self.conversion_to(schema)

        def work(batches: Batches) -> Batches:
            start_task()
            with brief_errors():
                yield from map(conversion.apply, pickle.loads(data)(batches, conversion.promised))

        work.__name__ = f"{type(function).__name__.lower()}: {self.told}"
        return Step(work, schema)


_NUMBER = st.StructField("number", st.LongType())
_VECTOR = st.StructField("vector", st.BinaryType())


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
