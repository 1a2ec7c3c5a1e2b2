"""A writer that is suspended at any call while others commit and clean up: its rows are visible."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitStateUnknownError, StorageError
from lance_spark.storage.store import Store
from lance_spark.table.write import write
from tests.sample import by_turns
from tests.table.interleaving import interrupted_everywhere

pytestmark = pytest.mark.usefixtures("among_others")


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.mark.parametrize(("side", "turn"), by_turns(["ours", "pylance"], 2))
def test_rows_are_visible_after_a_cleanup_of_versions_unknown_to_the_writer(side: str, turn: int, tmp_path: Path) -> None:
    uri, template = str(tmp_path / "t"), str(tmp_path / "template")
    Dataset.write(template, rows(0))

    def prepare() -> None:
        shutil.rmtree(uri, ignore_errors=True)
        shutil.copytree(template, uri)

    def others() -> None:
        for value in (1, 2, 3):
            if side == "ours":
                Dataset.write(uri, rows(value), "append")
            else:
                lance.write_dataset(rows(value), uri, mode="append")
        if side == "ours":
            Dataset.open(uri).cleanup_old_versions(timedelta(0))
        else:
            lance.dataset(uri).cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)

    def append(store: Callable[[str], Store]) -> None:
        target = write.begin_write(uri, rows(9).schema, "append")
        write.commit_write(replace(target, store=store(uri)), write.write_fragments(target, rows(9).to_batches()))

    calls = []
    for call in interrupted_everywhere(append, prepare, others, turn + 1, 2):
        table = lance.dataset(uri)
        table.validate()
        assert sorted(table.to_table()["a"].to_pylist()) == [0, 1, 2, 3, 9]
        assert sorted(Dataset.open(uri).scan().to_table()["a"].to_pylist()) == [0, 1, 2, 3, 9]
        calls.append(call)
    assert len(calls) > 2


def test_a_version_in_a_gap_that_cannot_be_removed_leaves_the_state_unknown(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for value in (1, 2, 3):
        Dataset.write(uri, rows(value), "append" if value > 1 else "create")

    def others() -> None:
        Dataset.write(uri, rows(4), "append")
        Dataset.write(uri, rows(5), "append")
        Dataset.open(uri).cleanup_old_versions(timedelta(0))

    target = write.begin_write(uri, rows(9).schema, "append")
    store = KeepingStore(uri, others)
    with pytest.raises(CommitStateUnknownError, match=r"version 4, was written below later versions"):
        write.commit_write(replace(target, store=store), write.write_fragments(target, rows(9).to_batches()))
    assert sorted(Dataset.open(uri).scan().to_table()["a"].to_pylist()) == [1, 2, 3, 4, 5]


class KeepingStore(Store):
    """A store that calls `before` before the first put of a manifest, and never deletes manifests."""

    __slots__ = ("before",)

    def __init__(self, uri: str, before: Callable[[], None]) -> None:
        super().__init__(uri)
        self.before: Callable[[], None] | None = before

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        before, self.before = self.before, None
        if before is not None:
            before()
        super().put_if_absent(path, data, sync_name)

    def delete(self, path: str) -> bool:
        if path.startswith("_versions/"):
            raise StorageError("read-only")
        return super().delete(path)
