"""Registering base paths of an existing table. Implements "UpdateBases" of the transaction specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from lance_spark.errors import InvalidOptionError
from lance_spark.metadata.operations import UpdateBases
from lance_spark.metadata.transaction import Transaction
from lance_spark.table.commit.commit import commit
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.versions.snapshot import Snapshot, reopened
from lance_spark.table.write.bases import DatasetBasePath, given_bases, new_bases


def add_bases(snapshot: Snapshot, bases: Sequence[DatasetBasePath], noted: Mapping[str, str] = MappingProxyType({})) -> Snapshot:
    """Register base paths with the latest version, in one new version."""
    latest, given = reopened(snapshot), given_bases(bases)
    if not given:
        raise InvalidOptionError("give at least one base path")
    if done := done_before(latest.store, noted):
        return done
    added = new_bases(latest.root, given, latest.manifest.base_paths)
    transaction = Transaction(latest.version, UpdateBases(added), properties=dict(noted))
    return commit(latest.store, transaction, base=latest)
