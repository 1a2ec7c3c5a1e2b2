"""MERGE into a partitioned namespace: Spark joins it with the source, and the driver commits
once."""

from __future__ import annotations

from lance_spark.errors import AmbiguousMergeError, UnsupportedFeatureError
from lance_spark.namespace.partitioned.changes import begin_changes
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.namespace.partitioned.row_verbs import ambiguous, changed
from lance_spark.table.changes.delta import INSERTED
from lance_spark.table.changes.row_changes import RowChanges
from lance_spark.table.write.options import WriteOptions
from lance_spark.verbs.merge.clauses import Merge, key_columns, key_of
from lance_spark.verbs.merge.join import rows_of_join
from lance_spark.verbs.partitioned import written


def merge_partitioned(merge: Merge, version: PartitionedVersion, options: WriteOptions) -> RowChanges:
    """Run the merge.

    Raises AmbiguousMergeError, which names the row, if two rows of the source change the same row.
    """
    if merge.evolves:
        what = "a merge adds no columns to it; call PartitionedNamespace.add_columns"
        raise UnsupportedFeatureError(f"{version.root.uri} is a partitioned namespace: {what}")

    def plan(latest: PartitionedVersion) -> RowChanges:
        schema = latest.shape.manifest.schema
        joined = rows_of_join(merge, latest.shape, merge.target.rows(latest))
        inserts = any(clause.operation == INSERTED for clause in merge.clauses)
        delta = begin_changes(latest, joined.updated, options, inserts=inserts, repeats=merge.may_repeat_deletes)
        try:
            return written(merge.target, joined.rows, delta, options, has_keys=bool(key_of(merge, schema)))
        except AmbiguousMergeError as e:
            raise ambiguous(e, latest, key_columns(merge, schema)) from e

    return changed(version, options, plan)
