"""A handle that others have overtaken maintains the latest version, on the main branch and others, or says that it could not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, VersionNotFoundError
from lance_spark.table.compaction import optimize as module
from lance_spark.table.compaction.compaction import Compacted
from lance_spark.table.compaction.task import CompactionTask, compact

ROWS = pa.table({"id": range(40)})


@pytest.fixture(params=["table", "branch", "clone"])
def stale(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    """Four fragments with an index, in a handle from before others compacted them and added two, which the index does not cover."""
    table = Dataset.write(tmp_path / "t", ROWS, max_rows_per_file=10).create_scalar_index("id", "BTREE")
    if request.param == "branch":
        table = table.create_branch("b")
    elif request.param == "clone":
        table = table.shallow_clone(str(tmp_path / "c"))
    others = newest(table).optimize.compact_files()
    Dataset.write(others.uri, ROWS, "append", max_rows_per_file=20)
    return table


def newest(table: Dataset) -> Dataset:
    return Dataset.open(table.uri)


MAINTENANCE: dict[str, Callable[[Dataset], Dataset]] = {
    "compaction": lambda table: table.optimize.compact_files(),
    "deferred": lambda table: table.optimize.compact_files(defer_index_remap=True),
    "clustering": lambda table: table.optimize.cluster("id"),
    "indexes": lambda table: table.optimize.optimize_indices(),
    "retraining": lambda table: table.optimize.optimize_indices(retrain=True),
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", MAINTENANCE)
def test_maintenance_is_that_of_the_latest_version(stale: Dataset, name: str) -> None:
    before = newest(stale)
    assert len(before.snapshot.manifest.fragments) == 3
    done = MAINTENANCE[name](stale)
    assert done.version == newest(stale).version > before.version
    assert done.count_rows() == 80
    assert done.count_rows("id = 7") == 2
    assert done.verify().ok
    if name in ("indexes", "retraining", "clustering"):
        assert done.index_statistics("id_idx")["num_unindexed_rows"] == 0
    if name in ("compaction", "deferred", "clustering"):
        assert len(done.snapshot.manifest.fragments) < 3


def test_a_compaction_whose_fragments_others_change_meanwhile_says_so(stale: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def overtaken(task: CompactionTask) -> Compacted:
        newest(stale).delete("id = 5")
        return compact(task)

    monkeypatch.setattr(module, "compact", overtaken)
    with pytest.raises(CommitConflictError, match="other writers changed all 1 groups of fragments"):
        stale.optimize.compact_files()
    assert newest(stale).verify().orphans == ()


def test_a_cleanup_keeps_the_version_of_the_handle_and_later_ones(stale: Dataset) -> None:
    versions = [v.version for v in stale.versions()]
    stale.cleanup_old_versions(timedelta(0))
    assert [v.version for v in stale.versions()] == [version for version in versions if version >= stale.version]
    assert stale.count_rows("id = 7") == 1
    newest(stale).cleanup_old_versions(timedelta(0))
    assert [v.version for v in stale.versions()] == versions[-1:]


def test_maintenance_of_a_table_that_was_made_anew_is_refused(tmp_path: Path) -> None:
    table = Dataset.write(tmp_path / "t", ROWS, max_rows_per_file=10)
    shutil.rmtree(tmp_path / "t")
    Dataset.write(tmp_path / "t", ROWS, max_rows_per_file=10)
    for maintain in MAINTENANCE.values():
        with pytest.raises(VersionNotFoundError, match="made anew"):
            maintain(table)
