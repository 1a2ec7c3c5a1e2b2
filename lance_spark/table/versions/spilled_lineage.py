"""Row ids and versions of rows that a writer has put into files, since they are too large for the manifest.

They are serialised sequences in files of any form (ExternalFile of the table specification), or hidden columns of data files, which have a
value (uint64) for each row, no name, and field ids of their own. They are read when they are needed. A commit of ours leaves those in
files of any form there unless it changes rows; then, and of hidden columns always, its manifest has all sequences.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.metadata.fragment import ExternalFile, Fragment, SpilledColumn
from lance_spark.metadata.locations import Locations
from lance_spark.metadata.manifest import SPILLED_LINEAGE, Manifest
from lance_spark.metadata.operations import Merge, Operation, Update
from lance_spark.metadata.row_ids import load_sequence, serialise_row_ids, serialise_versions
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Field

_BATCH_ROWS = 1 << 19
_ROW_IDS = -3
"""The field of row ids; the others are versions."""

T = TypeVar("T")


def read_spilled(column: SpilledColumn, locations: Locations) -> bytes:
    """The column as a serialised sequence, which stays in memory. Raises CorruptFileError for what is no such column."""
    return locations.kept.get(("spilled", column), lambda: _read(column, locations), len)


def with_lineage(manifest: Manifest, locations: Locations) -> Manifest:
    """The manifest with all sequences inline. Raises CorruptFileError for what is no such column, and the store's errors."""
    if not manifest.reader_flags & SPILLED_LINEAGE and not _names_files(manifest):
        return manifest
    return replace(manifest, fragments=tuple(with_inline_lineage(f, locations) for f in manifest.fragments))


def _names_files(manifest: Manifest) -> bool:
    """True if sequences are in files of any form."""
    if not manifest.has_stable_row_ids:
        return False
    others = manifest.lazy_fragments.own_files()[1]
    return any(isinstance(s, ExternalFile) for f in others for s in (f.row_ids, f.created_at, f.updated_at))


def needs_lineage(operation: Operation, manifest: Manifest) -> bool:
    """True if a commit of the operation needs all sequences of the version before it inline: it changes versions of rows."""
    return bool(manifest.reader_flags & SPILLED_LINEAGE) or isinstance(operation, Update | Merge)


def transaction_with_lineage(transaction: Transaction, locations: Locations) -> Transaction:
    """The transaction with all sequences of its fragments inline."""
    return replace(transaction, operation=_inline(transaction.operation, locations))


def with_inline_lineage(fragment: Fragment, locations: Locations) -> Fragment:
    """The fragment with all sequences inline."""
    found = {
        name: load_sequence(sequence, locations)
        for name in ("row_ids", "created_at", "updated_at")
        if isinstance(sequence := getattr(fragment, name), SpilledColumn | ExternalFile)
    }
    return replace(fragment, **found) if found else fragment  # type: ignore[arg-type]


def _inline(value: T, locations: Locations) -> T:
    if isinstance(value, Fragment):
        return with_inline_lineage(value, locations)  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(_inline(item, locations) for item in value)  # type: ignore[return-value]
    if is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for field in fields(value):
            if not field.init:
                continue
            old = getattr(value, field.name)
            new = _inline(old, locations)
            if new is not old:
                changed[field.name] = new
        return replace(value, **changed) if changed else value
    return value


def _read(column: SpilledColumn, locations: Locations) -> bytes:
    from lance_spark.file.data_file import open_data_file  # loads the decoders, which opening most tables does not need

    store, path = locations.data_file(column.file)
    reader = open_data_file(store, path, column.file.size, verify_checksums=locations.verify_checksums)
    field = Field("rows", column.field_id, "uint64", nullable=False)
    places = dict(zip(column.file.fields, column.file.column_indices))
    parts = [arrays[0] for arrays in reader.read([field], places, range(reader.num_rows), _BATCH_ROWS)]
    values = pa.chunked_array(parts, pa.uint64())
    if len(values) != column.rows or values.null_count:
        what = f"{len(values)} values and {values.null_count} nulls for {column.rows} rows"
        raise CorruptFileError(f"{store.uri}/{path}: column {column.field_id} has {what}")
    numbers: np.ndarray = values.to_numpy()
    return serialise_row_ids(numbers) if column.field_id == _ROW_IDS else serialise_versions(numbers)
