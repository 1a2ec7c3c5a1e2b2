"""The rules of a table, checked on rows that are stored: no nulls in columns that are not nullable, and no row that fails a CHECK.

A rule is declared only if all rows fulfil it. Values that were written before it was declared, and are committed after it, are checked in
the same way, as if they were stored already.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.row_address import RowAddress
from lance_spark.predicate import parse
from lance_spark.schema.schema import Field, quoted
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.constraints import constraints


def check_constraint(snapshot: Snapshot, name: str, text: str) -> None:
    """Raise SchemaMismatchError if a row of the snapshot fails the constraint."""
    if row := _first_row(snapshot, f"NOT ({text})"):
        what = f"{row} fails the constraint {name!r}, CHECK ({text})"
        raise SchemaMismatchError(f"{snapshot}: {what}; change or delete such rows first")


def check_no_nulls(snapshot: Snapshot, path: Sequence[Field]) -> None:
    """Raise SchemaMismatchError if the field at `path` is null in a row of the snapshot."""
    if any(f.logical_type != "struct" for f in path[:-1]):
        raise UnsupportedFeatureError(f"{snapshot}: items of lists cannot become non-nullable")
    if row := _first_row(snapshot, _is_null(path)):
        what = f"column {'.'.join(f.name for f in path)!r} has nulls, so it must be nullable"
        raise SchemaMismatchError(f"{snapshot}: {what}; {row} is null")


def check_rewritten(latest: Snapshot, fragments: Sequence[Fragment], written: Collection[int]) -> None:
    """Check new values of columns against the rules of `latest`, which may be later than the values.

    `fragments` are those of `latest` that have new values, with their new files; `written` are the ids of the columns in these. Raises
    SchemaMismatchError for a value that a rule does not permit.
    """
    manifest = latest.manifest
    columns = [field for field in manifest.schema.fields if field.id in written]
    rules = constraints(manifest.config, manifest.schema)
    concerned = rules.of({field.name for field in columns})
    required = [field for field in columns if not field.nullable]
    if not concerned and not required:
        return
    changed = replace(latest, manifest=replace(manifest, fragments=tuple(fragments), indexes=()))
    for name, condition in rules.conditions:
        if name in concerned and (row := _first_row(changed, f"NOT ({condition.text})")):
            what = f"the new value of {row} fails the constraint {name!r}, CHECK ({condition.text})"
            raise SchemaMismatchError(f"{latest}: {what}; change what is written, or DROP CONSTRAINT {name}")
    for field in required:
        if row := _first_row(changed, _is_null([field])):
            what = f"column {field.name!r} is not nullable, but the new value of {row} is null"
            raise SchemaMismatchError(f"{latest}: {what}; change what is written, or make the column nullable")


def _is_null(path: Sequence[Field]) -> str:
    return f"{quoted(f.name for f in path)} IS NULL"


def _first_row(snapshot: Snapshot, condition: str) -> str | None:
    """Where a row is that satisfies the condition; None if there is none."""
    plan = ScanPlan(columns=("_rowaddr",), predicate=parse(condition, snapshot.manifest.schema), limit=1)
    for task in plan_tasks(snapshot, plan):
        for batch in task.read():
            if batch.num_rows:
                address = RowAddress(batch.column(0)[0].as_py())
                return f"row {address.offset} of fragment {address.fragment_id}"
    return None
