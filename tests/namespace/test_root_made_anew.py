"""A namespace whose root is removed and made anew while a client changes it: no row of the old one comes into the new one."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from lance_spark.errors import LanceError
from lance_spark.namespace.manifest_table import ManifestTable, change
from lance_spark.storage.store import Store
from tests.table.interleaving import interrupted_everywhere


def add(root: Store, id: str) -> ManifestTable:
    """Add a namespace."""
    return change(root, lambda table: table.with_rows([{"object_id": id, "object_type": "namespace"}])).table


def ids(root: Path) -> set[str]:
    """The ids of all rows, as pylance reads them."""
    manifest = lance.dataset(root / "__manifest")
    manifest.validate()
    return set(manifest.to_table()["object_id"].to_pylist())


@pytest.mark.parametrize("versions", [1, 3, 5], ids=["fewer", "same", "more"])
def test_rows_of_a_removed_root_never_come_into_the_new_one(versions: int, tmp_path: Path) -> None:
    root, old, new = (tmp_path / name for name in ("root", "old", "new"))
    for place, count in ((old, 3), (new, versions)):
        for i in range(count):
            add(Store(place), f"{place.name}{i}")
    expected = {f"new{i}" for i in range(versions)}
    told = list[str]()

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(old, root)

    def anew() -> None:
        root.rename(tmp_path / uuid.uuid4().hex)
        shutil.copytree(new, root, dirs_exist_ok=True)

    def change_it(store: Callable[[str], Store]) -> None:
        try:
            add(store(str(root)), "mine")
        except LanceError as e:
            told.append(str(e))

    for at in interrupted_everywhere(change_it, prepare, anew):
        assert ids(root) - {"mine"} == expected, f"made anew before call {at}"
    assert told
    assert [text for text in told if "the table was dropped and made anew" not in text] == []
