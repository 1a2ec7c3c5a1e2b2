"""The identity of a version: what distinguishes it from the version with the same number of another table at the same path.

A table may be dropped and made anew while a client has it open. A version is known by the name of its transaction file, which contains the
transaction's uuid, and which stands near the end of a manifest file. Manifests of the first writers have none: there, the time of the
commit and the names of data files are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import islice

from lance_spark.errors import MissingFileError
from lance_spark.metadata.manifest import Manifest, parse
from lance_spark.storage.store import Store

_END = 4096
"""The last bytes of a manifest file, which have the name of the transaction file, unless a long config follows it."""
_NAMED = 4
"""Fragments whose files tell tables apart: names of files are random."""


class Standing(Enum):
    """What is stored where a manifest was read: the same manifest, that of another table, or none."""

    SAME = "same"
    OTHER = "other"
    GONE = "gone"


def identity(manifest: Manifest) -> str:
    """The identity of a version; two versions of different tables never have the same."""
    if manifest.transaction_file:
        return manifest.transaction_file
    files = (file.path for fragment in islice(manifest.fragments, _NAMED) for file in fragment.files)
    return " ".join([str(manifest.timestamp), *files])


@dataclass(frozen=True)
class Pin:
    """A version that was opened, without its manifest, for tasks: `path` is that of the manifest file in `store`."""

    store: Store
    version: int
    path: str
    identity: str

    def __str__(self) -> str:
        return f"{self.store.uri}, version {self.version}"


def standing_at(store: Store, path: str, own: str) -> Standing:
    """Compare the manifest file at `path` with the identity of a manifest that was read there or written to it. Usually one small read."""
    try:
        # The identity of a manifest of the first writers is not in it as text.
        if own.encode() in bytes(store.read_end(path, _END)):
            return Standing.SAME
        same = identity(parse(store.read(path), f"{store.uri}/{path}")) == own
    except MissingFileError:
        return Standing.GONE
    return Standing.SAME if same else Standing.OTHER
