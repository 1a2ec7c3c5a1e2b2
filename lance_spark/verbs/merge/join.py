"""MERGE by a join of Spark: for sources that do not fit into memory, and for what our own formulas cannot evaluate.

Only the columns that the condition and the clauses use pass through Spark, and only the rows that may match if they can be found before
(see `matching`). The writers read the other columns of updated rows from the table, so rows are partitioned by fragment and sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lance_spark.errors import AmbiguousMergeError, SchemaMismatchError
from lance_spark.schema.schema import Field, Schema, quoted
from lance_spark.spark.columns.types import inferred
from lance_spark.table.changes.delta import DELETED, INSERTED, OPERATION, ROW_ADDRESS, UPDATED, DeltaPart, DeltaTarget, Intent
from lance_spark.table.changes.merge.rows import When, ambiguous_row
from lance_spark.table.changes.row_changes import DeltaPlan, RowPlan
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.defaults import default_of, is_required
from lance_spark.table.write.merge_schema import widened
from lance_spark.verbs.assignment import assignments, checked, without_alias
from lance_spark.verbs.condition import as_column, check_deterministic
from lance_spark.verbs.job import in_zone, write_delta
from lance_spark.verbs.merge.clauses import Clause, Merge, key_columns, key_of
from lance_spark.verbs.merge.matching import matching_rows, used_columns
from lance_spark.verbs.nested_values import completed

_CLAUSE, _IN_TARGET, _IN_SOURCE, _GROUP = "__lance_clause", "__lance_in_target", "__lance_in_source", "__lance_group"
_INSERT_GROUPS = 64
"""Parts into which inserted rows are divided, for as many writers."""


def plan_join(merge: Merge, stack: ExitStack, snapshot: Snapshot) -> RowPlan:
    """The plan for a version. What it needs until it has run is released by `stack`."""
    matching = _matching_rows(merge, stack, snapshot)
    if matching is not None:
        # If the condition or a clause is not valid, the error is that for the whole table.
        with suppress(AnalysisException):
            return _plan_for(merge, snapshot, matching)
    return _plan_for(merge, snapshot, merge.target.rows(snapshot))


def _matching_rows(merge: Merge, stack: ExitStack, snapshot: Snapshot) -> DataFrame | None:
    """The rows of the table that may match, with the columns that the merge uses; None if they are not worth to be found."""
    if any(c.when == "not matched by source" for c in merge.clauses):
        return None
    updates = [c for c in merge.clauses if c.operation == UPDATED]
    texts = [merge.on]
    for clause in merge.clauses:
        values = clause.values or {}
        texts += [text for text in (clause.condition, *values, *values.values()) if text is not None]
    # A column that only some of the updates assign keeps its value in the others.
    everything = len(updates) > 1 and any(c.values is None for c in updates)
    names = snapshot.manifest.schema.names if everything else used_columns(snapshot.manifest.schema, texts)
    return None if names is None else matching_rows(merge.target, merge.source, merge.on, snapshot, names, stack)


def _plan_for(merge: Merge, snapshot: Snapshot, target: DataFrame) -> RowPlan:
    """The plan for these rows of the table."""
    old, delta_rows = snapshot.manifest.schema, rows_of_join(merge, snapshot, target)
    schema, updated = delta_rows.schema, delta_rows.updated

    def parts(delta: DeltaTarget) -> list[DeltaPart]:
        try:
            return write_delta(delta_rows.rows, in_zone(merge.target.spark, delta))
        except AmbiguousMergeError as e:
            raise ambiguous_row(e.address, snapshot, key_columns(merge, snapshot.manifest.schema)) from e

    plan = DeltaPlan(
        snapshot,
        parts,
        Intent(schema=schema if schema != old else None),
        assigned=updated,
        key=key_of(merge, schema),
        repeats=merge.may_repeat_deletes,
    )
    return RowPlan(plan.write)


@dataclass(frozen=True)
class JoinedRows:
    """The delta rows of a merge, in the order in which they are written. `schema` is the table's after it, `updated` are assigned."""

    rows: DataFrame
    schema: Schema
    updated: tuple[str, ...]


