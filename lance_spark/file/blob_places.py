"""The locations of blobs outside of their data file."""

from __future__ import annotations

import re

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.storage.secrets import shown
from lance_spark.storage.store import Store

_SIDECAR = re.compile(r"[01]{32}\.blob")


def sidecar_path(path: str, blob_id: int) -> str:
    """The path of a sidecar with blobs of the data file at `path`."""
    # The id is in binary, least significant digit first, so that adjacent ids do not share a prefix.
    return f"{path.removesuffix('.lance')}/{f'{blob_id:032b}'[::-1]}.blob"


def is_sidecar_name(name: str) -> bool:
    """True if a file name has the form of `sidecar_path`."""
    return _SIDECAR.fullmatch(name) is not None


def external_store(store: Store, uri: str, allowed: bool) -> tuple[Store, str]:
    """The store of an object that a blob column refers to, with the options of `store`, and the object's path in it."""
    if not allowed:
        raise UnsupportedFeatureError(
            f"a blob is stored outside of the table, at {shown(uri)!r}; if you trust the table, open it with allow_other_stores=True"
        )
    folder, _, name = uri.rpartition("/")
    if not folder or not name:
        raise CorruptFileError(f"expected a URI of a blob, found {shown(uri)!r}")
    return store.at(folder), name
