"""How far each index has caught up with the log, as every commit notes it: by both libraries the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

from lance_spark import Dataset
from lance_spark._proto import table_pb2 as pb
from lance_spark.table.build.index_coverage import MEM_WAL
from tests import write_ahead_logs as logs

Change = Callable[[str], Any]
CHANGES: dict[str, tuple[Change, Change]] = {
    "append": (lambda uri: Dataset.write(uri, logs.rows(20), "append"), lambda uri: lance.write_dataset(logs.rows(20), uri, mode="append")),
    "delete": (lambda uri: Dataset.open(uri).delete("id = 1"), lambda uri: lance.dataset(uri).delete("id = 1")),
    "update": (
        lambda uri: Dataset.open(uri).update({"v": "'x'"}, "id = 2"),
        lambda uri: lance.dataset(uri).update({"v": "'x'"}, "id = 2"),
    ),
    "config": (lambda uri: Dataset.open(uri).update_config({"a": "b"}), lambda uri: lance.dataset(uri).update_config({"a": "b"})),
    "optimize": (lambda uri: Dataset.open(uri).optimize.optimize_indices(), lambda uri: lance.dataset(uri).optimize.optimize_indices()),
    "another index": (
        lambda uri: Dataset.open(uri).create_scalar_index("v", "BTREE"),
        lambda uri: lance.dataset(uri).create_scalar_index("v", "BTREE"),
    ),
    "the index anew": (
        lambda uri: Dataset.open(uri).create_scalar_index("w", "BTREE"),
        lambda uri: lance.dataset(uri).create_scalar_index("w", "BTREE"),
    ),
    "no index": (lambda uri: Dataset.open(uri).drop_index("w_idx"), lambda uri: lance.dataset(uri).drop_index("w_idx")),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with an index that has caught up with generation 1; generation 2 was merged after that."""
    uri = str(tmp_path_factory.mktemp("catchup") / "t.lance")
    lance.write_dataset(logs.rows(1, 2), uri).create_scalar_index("w", "BTREE")
    lance.dataset(uri).initialize_mem_wal()
    shard = logs.flushed(uri, 3, 4)
    logs.merge(uri, shard, 1)
    lance.dataset(uri).optimize.optimize_indices()
    logs.flushed(uri, 5, shard=shard)
    logs.merge(uri, shard, 2)
    return uri


def catchup(uri: str) -> dict[str, list[int]]:
    [entry] = [index for index in Dataset.open(uri).snapshot.manifest.indexes if index.name == MEM_WAL]
    found = pb.MemWalIndexDetails.FromString(entry.details).index_catchup
    return {progress.index_name: [table.generation for table in progress.caught_up_generations] for progress in found}


@pytest.mark.parametrize("second", ["append", "optimize", "no index", "the index anew"])
@pytest.mark.parametrize("first", CHANGES)
def test_a_commit_notes_what_pylance_notes(first: str, second: str, template: str, tmp_path: Path) -> None:
    assert catchup(template) == {"w_idx": [1]}
    found = []
    for number in (0, 1):
        uri = str(tmp_path / f"{number}")
        shutil.copytree(template, uri)
        CHANGES[first][number](uri)
        one = catchup(uri)
        if (first, second) != ("no index", "no index"):
            CHANGES[second][number](uri)
        found.append((one, catchup(uri)))
    assert found[0] == found[1]


def test_a_merge_keeps_what_was_known_before_it(template: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    shutil.copytree(template, uri)
    Dataset.open(uri).optimize.optimize_indices()
    assert catchup(uri) == {"w_idx": [2]}
    [shard] = [folder.name for folder in Path(uri, "_mem_wal").iterdir()]
    logs.flushed(uri, 6, shard=shard)
    Dataset.open(uri).merge_mem_wal()
    assert catchup(uri) == {"w_idx": [2]}, "the rows of generation 3 are in no index yet"
    Dataset.open(uri).optimize.optimize_indices()
    assert catchup(uri) == {"w_idx": [3]}
    branch = Dataset.open(uri).create_branch("b")
    assert catchup(branch.uri) == {}
