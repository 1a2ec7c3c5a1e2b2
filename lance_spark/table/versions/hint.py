"""The version hint: the file `_versions/latest_version_hint.json`, from which a search for the latest version starts.

Implements "Version Hint" of the table layout specification: a JSON object `{"version": N}`. pylance 14 maintains it where listings are
unordered: on local disks and in S3 Express buckets. To commit, pylance starts from the hint, or from its open version if that is newer,
and probes each following version until one is missing. If a cleanup has removed that version, the commit fills the gap, and its
rows are never visible, because a later version is the latest. Therefore every commit moves the hint forward, and a cleanup leaves no
gap above it. Our own readers list the versions instead.
"""

from __future__ import annotations

import contextlib
import json
import time

from lance_spark.errors import MissingFileError, TableNotFoundError, logged
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import VERSIONS, latest_version, manifest_path

PATH = f"{VERSIONS}/latest_version_hint.json"
_MOST_BYTES = 4096
"""The hint has about 30 bytes; whatever else is there is not read."""
_TRIES = 10
_SHORT_S = 0.005
"""No cleanup lists and removes a version in this time."""


def is_kept_at(store: Store) -> bool:
    """True if pylance maintains a hint in this kind of store."""
    return store.location.kind == "file" or (store.location.kind == "s3" and store.location.bucket.endswith("--x-s3"))


def read_hint(store: Store) -> int | None:
    """The version in the hint; None if there is no hint or pylance would ignore it."""
    if not is_kept_at(store):
        return None
    try:
        data, size = store.read_tail(PATH, _MOST_BYTES)
    except MissingFileError:
        return None
    with contextlib.suppress(ValueError, RecursionError):
        content = json.loads(bytes(data)) if size <= _MOST_BYTES else None
        version = content.get("version") if isinstance(content, dict) else None
        return version if type(version) is int and version >= 0 else None
    return None


def move_hint(store: Store, version: int) -> None:
    """Move the hint forward, never backwards, to the committed `version`. A failure is only logged, since the commit has succeeded.

    Stores cannot replace a file conditionally, so a slower writer may overwrite a newer hint with an older one. Therefore the hint is
    read again after the write, and later versions are looked for. The hint need not survive a crash: without it, pylance lists the
    versions.
    """
    if not is_kept_at(store):
        return
    with logged(f"{store.uri}: moving the version hint to {version}"):
        for _ in range(_TRIES):
            begun = time.monotonic()
            found = read_hint(store)
            if found is not None and found >= version:
                return
            store.put(PATH, json.dumps({"version": version}, separators=(",", ":")).encode(), durable=False)
            if not any(store.exists(manifest_path(version, v2)) for v2 in (True, False)) and not _has_versions(store):
                # The table was dropped after the commit, and its folder must not be listed as a table.
                store.delete(PATH)
                store.remove_empty_folders()
                return
            # If the write was this quick, no version was both committed and removed meanwhile, so checking the next one is enough.
            if time.monotonic() > begun + _SHORT_S or any(store.exists(manifest_path(version + 1, v2)) for v2 in (True, False)):
                version, _ = latest_version(store)


def _has_versions(store: Store) -> bool:
    try:
        latest_version(store)
    except TableNotFoundError:
        return False
    return True
