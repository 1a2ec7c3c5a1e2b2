"""Names of manifests: from the V1 scheme, `7.manifest`, to the V2 scheme, in which the latest version comes first.

Implements "Manifest Naming Schemes" of the format document. Each manifest is written under its new name before the old one is removed, in
the order of the versions, so that an interrupted migration loses nothing and can be run again.
"""

from __future__ import annotations

from lance_spark.errors import CommitConflictError, TableNotFoundError, UnsupportedFeatureError
from lance_spark.storage.store import Store
from lance_spark.table.manifest_store.external import external
from lance_spark.table.versions.snapshot import VERSIONS, is_v2_path, manifest_path, version_of


def migrate_manifest_names(store: Store) -> None:
    """Rename the manifests of the V1 scheme. Nobody may write to the table meanwhile.

    Raises TableNotFoundError if there is no table, UnsupportedFeatureError for a table with an external manifest store, which has the
    names, too, and CommitConflictError for a version with two manifests that differ.
    """
    if external(store) is not None:
        raise UnsupportedFeatureError(f"{store.uri}: its manifest store has the names of manifests, so they cannot be changed")
    found = {version: name for name in store.names(VERSIONS) if (version := version_of(name)) is not None and not is_v2_path(name)}
    if not found and not any(version_of(name) is not None for name in store.names(VERSIONS)):
        raise TableNotFoundError(f"no Lance table found at {store.uri}")
    for version, name in sorted(found.items()):
        old, new = f"{VERSIONS}/{name}", manifest_path(version)
        content = store.read(old)
        try:
            store.put_if_absent(new, content)
        except FileExistsError:
            if store.read(new) != content:
                raise CommitConflictError(
                    f"{store.uri}: version {version} has two manifests that differ, {old} and {new}; remove the one that is wrong",
                    retryable=False,
                ) from None
        store.delete(old)
