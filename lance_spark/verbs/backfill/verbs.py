"""The verbs of LanceTable about columns that a function computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lance_spark.errors import FunctionFailedError, SchemaMismatchError
from lance_spark.schema.schema import quoted
from lance_spark.spark.protocol import identified
from lance_spark.storage.location import absolute
from lance_spark.table.backfill.function import OnError
from lance_spark.table.backfill.rounds import Backfilled
from lance_spark.table.backfill.state import state_of
from lance_spark.verbs.backfill.run import Backfill, backfill
from lance_spark.verbs.target import Target, given


class BackfillVerbs:
    """Verbs that compute columns by functions, which can be stopped and go on."""

    _target: Target

    def backfill(
        self,
        column: str,
        function: Callable[..., Any],
        where: str | None = None,
        inputs: Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
        checkpoint: str | None = None,
        on_error: OnError = "fail",
        version: str | None = None,
        num_tasks: int | None = None,
        fragments_per_commit: int = 16,
        progress: bool | None = None,
        **noted: Any,
    ) -> Backfilled:
        """Compute a column by a function in all rows that lack a result of it: new rows, failed ones, and those with other inputs.

        `function` is described by `lance_spark.lance_udf`, or by the arguments `inputs`, `batch_size` and `version`; a column that does not
        exist needs the `data_type` of `lance_udf`. Only rows that satisfy `where` (SQL text) are computed.

        The call can be stopped at any time, and the next one goes on: fragments are committed as soon as `fragments_per_commit` of them
        are finished, and other results are kept in the table's folder `_backfill`, or in `checkpoint` (a path or URI). `num_tasks` is the
        number of Spark tasks. If the function raises an error, `on_error` decides: "fail" raises it, "null" sets the row to null, and
        "skip" leaves its value; see `backfillFailures`. Raises FunctionFailedError if the function failed.

        Examples:
            >>> from lance_spark import LanceTable, lance_udf
            >>> spark.range(3).write.format("lance").mode("append").save("/tmp/t.lance")
            >>> @lance_udf("bigint")
            ... def square(id):
            ...     return id * id
            >>> LanceTable.forPath(spark, "/tmp/t.lance").backfill("square", square).num_rows
            3
        """
        asked = Backfill(
            column, function, where, inputs, batch_size, checkpoint, on_error, version, num_tasks, fragments_per_commit, progress
        )
        try:
            done = backfill(self._target, asked, given(noted))
        except FunctionFailedError:
            self._target.refreshed(None, columns=True)  # the column and the other rows are there
            raise
        return self._target.refreshed(done, columns=True)

    def backfillFailures(self, column: str) -> DataFrame:
        """The rows whose computation failed in the last backfill of `column`: `_rowid`, `_rowaddr`, `version` and `message`."""
        snapshot = self._target.latest()
        state = state_of(snapshot.manifest.schema, snapshot.manifest.schema.resolve(column)[0])
        if state is None:
            raise SchemaMismatchError(f"{snapshot}: no function has computed the column {column!r}")
        options = {**identified(self._target.options, snapshot.identity), "version": str(snapshot.version)}
        options |= {"with_row_id": "true", "with_row_address": "true"}
        rows = self._target.spark.read.format("lance").options(**options).load(absolute(self._target.uri))
        error = F.col(quoted([state.name, "error"]))
        version = F.col(quoted([state.name, "version"])).alias("version")
        return rows.where(error.isNotNull()).select("_rowid", "_rowaddr", version, error.alias("message"))
