"""Where the blobs of a data file are that are not in it."""

from __future__ import annotations

import re

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.storage.secrets import shown
from lance_spark.storage.store import Store

_SIDECAR = re.compile(r"[01]{32}\.blob")


def sidecar_path(path: str, blob_id: int) -> str:
    """The file that belongs to the data file at `path` and holds blobs."""
    # The id is in binary, least significant digit first, so that neighbours do not share a prefix.
    return f"{path.removesuffix('.lance')}/{f'{blob_id:032b}'[::-1]}.blob"


def is_sidecar_name(name: str) -> bool:
    """Whether a file can be one that `sidecar_path` names, by its own name."""
    return _SIDECAR.fullmatch(name) is not None


def external_store(store: Store, uri: str, allowed: bool) -> tuple[Store, str]:
    """The store, with the options of `store`, and the path in it of an object that a blob column names."""
    if not allowed:
        raise UnsupportedFeatureError(
            f"a blob is stored outside of the table, at {shown(uri)!r}; allow_other_stores=True reads it all the same"
        )
    folder, _, name = uri.rpartition("/")
    if not folder or not name:
        raise CorruptFileError(f"a blob at {shown(uri)!r}, which is no URI")
    return store.at(folder), name
