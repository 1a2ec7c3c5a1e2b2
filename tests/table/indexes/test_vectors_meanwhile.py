"""Another client changes the table while a vector index is made or kept: afterwards the index is right, or it was refused."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import lance
import numpy as np
import pytest

from lance_spark import Dataset
from lance_spark.errors import LanceError
from lance_spark.table.compaction.compaction import CompactionOptions
from lance_spark.table.compaction.optimize import optimize
from lance_spark.table.indexes.create import NewIndex, create_index
from lance_spark.table.indexes.merge import MergeTask
from lance_spark.table.indexes.optimize import Optimization, optimize_indices
from lance_spark.table.indexes.segment import BuildTask
from lance_spark.table.scan.runner import Here
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions
from tests.sample import others_slow
from tests.table.search.vectors import table, vectors

ROWS = 180
GIVEN: dict[str, Any] = {"num_partitions": 2, "num_sub_vectors": 4, "num_bits": 4}
VALUES = vectors(rows=ROWS)
MORE = vectors(rows=40, seed=1)

BUILDS: dict[str, Callable[[Any, Snapshot], object]] = {
    "make": lambda runner, snapshot: create_index(runner, snapshot, NewIndex("vec", "IVF_PQ", "new", False, True, dict(GIVEN)), {}),
    "replace": lambda runner, snapshot: create_index(runner, snapshot, NewIndex("vec", "IVF_SQ", "old", True, True, {}), {}),
    "extend": lambda runner, snapshot: optimize_indices(runner, snapshot, Optimization(0), {}),
    "merge": lambda runner, snapshot: optimize_indices(runner, snapshot, Optimization(), {}),
    "retrain": lambda runner, snapshot: optimize_indices(runner, snapshot, Optimization(retrain=True), {}),
}
CHANGES: dict[str, Callable[[str, Any], object]] = {
    "delete": lambda uri, client: client.delete("id % 5 = 2"),
    "update of vectors": lambda uri, client: upserted(client),
    "update of others": lambda uri, client: client.update({"kind": "'new'"}, where="id % 7 = 3"),
    "append": lambda uri, client: written(uri, client, 500, "append"),
    "compact": lambda uri, client: client.optimize.compact_files(),
    "compact and defer": lambda uri, client: client.optimize.compact_files(defer_index_remap=True),
    "optimize": lambda uri, client: client.optimize.optimize_indices(),
    "make": lambda uri, client: client.create_index("vec", "IVF_FLAT", name="other", num_partitions=2),
    "drop index": lambda uri, client: client.drop_index("old"),
    "drop column": lambda uri, client: client.drop_columns(["vec"]),
    "rename column": lambda uri, client: client.alter_columns({"path": "vec", "name": "v"}),
    "overwrite": lambda uri, client: written(uri, client, 900, "overwrite"),
}


def written(uri: str, client: Any, first: int, mode: Any) -> None:
    if isinstance(client, Dataset):
        Dataset.write(uri, table(MORE, first=first), mode=mode)
    else:
        lance.write_dataset(table(MORE, first=first), uri, mode=mode)


def upserted(client: Any) -> None:
    client.merge_insert("id").when_matched_update_all().execute(table(MORE[:9], first=20))


@dataclass
class Meanwhile:
    """Runs tasks in this process, and the change before those of the stage `at`."""

    change: Callable[[], object]
    at: int
    cores: int = 2

    def run(self, tasks: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        if self.at == 0:
            self.change()
        self.at -= 1
        return Here().run(tasks, function)


@dataclass
class Twice:
    """Runs each task twice, as if an executor was lost after the first time; with `fails`, the last stage then fails."""

    fails: bool = False
    cores: int = 2

    def run(self, tasks: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        lost, found = (Here().run(tasks, function) for _ in range(2))
        if self.fails and lost and isinstance(tasks[0], MergeTask | BuildTask):
            raise LanceError("the cluster is gone")
        return found


@dataclass
class Damaging:
    """Cuts the new segments off before they are joined."""

    folder: Path
    cores: int = 2

    def run(self, tasks: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        for task in tasks:
            for segment in task.segments if isinstance(task, MergeTask) else ():
                file = self.folder / "_indices" / str(UUID(bytes=segment.uuid)) / "auxiliary.idx"
                file.write_bytes(file.read_bytes()[:100])
        return Here().run(tasks, function)


CASES = [
    (stable, build, change, writer)
    for stable in ("addresses", "stable")
    for build in BUILDS
    for change in CHANGES
    for writer in ("ours", "theirs")
    if (stable, change, writer) != ("stable", "compact and defer", "theirs")  # pylance refuses that
]
ALWAYS = [
    ("addresses", "make", "compact", "theirs"),
    ("addresses", "merge", "delete", "ours"),
    ("addresses", "retrain", "compact and defer", "ours"),
    ("stable", "make", "update of vectors", "theirs"),
    ("stable", "merge", "optimize", "theirs"),
    ("addresses", "replace", "drop column", "theirs"),
    *random.Random(0).sample(CASES, 4),
]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tables of four fragments; an index covers three of them."""
    found = {}
    for name in ("addresses", "stable"):
        path = tmp_path_factory.mktemp("meanwhile") / name
        Dataset.write(path, table(VALUES[:150]), max_rows_per_file=50, enable_stable_row_ids=name == "stable")
        Dataset.open(path).create_index("vec", "IVF_PQ", name="old", **GIVEN)
        Dataset.write(path, table(VALUES[150:], first=150), mode="append")
        found[name] = path
    return found


