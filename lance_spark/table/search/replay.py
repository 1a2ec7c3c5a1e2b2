"""A search that can be logged, and run again on its version with the same rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidOptionError, VersionNotFoundError
from lance_spark.table.versions.snapshot import Snapshot, open_pinned, opened_as

SEARCHES = ("nearest", "full_text_query", "hybrid")
"""The arguments of a scan that make it a search."""


@dataclass(frozen=True)
class SearchSnapshot:
    """What is needed to run a search again: the version of the table, its indexes, and the arguments of `Dataset.scan`.

    `identity` tells the version from one of another table at the same path. `digest` is one of the arguments: two searches for
    the same with the same parameters have the same one. `str` is JSON, which `of` reads.
    """

    uri: str
    version: int
    identity: str
    indexes: tuple[str, ...]
    arguments: Mapping[str, Any]
    digest: str

    def __str__(self) -> str:
        """JSON in one line."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> SearchSnapshot:
        """The snapshot that `str` has written. Raises InvalidOptionError for other text."""
        try:
            told = json.loads(text)
            found = cls(**{**told, "indexes": tuple(told["indexes"])})
        except (ValueError, TypeError, KeyError, RecursionError) as e:
            raise InvalidOptionError(f"a snapshot of a search is JSON that search_snapshot has made, not {text[:100]!r}") from e
        if not isinstance(found.arguments, dict) or found.digest != _digest(found.arguments):
            raise InvalidOptionError("the arguments of the snapshot of a search were changed: its digest is one of others")
        return found


def search_snapshot(snapshot: Snapshot, arguments: Mapping[str, Any]) -> SearchSnapshot:
    """The snapshot of a search of this version. Raises InvalidOptionError for arguments that cannot be logged."""
    if not any(arguments.get(name) is not None for name in SEARCHES):
        raise InvalidOptionError(f"a search has one of the arguments {', '.join(SEARCHES)}")
    if snapshot.log is not None:
        raise InvalidOptionError(
            f"{snapshot} has rows in its write-ahead log, which no version keeps: "
            "merge the log first, or open the table with mem_wal='base'"
        )
    given = {name: value for name, value in arguments.items() if value is not None}
    plain: dict[str, Any] = json.loads(json.dumps(given, default=_plain))
    indexes = tuple(sorted(str(UUID(bytes=index.uuid)) for index in snapshot.manifest.indexes))
    return SearchSnapshot(snapshot.store.uri, snapshot.version, snapshot.identity, indexes, plain, _digest(plain))


def version_searched(snapshot: Snapshot, search: SearchSnapshot) -> Snapshot:
    """The version that was searched; `snapshot` is any version of the table.

    Raises VersionNotFoundError if it was cleaned up or is one of another table, and CorruptFileError if it has other indexes.
    """
    try:
        found = open_pinned(snapshot.store, search.version, search.identity, snapshot.allow_other_stores)
    except VersionNotFoundError as e:
        raise VersionNotFoundError(f"the search cannot be run again: its version {search.version} was cleaned up or replaced: {e}") from e
    own = {str(UUID(bytes=index.uuid)) for index in found.manifest.indexes}
    if lost := sorted(set(search.indexes) ^ own):
        raise CorruptFileError(f"{found}: the search cannot be run again: the version has other indexes than then: {', '.join(lost)}")
    return opened_as(snapshot, found)


def _digest(arguments: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(arguments, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """What JSON has not, as a list or a number."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value.to_pylist()
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if isinstance(value, Sequence):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise InvalidOptionError(f"a {type(value).__name__} cannot be logged: give texts, numbers, lists and dictionaries")
