"""A trial of the conditional put, on which commits depend."""

from __future__ import annotations

import os
import uuid

from lance_spark.errors import TableNotFoundError, UnsupportedFeatureError
from lance_spark.storage.store import Store


def try_conditional_put(store: Store) -> None:
    """Write a temporary object in the store's folder, try to write it again, and remove it.

    Raises UnsupportedFeatureError if the second put replaces the first: commits could be lost. Raises
    TableNotFoundError if a local folder does not exist, and StorageError if the store refuses a request.
    """
    if store.location.kind == "file" and not os.path.isdir(store.location.path):
        raise TableNotFoundError(f"{store.uri}: there is no such folder, so no conditional put was tried in it")
    path = f"_doctor-{uuid.uuid4().hex}.tmp"
    store.put_if_absent(path, b"first")
    try:
        store.put_if_absent(path, b"second")
    except FileExistsError:
        return
    finally:
        store.delete(path)
    raise UnsupportedFeatureError(f"{store.uri}: this store ignores the condition of conditional puts, so commits could be lost")
