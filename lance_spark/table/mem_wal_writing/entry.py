"""The bytes of an entry of the log.

Implements "WAL Entry Format" of the MemTable and WAL specification.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.schema.schema import Field, Schema
from lance_spark.storage.store import Store
from lance_spark.table.mem_wal.entries import FIELD_ID, TOMBSTONE
from lance_spark.table.versions.write_ahead_log import NUMBERS, Shard, numbers_in, positions


def entry_schema(table: Schema, keys: Sequence[str]) -> pa.Schema:
    """The columns of entries: those of the table, nullable but for those of the key, since tombstones have nulls."""
    fields = [_field(f, f.nullable or f.name not in keys) for f in table.fields]
    return pa.schema([*fields, pa.field(TOMBSTONE, pa.bool_(), nullable=False)])


def entry_bytes(
    batches: Sequence[pa.RecordBatch],
    schema: pa.Schema,
    epoch: int,
    generation: int,
    numbers: Mapping[str, int],
) -> bytes:
    """An entry with these rows, which have the columns of `schema`.

    `numbers` are those of the last batches of numbered writes, by their names: other writers do not know them.
    """
    noted = {"writer_epoch": str(epoch), "generation": str(generation)}
    return _stream(batches, schema, noted, {NUMBERS: json.dumps(dict(numbers))} if numbers else None)


def last_numbers(store: Store, shard: Shard, covered: int) -> dict[str, int]:
    """The numbers that the newest entry with any has noted; none if there is no such entry. For `covered` see `positions`."""
    for position in reversed(positions(store, shard, covered)):
        try:
            content = store.read(shard.entry(position))
        except FileNotFoundError:
            continue  # it was cleaned up
        text = numbers_in(bytes(content))
        if text is not None:
            return parsed_numbers(text, f"{store.uri}/{shard.entry(position)}")
    return {}


def parsed_numbers(text: bytes, where: str) -> dict[str, int]:
    """The numbers of writes. Raises CorruptFileError."""
    try:
        return {str(name): int(number) for name, number in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as e:
        raise CorruptFileError(f"{where}: the numbers of writes in this entry of the write-ahead log are invalid: {e}") from e


def _stream(
    batches: Sequence[pa.RecordBatch],
    schema: pa.Schema,
    noted: Mapping[str, str],
    of_first_batch: Mapping[str, str] | None = None,
) -> bytes:
    sink = pa.BufferOutputStream()
    own = schema.with_metadata(dict(noted))
    with pa.ipc.new_stream(sink, own) as out:
        for number, batch in enumerate(batches):
            rows = pa.RecordBatch.from_arrays(batch.columns, schema=own)
            out.write_batch(rows, custom_metadata=None if number else of_first_batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _field(field: Field, nullable: bool) -> pa.Field:
    own = field.to_arrow()
    return own.with_type(_with_ids(own.type, field)).with_nullable(nullable).with_metadata(_noted(own, field))


def _noted(own: pa.Field, field: Field) -> dict[bytes, bytes]:
    return {**(own.metadata or {}), FIELD_ID: str(field.id).encode()}


def _with_ids(t: pa.DataType, field: Field) -> pa.DataType:
    """The type of a field, whose struct fields have their ids."""
    if pa.types.is_struct(t) and len(field.children) == t.num_fields:
        fields = [_field(child, child.nullable) for child in field.children]
        return pa.struct(fields)
    return t
