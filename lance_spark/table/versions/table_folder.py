"""Deleting the folder of a table, if it has nothing else in it."""

from __future__ import annotations

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.storage.store import Store
from lance_spark.table.versions.clones import dropping
from lance_spark.table.versions.identity_claims import CLAIMS
from lance_spark.table.versions.tags_and_branches import TABLE_FOLDERS

_OTHER_FOLDERS = ("_refs", "tree", "_mem_wal", "_copied", CLAIMS)
_OTHER_FILES = (".lance-", "_latest")
"""Beginnings of files beside the folders of a table: marks of namespaces, and the latest manifest of tables before 0.2."""


def check_only_table(store: Store) -> None:
    """Raise UnsupportedFeatureError if the folder of a table has other contents, which would be deleted with it."""
    files, folders = store.contents("")
    other_files = {file.name for file in files if not file.name.startswith(_OTHER_FILES)}
    others = other_files | set(folders) - {*TABLE_FOLDERS, *_OTHER_FOLDERS}
    if others:
        what = f"the folder has other contents than those of a table, such as {min(others)!r}"
        raise UnsupportedFeatureError(f"{store.uri}: {what}; DROP TABLE would delete them: move them first")


def delete_table(store: Store) -> None:
    """Delete the folder of a table. Raises what `check_only_table` raises."""
    check_only_table(store)
    parent, _, name = store.uri.rstrip("/").rpartition("/")
    with dropping(store):
        store.at(parent).delete_folder(name)
