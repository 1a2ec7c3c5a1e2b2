"""The version hint: the file `_versions/latest_version_hint.json`, which says from which version on the latest one is looked for.

Implements "Version Hint" of the table layout specification: a JSON object `{"version": N}`. pylance 14 keeps it where listings are in no
order: on local disks and in S3 Express buckets. To commit, it takes the hint, or the version that it holds if that is newer, and asks
for each following version until one is missing. If that one is missing because a cleanup removed it, the commit fills the gap,
and its rows are never seen: the latest version is another. So the hint moves forward with every commit, and a
cleanup leaves no gap above it. Our own readers list the versions instead.
"""

from __future__ import annotations

import contextlib
import json
import time

from lance_spark.errors import MissingFileError, logged
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import VERSIONS, list_versions, manifest_path

PATH = f"{VERSIONS}/latest_version_hint.json"
_MOST_BYTES = 4096
_TRIES = 10
_SHORT_S = 0.005


def is_kept_at(store: Store) -> bool:
    """Whether pylance keeps a hint at this kind of store."""
    return store.location.kind == "file" or (store.location.kind == "s3" and store.location.bucket.endswith("--x-s3"))


def read_hint(store: Store) -> int | None:
    """The version in the hint; None if there is no hint that pylance would heed."""
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
    """Move the hint forward to `version`, which was committed; never backwards. A failure is logged: the commit has taken place.

    There is no conditional replacing of files. So what was written is read again, and it is looked for later versions: a slower writer may
    have put an older hint in its place, or we may have done so to a faster one. It need not survive a crash of the machine:
    without a hint pylance lists the versions.
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
            # In so short a time no two versions were committed and the first of them removed.
            if time.monotonic() > begun + _SHORT_S or any(store.exists(manifest_path(version + 1, v2)) for v2 in (True, False)):
                version = max(list_versions(store))
