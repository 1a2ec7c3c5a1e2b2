"""The check after a Restore that a cleanup has not removed the restored version meanwhile, and the way back if it has."""

from __future__ import annotations

import time
from dataclasses import replace

from lance_spark.errors import TableNotFoundError, VersionNotFoundError, logged
from lance_spark.metadata.manifest import serialise
from lance_spark.metadata.operations import Restore
from lance_spark.metadata.transaction import Transaction
from lance_spark.metadata.transaction import serialise as serialise_transaction
from lance_spark.table.build.manifest_builder import TableSettings, build
from lance_spark.table.manifest_store.external import put_manifest, withdraw_manifest
from lance_spark.table.versions.hint import move_hint
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.identity import Standing
from lance_spark.table.versions.named_files import check_whole
from lance_spark.table.versions.snapshot import Snapshot, is_v2_path, manifest_path, open_snapshot, standing
from lance_spark.table.versions.spilled_lineage import with_lineage


def check_restored(restored: Snapshot, version: int) -> None:
    """Raise VersionNotFoundError if a cleanup removed `version` while it was restored as the new version `restored`.

    Such a cleanup may have removed files of the new version. Therefore the version before `restored` is committed again, and `restored` is
    removed.
    """
    store = restored.store
    reason: VersionNotFoundError | None = None
    with logged(f"{restored}: checking that all files of the restored version {version} exist"):
        try:
            check_whole(open_snapshot(store, version=version))
        except VersionNotFoundError as e:
            reason = e
        except TableNotFoundError:
            return  # dropped after the commit
    # If the table was dropped after the commit, nothing is to be corrected.
    if reason is not None and standing(restored) is Standing.SAME:
        raise VersionNotFoundError(f"{store.uri}: version {version} was removed while it was restored; {_go_back(restored)}") from reason


def _go_back(restored: Snapshot) -> str:
    """Commit the version before `restored` again. Returns a text about the outcome."""
    store, before = restored.store, restored.version - 1
    transaction = Transaction(restored.version, Restore(before))
    content = serialise_transaction(transaction)
    there = open_snapshot(store, version=before)
    source = with_lineage(there.manifest, there.locations)
    manifest = replace(build(restored.manifest, transaction, TableSettings(), time.time_ns(), source), transaction=content)
    store.put(f"{TRANSACTIONS}/{transaction.file_name}", content)
    path = manifest_path(manifest.version, is_v2_path(restored.path))
    try:
        put_manifest(store, manifest.version, path, serialise(manifest))
    except FileExistsError:  # pragma: no cover: another writer is faster in this very moment
        return f"version {restored.version}, which may lack files, is no longer the latest: restore version {before}"
    if standing(restored) is not Standing.SAME:  # pragma: no cover: dropped between the last check and this put
        withdraw_manifest(store, manifest.version, path)
        return "the table was dropped meanwhile"
    move_hint(store, manifest.version)
    store.delete(restored.path)
    return f"version {manifest.version} has the content of version {before}"
