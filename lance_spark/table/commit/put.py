"""The conditional put that makes a new version visible, and its outcome when the store's response is lost."""

from __future__ import annotations

import errno

from lance_spark.errors import CommitStateUnknownError, StorageError
from lance_spark.metadata.manifest import Manifest, serialise
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.manifest_store.external import external, put_manifest

_LOST_ANSWERS = 3
_REFUSALS = (errno.EACCES, errno.EPERM, errno.ENOENT)
"""Errors that prove that a remote store wrote nothing."""


def put(store: Store, manifest: Manifest, path: str, transaction: Transaction) -> bool:
    """Write the manifest at `path` if it does not exist. Returns False if another writer was first.

    On a local disk, the version survives a crash of the machine only after a sync of its folder, for which other writers need not wait: the
    sync of a later version is one of all before it.

    If a response is lost, the same put is repeated. Raises CommitStateUnknownError if the outcome stays unknown, and StorageError if
    certainly nothing was written.
    """
    data, certain = serialise(manifest), not store.is_remote
    lost: StorageError | None = None
    for _ in range(_LOST_ANSWERS):
        try:
            put_manifest(store, manifest.version, path, data, sync_name=False)
            return True
        except FileExistsError:
            # Clients of object stores retry internally, so the existing file may be our own.
            return not certain and _landed(store, path, data, transaction, lost or StorageError("the version exists"))
        except StorageError as e:
            if _landed(store, path, data, transaction, e):
                return True
            # A refusal proves nothing about an earlier request, which may still be in transit.
            if certain or (lost is None and e.errno in _REFUSALS):
                raise
            lost = e
    assert lost is not None
    raise _unknown(store, path, transaction, lost) from lost


def _landed(store: Store, path: str, data: bytes, transaction: Transaction, error: StorageError) -> bool:
    """True if a put of `data`, which failed with `error`, was written to `path` after all."""
    try:
        if (manifests := external(store)) is not None:
            manifests.latest()  # completes the commit if the database has it
        return store.read(path) == data
    except FileNotFoundError:
        return False
    except Exception as e:
        # Any other error would mean that the commit failed, and its files would be deleted.
        raise _unknown(store, path, transaction, error) from e


def _unknown(store: Store, path: str, transaction: Transaction, error: StorageError) -> CommitStateUnknownError:
    how = f"it succeeded if {path} contains the transaction {transaction.uuid}"
    return CommitStateUnknownError(f"{store.uri}: it is unknown whether the commit succeeded; {how}. The store's error: {error}")