def check_whole(uri: str) -> None:
    """Both find the rows of a search without indexes; nothing is damaged; there are no files of segments that no version has."""
    ours, theirs = Dataset.open(uri), lance.dataset(uri)
    theirs.validate()
    assert ours.verify().problems == ()
    used = {str(UUID(bytes=i.uuid)) for v in ours.versions() for i in Dataset.open(uri, version=v.version).snapshot.manifest.indexes}
    assert {file.parent.name for file in Path(uri, "_indices").glob("*/*")} <= used
    name = next((f.name for f in ours.schema if f.name in ("vec", "v")), None)
    for q in VALUES[30:32] if name else ():
        near = {"column": name, "q": q, "k": 8, "nprobes": 4, "refine_factor": 40}
        exact = ours.scan(columns=["id"], nearest={**near, "use_index": False}).to_table()
        for found in (ours.scan(columns=["id"], nearest=near).to_table(), theirs.to_table(columns=["id"], nearest=near)):
            np.testing.assert_allclose(found["_distance"].to_numpy(), exact["_distance"].to_numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("kind", "build", "change", "writer"), others_slow(CASES, ALWAYS))
def test_a_build_beside_another_change_is_right_or_refused(
    bases: dict[str, Path], tmp_path: Path, kind: str, build: str, change: str, writer: str
) -> None:
    for at in range(3):
        uri = str(tmp_path / f"t{at}")
        shutil.copytree(bases[kind], uri)

        changed: list[int] = []

        def changing(uri: str = uri, changed: list[int] = changed) -> None:
            CHANGES[change](uri, Dataset.open(uri) if writer == "ours" else lance.dataset(uri))
            changed.append(Dataset.open(uri).version)

        try:
            BUILDS[build](Meanwhile(changing, at), Dataset.open(uri).snapshot)
        except LanceError:
            assert changed == [Dataset.open(uri).version]
        check_whole(uri)


@pytest.mark.parametrize("build", BUILDS)
def test_a_task_that_is_lost_runs_again_at_once(bases: dict[str, Path], tmp_path: Path, build: str) -> None:
    shutil.copytree(bases["stable"], tmp_path / "t")
    uri = str(tmp_path / "t")
    before = Dataset.open(uri)
    with pytest.raises(LanceError, match="the cluster is gone"):
        BUILDS[build](Twice(fails=True), before.snapshot)
    check_whole(uri)
    assert Dataset.open(uri).version == before.version
    BUILDS[build](Twice(), before.snapshot)
    Dataset.open(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    check_whole(uri)
    assert Dataset.open(uri).version == before.version + 1


def test_moved_rows_are_followed_though_a_task_is_lost(bases: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(bases["addresses"], tmp_path / "t")
    table = Dataset.open(tmp_path / "t")
    optimize(Twice(), table.snapshot, None, CompactionOptions(), WriteOptions())
    table = Dataset.open(tmp_path / "t")
    assert len(table.snapshot.manifest.fragments) == 2  # one of those that the index covers, and the others
    assert [i["fragment_ids"] for i in table.list_indices()] == [{table.snapshot.manifest.fragments[-1].id}]
    table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    check_whole(str(tmp_path / "t"))


def test_new_segments_that_cannot_be_joined_are_built_again(
    bases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for limit in ("MIN_SEGMENT_BYTES", "MAX_SEGMENT_BYTES"):
        monkeypatch.setattr(f"lance_spark.table.indexes.create.{limit}", 1)
    shutil.copytree(bases["addresses"], tmp_path / "t")
    optimize_indices(Damaging(tmp_path / "t"), Dataset.open(tmp_path / "t").snapshot, Optimization(retrain=True), {})
    assert "'old' is built again" in caplog.text
    assert Dataset.open(tmp_path / "t").index_statistics("old")["num_unindexed_rows"] == 0
    check_whole(str(tmp_path / "t"))