def rows_of_join(merge: Merge, snapshot: Snapshot, target: DataFrame) -> JoinedRows:
    """The delta rows for these rows of the table, which has the columns of `snapshot`."""
    old, schema = snapshot.manifest.schema, _schema(merge, snapshot)
    added = {f.name for f in schema.fields[len(old.fields) :]}
    joined = _joined(merge, target)
    applied = joined.withColumn(_CLAUSE, _applied(merge.clauses)).where(F.col(_CLAUSE).isNotNull())
    values = _with_nested([_values(clause, applied, schema, merge) for clause in merge.clauses], applied, old, merge)
    # Columns that the table lacks have no old values to be kept.
    updated = _names(values, merge.clauses, UPDATED) | added
    inserted = _names(values, merge.clauses, INSERTED)
    _fill_in(values, merge.clauses, [f for f in old.fields if f.name in updated | inserted])
    names = [f.name for f in schema.fields if f.name in updated | inserted]
    operation = _by_clause(merge.clauses, [F.lit(c.operation) for c in merge.clauses])
    address = F.col(merge.target.address).alias(ROW_ADDRESS)
    columns = [_column(name, values, updated - added, merge).alias(name) for name in names]
    group = _insert_group(merge.source).alias(_GROUP)
    rows = applied.select(operation.alias(OPERATION), address, *columns, group)
    # Writers read the other columns of updated rows by fragment and in order.
    ordered = rows.repartition(F.coalesce(F.shiftright(ROW_ADDRESS, 32), _GROUP)).drop(_GROUP).sortWithinPartitions(ROW_ADDRESS)
    return JoinedRows(ordered, schema, tuple(sorted(updated)))


def _schema(merge: Merge, snapshot: Snapshot) -> Schema:
    """The table's schema after the merge."""
    manifest = snapshot.manifest
    if not merge.evolves:
        return manifest.schema
    names = {name.lower(): name for name in merge.source.columns}
    wanted: dict[str, None] = {}
    for clause in merge.clauses:
        if clause.operation != DELETED:
            given = names if clause.values is None else [without_alias(n, manifest.schema, merge.target.alias) for n in clause.values]
            wanted |= dict.fromkeys(name.lower().strip("`") for name in given)
    new = [names[name] for name in wanted if name in names]
    chosen = merge.source.select(*(merge.source[quoted([name])] for name in new))
    return widened(snapshot, inferred(chosen.schema), nested=True)


def _insert_group(source: DataFrame) -> Column:
    """A negative number for each row of the source, so that inserted rows spread over the writers; the same number each time."""
    # Spark hashes no maps.
    plain = [source[quoted([f.name])] for f in source.schema.fields if "map<" not in f.dataType.simpleString()]
    return -1 - F.pmod(F.xxhash64(*(plain or [F.lit(0)])), F.lit(_INSERT_GROUPS))


def _joined(merge: Merge, target: DataFrame) -> DataFrame:
    target = target.withColumn(_IN_TARGET, F.lit(True))
    source = merge.source.withColumn(_IN_SOURCE, F.lit(True))
    check_deterministic(target.crossJoin(source), [merge.on, *(c.condition for c in merge.clauses)])
    kinds = {c.when for c in merge.clauses}
    how = {
        (False, False): "inner",
        (True, False): "right",
        (False, True): "left",
        (True, True): "full",
    }["not matched" in kinds, "not matched by source" in kinds]
    return target.join(source, as_column(merge.on), how)


def _is(when: When) -> Column:
    in_target, in_source = F.col(_IN_TARGET).isNotNull(), F.col(_IN_SOURCE).isNotNull()
    cases = {"matched": in_target & in_source, "not matched": ~in_target, "not matched by source": ~in_source}
    return cases[when]


def _applied(clauses: Sequence[Clause]) -> Column:
    """The index of the first clause that applies to a row; null if none does."""
    result: Column | None = None
    for i, clause in enumerate(clauses):
        when = _is(clause.when) if clause.condition is None else _is(clause.when) & as_column(clause.condition)
        result = F.when(when, i) if result is None else result.when(when, i)
    assert result is not None
    return result


