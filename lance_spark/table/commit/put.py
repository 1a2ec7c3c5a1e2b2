"""The one put that makes a new version visible, and what to make of it when the store's answer is lost."""

from __future__ import annotations

import errno

from lance_spark.errors import CommitStateUnknownError, StorageError
from lance_spark.metadata.manifest import Manifest, serialise
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.manifest_store.external import external, put_manifest

_LOST_ANSWERS = 3
_REFUSALS = (errno.EACCES, errno.EPERM, errno.ENOENT)
"""Answers that prove that a remote store did nothing."""


def put(store: Store, manifest: Manifest, path: str, transaction: Transaction) -> bool:
    """Whether the version at `path` is ours now; if not, it is another's.

    An answer that is lost is asked for again with the same manifest, so that the version is never left in doubt: raises
    CommitStateUnknownError if it cannot be known, and StorageError if it is certain that nothing was written.
    """
    data, certain = serialise(manifest), store.location.kind in ("file", "memory")
    lost: StorageError | None = None
    for _ in range(_LOST_ANSWERS):
        try:
            put_manifest(store, manifest.version, path, data)
            return True
        except FileExistsError:
            # Object stores' clients try again inside, and may have met our own file.
            return not certain and _landed(store, path, data, transaction, lost or StorageError("there is such a version"))
        except StorageError as e:
            if _landed(store, path, data, transaction, e):
                return True
            # A refusal says nothing of an earlier request, which may still be on its way.
            if certain or (lost is None and e.errno in _REFUSALS):
                raise
            lost = e
    assert lost is not None
    raise _unknown(store, path, transaction, lost) from lost


def _landed(store: Store, path: str, data: bytes, transaction: Transaction, error: StorageError) -> bool:
    """After a put of `data` that failed with `error`: whether it is what stands at `path`."""
    try:
        if (manifests := external(store)) is not None:
            manifests.latest()  # puts the manifest in place, if the database took it
        return store.read(path) == data
    except FileNotFoundError:
        return False
    except Exception as e:
        # Any other error would say that the commit failed, and its files would be deleted.
        raise _unknown(store, path, transaction, error) from e


def _unknown(store: Store, path: str, transaction: Transaction, error: StorageError) -> CommitStateUnknownError:
    told = f"it took place if {path} names the transaction {transaction.uuid}"
    return CommitStateUnknownError(f"{store.uri}: whether the commit took place is not known; {told}. The store said: {error}")
