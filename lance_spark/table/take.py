"""Single rows by their numbers, reading no more of the files than what holds them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.table.scan import BATCH_ROWS, ScanPlan, live_rows
from lance_spark.table.snapshot import Snapshot


def take(snapshot: Snapshot, indices: Sequence[int], plan: ScanPlan) -> pa.Table:
    """The rows with these numbers, counted over the rows of the table that are not deleted, in the order given, as often as given.

    Only the columns of `plan` matter. Raises IndexError for a number that no row has.
    """
    from lance_spark.table.fragment import FragmentReader  # loads the decoders, which opening a table does without

    numbers = np.asarray(indices, dtype=np.int64)
    wanted, back = np.unique(numbers, return_inverse=True)
    fields, locations, manifest = plan.fields(snapshot), snapshot.locations, snapshot.manifest
    ends = np.cumsum([live_rows(f, locations) for f in manifest.fragments], dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    if len(wanted) and not 0 <= wanted[0] <= wanted[-1] < total:
        raise IndexError(f"row {wanted[0] if wanted[0] < 0 else wanted[-1]} of {snapshot}, which has {total} rows")
    batches: list[pa.RecordBatch] = []
    bounds = np.searchsorted(wanted, np.concatenate([[0], ends]))
    for i in np.flatnonzero(np.diff(bounds)).tolist():
        fragment = manifest.fragments[i]
        positions = wanted[bounds[i] : bounds[i + 1]] - (ends[i - 1] if i else 0)
        reader = FragmentReader(fragment, locations, manifest.has_stable_row_ids)
        try:
            batches.extend(reader.read(positions, fields, BATCH_ROWS))
        except (CorruptFileError, UnsupportedFeatureError) as e:
            raise type(e)(f"{snapshot}: {e}") from e
    return pa.Table.from_batches(batches, schema=fields.to_arrow()).take(pa.array(back.reshape(-1)))
