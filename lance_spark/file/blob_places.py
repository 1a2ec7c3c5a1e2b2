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
    """Whether a file name can be one from `sidecar_path`."""
    return _SIDECAR.fullmatch(name) is not None


def external_store(store: Store, uri: str, allowed: bool) -> tuple[Store, str]:
    """The store of an object that a blob column refers to, with the options of `store`, and the object's path in it."""
    if not allowed:
        raise UnsupportedFeatureError(f"a blob is stored outside of the table, at {shown(uri)!r}; set allow_other_stores=True to read it")
    folder, _, name = uri.rpartition("/")
    if not folder or not name:
        raise CorruptFileError(f"a blob at {shown(uri)!r}, which is not a URI")
    return store.at(folder), name
