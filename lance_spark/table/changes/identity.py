"""SYNC IDENTITY: the next numbers of an identity column come after those that the table has."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidOptionError
from lance_spark.schema.schema import quoted
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.versions.identity_claims import begin_claims, put_claim
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.generated import Identity, generated_of


def sync_identity(snapshot: Snapshot, column: str) -> int:
    """Claim all numbers up to the last one in the column, and return the next one.

    Raises InvalidOptionError if the column is no identity.
    """
    identity = _identity(snapshot, column)
    begin_claims(identity.store, identity.column.id)
    place = 0
    for batch in _batches(snapshot, identity):
        values = pc.min_max(batch.column(0))
        last = values["max" if identity.step > 0 else "min"].as_py()
        place = place if last is None else max(place, identity.place_after(last))
    while (end := identity.end()) < place:
        with contextlib.suppress(FileExistsError):
            put_claim(identity.store, identity.column.id, end, place)
    return identity.start + identity.step * end


def _identity(snapshot: Snapshot, column: str) -> Identity:
    schema = snapshot.manifest.schema
    name = schema.resolve(column)[0].name
    found = generated_of(schema, snapshot.root, has_rows=False).identities
    for identity in found:
        if identity.column.name == name:
            return identity
    known = ", ".join(identity.column.name for identity in found) or "none"
    raise InvalidOptionError(f"{snapshot}: column {column!r} is no identity; the table has: {known}")


def _batches(snapshot: Snapshot, identity: Identity) -> Iterator[pa.RecordBatch]:
    plan = ScanPlan(columns=(quoted([identity.column.name]),))
    for task in plan_tasks(snapshot, plan):
        yield from task.read()
