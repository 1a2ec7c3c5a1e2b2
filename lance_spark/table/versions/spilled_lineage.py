"""Row ids and versions of rows that a writer has put into hidden columns of data files, since they are too large for the manifest.

The columns have a value (uint64) for each row, no name, and the field ids of `SPILLED`. They are read when a version is opened that has
such columns, so that it is like any other; the next version of ours has the sequences in its manifest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.metadata.fragment import SPILLED, Fragment
from lance_spark.metadata.locations import Locations
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.row_ids import serialise_row_ids, serialise_versions
from lance_spark.schema.schema import Field

_BATCH_ROWS = 1 << 19


def with_lineage(manifest: Manifest, locations: Locations) -> Manifest:
    """The manifest with all sequences inline. Raises CorruptFileError for what is no such column, and the store's errors."""
    return replace(manifest, fragments=tuple(_with_lineage(f, locations) for f in manifest.fragments))


def _with_lineage(fragment: Fragment, locations: Locations) -> Fragment:
    inline = {}
    for name in fragment.spilled:
        values = _column(fragment, SPILLED[name][0], locations)
        inline[name] = serialise_row_ids(values) if name == "row_ids" else serialise_versions(values)
    return replace(fragment, **inline, spilled=()) if inline else fragment  # type: ignore[arg-type]


def _column(fragment: Fragment, field_id: int, locations: Locations) -> np.ndarray:
    from lance_spark.file.data_file import open_data_file  # loads the decoders, which opening most tables does not need

    files = [file for file in fragment.files if field_id in file.fields]
    if len(files) != 1:
        raise CorruptFileError(f"fragment {fragment.id} has {len(files)} columns {field_id} with ids or versions of its rows, expected 1")
    store, path = locations.data_file(files[0])
    reader = open_data_file(store, path, files[0].size, verify_checksums=locations.verify_checksums)
    places = dict(zip(files[0].fields, files[0].column_indices))
    field = Field("rows", field_id, "uint64", nullable=False)
    parts = [arrays[0] for arrays in reader.read([field], places, range(reader.num_rows), _BATCH_ROWS)]
    values = pa.chunked_array(parts, pa.uint64())
    if len(values) != fragment.physical_rows or values.null_count:
        what = f"{len(values)} values and {values.null_count} nulls for {fragment.physical_rows} rows"
        raise CorruptFileError(f"{store.uri}/{path}: column {field_id} has {what}")
    found: np.ndarray = values.to_numpy()
    return found
