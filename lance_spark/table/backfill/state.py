"""The state of a column that a function computes: a second column, which moves with the rows through every change of the table.

`<column>__backfill` is a struct of the function's version, the fingerprint of the row's inputs, and the message of its error. It is null in
rows that were never computed, its error is null in rows that have a result (null may be one), and other writers copy it like any column: a
row that was updated has the fingerprint of its old inputs. The metadata of the field names the id of the column, so that a new column of
the same name does not take over the state of a dropped one.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.metadata.row_columns import with_row_columns
from lance_spark.predicate import Predicate, parse
from lance_spark.schema.schema import Field, Schema, quoted
from lance_spark.table.changes import alter
from lance_spark.table.versions.snapshot import Snapshot, reopened

STATE_OF = b"lance-spark:backfill-of"
"""The key of the metadata of a state column: the id of the field that it is about."""
_SUFFIX = "__backfill"
_STATE = pa.struct({"version": pa.string(), "inputs": pa.int64(), "error": pa.string()})


@dataclass(frozen=True)
class Columns:
    """The column `value` that a function computes, its `state`, and the `inputs` of the function: the fields from the top level down."""

    value: Field
    state: Field
    inputs: tuple[tuple[Field, ...], ...]

    @property
    def written(self) -> Schema:
        """The schema of the files that have results."""
        return Schema((self.value, self.state))

    @property
    def ids(self) -> frozenset[int]:
        """The ids of the written fields."""
        return frozenset(f.id for f in self.written.walk())

    def are_in(self, schema: Schema) -> bool:
        """Whether a later schema has the written columns, with the same types. Other writers give out ids of dropped columns again."""
        by_id = {f.id: f for f in schema.fields}
        value, state = by_id.get(self.value.id), by_id.get(self.state.id)
        if value is None or value.type != self.value.type:
            return False
        return state is not None and state_of(schema, value) == state and state.type == self.state.type


def state_of(schema: Schema, value: Field) -> Field | None:
    """The state column of a column, None if no function has computed it."""
    mark = str(value.id).encode()
    return next((f for f in schema.fields if f.metadata.get(STATE_OF) == mark), None)


def with_columns(snapshot: Snapshot, name: str, new: pa.Field | None, inputs: tuple[str, ...]) -> tuple[Snapshot, Columns]:
    """The version with the column `name` and its state; what it lacks is added, null in all rows, in a commit each.

    `new` is the column if it does not exist. Raises SchemaMismatchError for unknown inputs, for a type other than that of the existing
    column, and if there is neither, and UnsupportedFeatureError for a column that cannot be computed.
    """
    read = _inputs(snapshot, name, inputs)
    value = _named(snapshot.manifest.schema, name)
    if value is None:
        if new is None:
            raise SchemaMismatchError(f"{snapshot}: there is no column {name!r}; give the function a data_type to add it")
        alter.add_null_columns(snapshot, pa.schema([new.with_name(name).with_nullable(True)]))
        snapshot = reopened(snapshot)
        value = _named(snapshot.manifest.schema, name)
        assert value is not None
    _check(snapshot, value)
    state = state_of(snapshot.manifest.schema, value)
    if state is None:
        snapshot = _with_state(snapshot, value)
        state = state_of(snapshot.manifest.schema, value)
        assert state is not None
    return snapshot, Columns(value, state, read)


def _named(schema: Schema, name: str) -> Field | None:
    return next((f for f in schema.fields if f.name.lower() == name.lower()), None)


def _inputs(snapshot: Snapshot, name: str, inputs: tuple[str, ...]) -> tuple[tuple[Field, ...], ...]:
    if not inputs:
        raise SchemaMismatchError("the function has no inputs; name the columns that it receives: inputs=['text']")
    found = tuple(snapshot.manifest.schema.resolve(path) for path in inputs)
    if any(path[0].name.lower() == name.lower() for path in found):
        raise SchemaMismatchError(f"the column {name!r} cannot be computed from itself")
    return found


def _check(snapshot: Snapshot, value: Field) -> None:
    manifest = snapshot.manifest
    if manifest.data_format == "0.1" or any(file.is_legacy for fragment in manifest.fragments for file in fragment.files):
        raise UnsupportedFeatureError(f"{snapshot}: a function cannot compute columns of storage version 0.1; write the table anew")
    if STATE_OF in value.metadata:
        raise SchemaMismatchError(f"{value.name!r} is the state of another column")


def _with_state(snapshot: Snapshot, value: Field) -> Snapshot:
    name = value.name + _SUFFIX
    old = _named(snapshot.manifest.schema, name)
    if old is not None and STATE_OF not in old.metadata:
        raise SchemaMismatchError(f"{snapshot}: the column {name!r} is needed for the state of {value.name!r}; rename it")
    if old is not None:  # of a column that was dropped
        alter.drop_columns(snapshot, [quoted([name])])
        snapshot = reopened(snapshot)
    alter.add_null_columns(snapshot, pa.schema([pa.field(name, _STATE, metadata={STATE_OF: str(value.id).encode()})]))
    return reopened(snapshot)


def pending(snapshot: Snapshot, columns: Columns, version: str, where: str | None) -> Predicate:
    """The rows that satisfy `where` and have no result of this version, provided that their inputs have not changed."""
    name = columns.state.name
    known, error = quoted([name, "version"]), quoted([name, "error"])
    lacks = f"{known} IS NULL OR {known} <> '{_escaped(version)}' OR {error} IS NOT NULL"
    return parse(lacks if where is None else f"({where}\n) AND ({lacks})", with_row_columns(snapshot.manifest.schema))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
