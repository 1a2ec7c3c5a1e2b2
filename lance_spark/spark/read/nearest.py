"""Joining rows by nearness: the steps for Spark's planner, which puts them into its plan (NearestStages.java)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lance_spark.schema.schema import quoted
from lance_spark.spark import protocol
from lance_spark.spark.columns.batches import conversion_to
from lance_spark.spark.columns.types import of_json
from lance_spark.spark.protocol import Answer
from lance_spark.spark.read.kind import check_ids, only, shown
from lance_spark.spark.read.nearest_steps import Conversion, Step, Steps, nearest_for
from lance_spark.spark.read.request import Request
from lance_spark.spark.workers.import_cache import brief_errors
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.versions.snapshot import Snapshot


class NearestReader(DataSourceReader):
    """Answers the planner: no task reads anything."""

    def __init__(self, steps: Callable[[], Steps]) -> None:
        self._steps = steps

    @brief_errors()
    def partitions(self) -> list[InputPartition]:
        """One partition with the steps."""
        steps = self._steps()
        functions = [_command(step) for step in steps.all]
        told = [{"name": s.function.__name__, "schema": s.schema.json(), "bytes": len(f)} for s, f in zip(steps.all, functions)]
        vector = "double" if steps.join.nearest.field.type.value_type == pa.float64() else "float"
        about = {"groups": steps.groups, "vector": vector, "told": steps.told, "steps": told}
        return [Answer(protocol.Steps(about, b"".join(functions)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Nothing is read."""
        return iter(())

    def __getstate__(self) -> dict[str, Any]:
        return {}


def nearest_reader(snapshot: Snapshot, plan: ScanPlan, parameters: Mapping[str, Any], request: Request) -> NearestReader:
    """The reader of the steps of a join with the rows that `plan` and the request select; `parameters` are those of the search."""
    assert request.join is not None
    known, fields = plan.known(snapshot), of_json(request.schema or "")
    plan = only(request.apply(plan, known), shown(known), fields)
    check_ids(snapshot, plan)
    join = {**request.join, "parameters": parameters}
    return NearestReader(partial(steps_of, snapshot, plan, join, fields, request.parallelism or 1, conversion_to))


def steps_of(
    snapshot: Snapshot,
    plan: ScanPlan,
    asked: Mapping[str, Any],
    fields: StructType,
    cores: int,
    conversion_to: Callable[[StructType], Conversion],
) -> Steps:
    """The steps of a join with the rows that `plan` selects, whose columns are `fields` in Spark.

    `asked` has the `column` of vectors (its path), `k`, the `metric`, whether the search is `exact`, the columns of the `questions`
    (Spark's JSON), whether those without rows are `left`, and the `parameters` of a search that is not exact.
    """
    from lance_spark.table.join.plan import plan_join  # loads the decoders

    given = {"k": asked["k"], "metric": asked["metric"]} | ({"use_index": False} if asked["exact"] else asked["parameters"])
    nearest = nearest_for(snapshot, quoted(tuple(asked["column"])), given)
    join, told = plan_join(snapshot, nearest, plan.predicate, False, cores)
    questions = of_json(asked["questions"])
    return Steps(join, replace(plan, predicate=None), fields, questions, asked["left"], told, conversion_to)


def _command(step: Step) -> bytes:
    """What a task of Spark unpickles to run a step."""
    serializer: Any = CloudPickleSerializer  # which has no types
    return bytes(serializer().dumps((step.function, step.schema)))
