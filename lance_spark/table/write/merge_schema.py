"""Appending data with columns that the table lacks: rows and columns are added in one version.

Implements "Merge" of the transaction specification. Existing rows are null in the new columns; no file is written for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lance_spark.errors import CommitConflictError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.operations import Merge
from lance_spark.metadata.row_columns import check_new_names, check_not_reserved
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Field, Schema, from_arrow
from lance_spark.storage.store import Store
from lance_spark.table.build.old_writers import completed
from lance_spark.table.commit.commit import commit
from lance_spark.table.commit.retry import retried
from lance_spark.table.commit.same_table import check_continues
from lance_spark.table.versions.field_ids import next_field_id
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.write.constraints import Constraints


def widened(snapshot: Snapshot, data: pa.Schema, nested: bool = False) -> Schema:
    """The table's schema, followed by the columns of `data` that it lacks, as nullable columns; with `nested`, structs get fields too.

    Raises UnsupportedFeatureError for tables of storage version 0.1, where every column needs a file in every fragment.
    """
    current = snapshot.manifest
    known = {f.name.lower() for f in current.schema.fields}
    added = pa.schema([f.with_nullable(True) for f in data if f.name.lower() not in known])
    # The ids matter only if there are new fields.
    if not len(added) and _with_nested(current.schema.fields, data if nested else (), 0)[0] == current.schema.fields:
        return current.schema
    fields, next_id = _with_nested(current.schema.fields, data if nested else (), next_field_id(snapshot))
    if completed(current).data_format == "0.1":
        raise UnsupportedFeatureError(
            "tables of storage version 0.1 cannot get columns without values for existing rows; rewrite the table in a newer version"
        )
    names = [name.lower() for name in added.names]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SchemaMismatchError(f"the data has more than one column called {', '.join(map(repr, twice))}")
    new = from_arrow(added, next_id)
    check_not_reserved(new)
    all_fields = (*fields, *new.fields)
    check_new_names(all_fields, current.schema.fields)
    return replace(current.schema, fields=all_fields)


def _with_nested(fields: Sequence[Field], data: Iterable[pa.Field], next_id: int) -> tuple[tuple[Field, ...], int]:
    """The fields, whose structs have the fields of the structs in `data` too, as nullable fields; and the next free id."""
    given = {f.name.lower(): f.type for f in data}
    done = []
    for field in fields:
        t = given.get(field.name.lower())
        if t is not None and pa.types.is_struct(t) and field.logical_type == "struct" and not (field.is_packed or field.is_blob):
            children, next_id = _with_nested(field.children, t, next_id)
            known = {child.name.lower() for child in children}
            new = from_arrow(pa.schema([f.with_nullable(True) for f in t if f.name.lower() not in known]), next_id)
            next_id = max(next_id, new.max_field_id + 1)
            field = replace(field, children=(*children, *new.fields))
        done.append(field)
    return tuple(done), next_id


def commit_widened(
    store: Store,
    read_version: int,
    identity: str,
    schema: Schema,
    obeyed: Constraints,
    fragments: Sequence[Fragment],
    noted: Mapping[str, str],
) -> Snapshot:
    """Add `fragments`, whose files were written for `schema`, and the columns of `schema` that the table lacks.

    Raises CommitConflictError if the columns or constraints of the table have changed since the read version, which had this `identity`.
    """

    def plan(snapshot: Snapshot) -> Callable[[], Snapshot]:
        check_continues(snapshot, read_version, identity)
        obeyed.check_complete(snapshot.manifest.config, str(snapshot))
        now = snapshot.manifest.schema
        if not _goes_with(now, schema, next_field_id(snapshot)):
            raise CommitConflictError(
                f"{store.uri}: the columns of version {snapshot.version} differ from those of version {read_version}; run the write again",
                retryable=True,
            )
        # Others may have changed metadata of the columns.
        whole = replace(now, fields=(*now.fields, *schema.fields[len(now.fields) :]))
        transaction = Transaction(snapshot.version, merge_of(snapshot, whole, fragments), properties=noted)
        return lambda: commit(store, transaction, base=snapshot)

    return retried(open_snapshot(store), plan)


def merge_of(snapshot: Snapshot, schema: Schema, new: Sequence[Fragment], changed: Sequence[Fragment] = ()) -> Merge:
    """The operation that adds the fragments `new` and the columns of `schema` that the table lacks; `changed` replace fragments."""
    manifest = snapshot.manifest
    highest = int(manifest.lazy_fragments.ids.max(initial=-1))
    free = max(highest, -1 if manifest.max_fragment_id is None else manifest.max_fragment_id) + 1
    instead = {f.id: f for f in changed}
    kept = (instead.get(f.id, f) for f in manifest.fragments)
    added = (replace(f, id=free + i) for i, f in enumerate(new))
    return Merge((*kept, *added), schema, preserves_nullability=True)


def _goes_with(now: Schema, schema: Schema, free: int) -> bool:
    """Whether `schema` begins with the table's columns, and the ids of its other columns are unused."""
    count = len(now.fields)
    new = Schema(schema.fields[count:])
    if shape(now.fields) != shape(schema.fields[:count]):
        return False
    return all(f.id >= free for f in new.walk())


def shape(fields: Sequence[Field]) -> list[tuple[object, ...]]:
    """What two writers of a table must agree on: the id, name, type and nullability of each field, also below others."""
    return [(f.id, f.name, f.logical_type, f.nullable) for f in Schema(tuple(fields)).walk()]
