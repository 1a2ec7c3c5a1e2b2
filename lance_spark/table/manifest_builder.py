"""The next manifest of a table from its current one and a transaction. Pure: no I/O, no clock, no chance.

Implements the transaction types of the specification as pylance 14.0.2 does. `_BUILDERS` names the operations that can be built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from lance_spark._proto import rowids_pb2
from lance_spark.errors import TableNotFoundError, UnsupportedFeatureError
from lance_spark.table.manifest import (
    BASE_PATHS,
    DELETION_FILES,
    STABLE_ROW_IDS,
    TABLE_CONFIG,
    Manifest,
    WriterVersion,
)
from lance_spark.table.metadata import Fragment
from lance_spark.table.operations import Append, Overwrite
from lance_spark.table.transaction import Transaction

WRITER = WriterVersion("lance_spark", "0.1.0")


@dataclass(frozen=True)
class TableSettings:
    """What can be chosen when a table is made, and (`data_format` only) when it is overwritten; None keeps what the table has."""

    data_format: str | None = None
    stable_row_ids: bool = False


DEFAULT_FORMAT = "2.2"


def build(current: Manifest | None, transaction: Transaction, settings: TableSettings, timestamp: int) -> Manifest:
    """The manifest that `transaction` makes of `current` (None: there is no table yet), at `timestamp` in nanoseconds since 1970.

    The transaction must not conflict with what was committed since its read version (see `table.conflicts`). Raises
    UnsupportedFeatureError for an operation or a table that cannot be built upon.
    """
    operation = transaction.operation
    builder = _BUILDERS.get(type(operation))
    if builder is None:
        raise UnsupportedFeatureError(f"committing the operation {type(operation).__name__}")
    new = builder(current, operation, settings)
    new = replace(
        new,
        timestamp=timestamp,
        tag=transaction.tag,
        writer=WRITER,
        transaction_file=transaction.file_name,
        fragments=tuple(sorted(new.fragments, key=lambda f: f.id)),
    )
    reader, writer = feature_flags(new, stable_row_ids=bool(new.reader_flags & STABLE_ROW_IDS))
    return replace(new, reader_flags=reader, writer_flags=writer)


def check_counts(current: Manifest) -> None:
    """Raise UnsupportedFeatureError for a table whose row counts may be wrong, as those of the first writers are.

    Such writers did not name themselves in the manifest; our name in the next one would vouch for the numbers.
    """
    if current.writer is None and current.fragments:
        raise UnsupportedFeatureError(
            "the table was last written by a version of Lance whose row counts are not reliable; write to it with pylance first"
        )


def feature_flags(manifest: Manifest, *, stable_row_ids: bool) -> tuple[int, int]:
    """The reader and the writer feature flags that what is in the manifest calls for."""
    both = STABLE_ROW_IDS if stable_row_ids else 0
    if any(f.deletion is not None for f in manifest.fragments):
        both |= DELETION_FILES
    if manifest.base_paths:
        both |= BASE_PATHS
    return both, both | (TABLE_CONFIG if manifest.config else 0)


def _numbered(current: Manifest | None, fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
    """The fragments with the next free ids, which are never used again, not even by an overwrite."""
    first = 0 if current is None or current.max_fragment_id is None else current.max_fragment_id + 1
    return tuple(replace(f, id=first + i) for i, f in enumerate(fragments))


def _with_row_ids(fragments: tuple[Fragment, ...], next_row_id: int, version: int) -> tuple[tuple[Fragment, ...], int]:
    """The new fragments of a table with stable row ids, their rows made in `version`; and the next free row id."""
    done = []
    for fragment in fragments:
        rows = rowids_pb2.RowIdSequence()
        span = rows.segments.add().range
        span.start, span.end = next_row_id, next_row_id + fragment.physical_rows
        versions = rowids_pb2.RowDatasetVersionSequence()
        run = versions.runs.add()
        run.span.range.end, run.version = fragment.physical_rows, version
        lineage = versions.SerializeToString()
        done.append(replace(fragment, row_ids=rows.SerializeToString(), created_at=lineage, updated_at=lineage))
        next_row_id += fragment.physical_rows
    return tuple(done), next_row_id


def _with_new(base: Manifest, kept: tuple[Fragment, ...], new: tuple[Fragment, ...]) -> Manifest:
    """`base` with the fragments `kept` and `new`, the new ones numbered already."""
    next_row_id = base.next_row_id
    if base.has_stable_row_ids:
        new, next_row_id = _with_row_ids(new, next_row_id, base.version)
    highest = max((f.id for f in new), default=base.max_fragment_id)
    return replace(base, fragments=kept + new, max_fragment_id=highest, next_row_id=next_row_id)


def _append(current: Manifest | None, operation: Append, settings: TableSettings) -> Manifest:
    if current is None:
        raise TableNotFoundError("there is no table to append to")
    check_counts(current)
    return _with_new(replace(current, version=current.version + 1), current.fragments, _numbered(current, operation.fragments))


def _overwrite(current: Manifest | None, operation: Overwrite, settings: TableSettings) -> Manifest:
    new = _numbered(current, operation.fragments)
    if current is None:
        flags = STABLE_ROW_IDS if settings.stable_row_ids else 0
        base = Manifest(1, operation.schema, (), reader_flags=flags, writer_flags=flags, data_format=settings.data_format or DEFAULT_FORMAT)
        return replace(_with_new(base, (), new), config=dict(operation.config_upserts), base_paths=operation.initial_bases)
    base = replace(
        current,
        version=current.version + 1,
        schema=operation.schema,
        data_format=settings.data_format or current.data_format,
        config={**current.config, **operation.config_upserts},
        indexes=(),
        dictionaries=b"",
    )
    return _with_new(base, (), new)


# Operation -> how it changes a manifest.
_BUILDERS: dict[type, Callable[[Manifest | None, Any, TableSettings], Manifest]] = {
    Append: _append,
    Overwrite: _overwrite,
}