def _by_clause(clauses: Sequence[Clause], values: Sequence[Column | None]) -> Column:
    """The value of a row according to the clause that applies to it; null if that clause has none."""
    (first, value), *rest = [(i, value) for i, value in enumerate(values) if value is not None]
    chosen = F.when(F.col(_CLAUSE) == first, value)
    for number, value in rest:
        chosen = chosen.when(F.col(_CLAUSE) == number, value)
    return chosen


def _values(clause: Clause, joined: DataFrame, schema: Schema, merge: Merge) -> dict[str, Column]:
    """The values that a clause assigns, by exact column name."""
    if clause.operation == DELETED:
        return {}
    if clause.values is None:
        return checked(joined, schema, _all_of_source(clause, schema, merge))
    if clause.operation == UPDATED:
        return assignments(joined, schema, clause.values, merge.target.alias)
    names = {name: schema.resolve(without_alias(name, schema, merge.target.alias)) for name in clause.values}
    if nested := [name for name, path in names.items() if len(path) > 1]:
        raise SchemaMismatchError(f"an insert cannot assign nested fields ({', '.join(nested)}); assign whole columns")
    given = {names[name][0].name: as_column(value) for name, value in clause.values.items()}
    if len(given) < len(names):
        raise SchemaMismatchError("an insert assigns a column twice")
    _check_required(schema, given)
    return checked(joined, schema, given)


def _with_nested(values: list[dict[str, Column]], joined: DataFrame, table: Schema, merge: Merge) -> list[dict[str, Column]]:
    """The values, with those of the table in nested fields that they lack, if a clause updates the column."""
    updated = _names(values, merge.clauses, UPDATED)
    for f in table.fields:
        if not f.children or f.name not in updated:
            continue
        own = _own(f.name, merge)
        for given in values:
            if f.name in given:
                new, known = (t.dataType for t in joined.select(given[f.name].alias("new"), own.alias("old")).schema)
                given[f.name] = completed(given[f.name], new, own, known, f.name)
    return values


def _fill_in(values: Sequence[dict[str, Column]], clauses: Sequence[Clause], columns: Sequence[Field]) -> None:
    """Give inserted rows the defaults of columns that only other clauses assign. The writers know those of columns that none assigns."""
    defaults = [default for f in columns if (default := default_of(f)) is not None]
    for given, clause in zip(values, clauses, strict=True):
        for default in defaults if clause.operation == INSERTED else ():
            given.setdefault(default.field.name, F.expr(default.text))


def _check_required(schema: Schema, given: Mapping[str, Column]) -> None:
    if missing := [f.name for f in schema.fields if is_required(f) and f.name not in given]:
        raise SchemaMismatchError(f"an insert must assign the columns that are not nullable: {', '.join(missing)}")


def _all_of_source(clause: Clause, schema: Schema, merge: Merge) -> dict[str, Column]:
    source = merge.source
    names = {name.lower(): name for name in source.columns}
    found = {}
    for f in schema.fields:
        if f.name.lower() in names:
            found[f.name] = source[quoted([names[f.name.lower()]])]
    missing = [f.name for f in schema.fields if f.name not in found]
    if missing and not merge.evolves:
        verb = "update" if clause.operation == UPDATED else "insert"
        raise SchemaMismatchError(
            f"{verb} all needs columns that the source lacks: {', '.join(missing)}; it has: {', '.join(source.columns)}"
        )
    if clause.operation == INSERTED:
        _check_required(schema, found)
    return found


def _names(values: Sequence[Mapping[str, Column]], clauses: Sequence[Clause], operation: int) -> set[str]:
    return {name for given, clause in zip(values, clauses) if clause.operation == operation for name in given}


def _column(name: str, values: Sequence[Mapping[str, Column]], kept: set[str], merge: Merge) -> Column:
    """A column of the delta rows. Updated rows keep their value if it is one of `kept` and only another clause assigns it."""
    own = _own(name, merge)
    keeps = [c.operation == UPDATED and name in kept for c in merge.clauses]
    return _by_clause(merge.clauses, [given.get(name, own if keep else None) for given, keep in zip(values, keeps)])


def _own(name: str, merge: Merge) -> Column:
    """A column of the table."""
    return F.col(quoted([merge.target.alias, name] if merge.target.alias else [name]))
