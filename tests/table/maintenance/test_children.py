"""Every verb on a branch or a clone, also of another one: each file that the manifest names is found, and indexes answer as a scan."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark import Dataset
from lance_spark.metadata.manifest import Manifest
from lance_spark.storage.store import Store
from lance_spark.table.backfill.commit import Commits
from lance_spark.table.backfill.function import LanceFunction
from lance_spark.table.backfill.plan import Request, make_job, plan_shares
from lance_spark.table.backfill.state import with_columns
from lance_spark.table.backfill.work import run_share
from lance_spark.table.versions.snapshot import open_snapshot
from lance_spark.table.write.options import NO_OPTIONS
from tests import write_ahead_logs as logs

WORDS = ["alpha", "beta", "gamma", "foo alpha"]
STOP_WORDS: dict[str, Any] = {"custom_stop_words": ["foo"]}
VECTORS = np.random.default_rng(3).random((200, 4), dtype=np.float32)


def some(*ids: int) -> pa.Table:
    """One row for each id."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "x": pa.array([i // 2 for i in ids], pa.int64()),
            "note": [WORDS[i % len(WORDS)] for i in ids],
            "vec": pa.array([VECTORS[i].tolist() for i in ids], pa.list_(pa.float32(), 4)),
        }
    )


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable ids"])
def parent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Four fragments, one of them with a deleted row and one that no index covers."""
    uri = tmp_path_factory.mktemp("parent") / "t.lance"
    table = Dataset.write(uri, some(*range(60)), max_rows_per_file=20, enable_stable_row_ids=request.param)
    table = table.create_scalar_index("id", "BTREE").create_scalar_index("x", "ZONEMAP")
    table = table.create_scalar_index("note", "INVERTED", **STOP_WORDS)
    table = table.create_index("vec", "IVF_FLAT", num_partitions=2)
    return table.delete("id = 3").insert(some(60, 61))


NUMBERS = itertools.count()


def branch(table: Dataset) -> Dataset:
    return table.create_branch(f"b{next(NUMBERS)}")


def clone(table: Dataset) -> Dataset:
    return table.shallow_clone(f"{table.snapshot.root.uri}-c{next(NUMBERS)}")


def with_own_files(table: Dataset) -> Dataset:
    """A child that is a parent itself has files of its own."""
    return table.insert(some(70, 71)).delete("id IN (4, 71)").optimize.optimize_indices(num_indices_to_merge=0)


CHILDREN: dict[str, Callable[[Dataset], Dataset]] = {
    "branch": branch,
    "clone": clone,
    "branch of a branch": lambda table: branch(with_own_files(branch(table))),
    "branch of a clone": lambda table: branch(with_own_files(clone(table))),
    "clone of a branch": lambda table: clone(with_own_files(branch(table))),
    "clone of a clone": lambda table: clone(with_own_files(clone(table))),
}


def backfilled(table: Dataset) -> Dataset:
    store = Store(table.uri)
    described = LanceFunction(lambda x: pc.multiply(x, 3), version="1", inputs=("x",), batch_size=10)
    snapshot, columns = with_columns(open_snapshot(store), "n", pa.field("n", pa.int64()), ("x",))
    request = Request(described, "1", where=None, on_error="fail", num_tasks=2)
    job, verified = make_job(snapshot, columns, request, NO_OPTIONS)
    commits = Commits(snapshot, job, NO_OPTIONS, verified, 16)
    for share in plan_shares(snapshot, job, request, verified, 1):
        run_share(share, job)
    commits.collect(final=True)
    done = Dataset(open_snapshot(store))
    assert done.scan(["x", "n"]).to_table().filter(pc.field("n") != pc.field("x") * 3).num_rows == 0
    return done


def merged(table: Dataset) -> Dataset:
    builder = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.execute(some(7, 80).set_column(1, "x", pa.array([1000, 1001], pa.int64())))
    return Dataset(open_snapshot(table.snapshot.store))


def cleaned(table: Dataset) -> Dataset:
    changed = table.delete("id = 9").optimize.compact_files()
    changed.cleanup_old_versions(timedelta(0), delete_unverified=True)
    return changed


VERBS: dict[str, Callable[[Dataset], Dataset]] = {
    "nothing": lambda table: table,
    "compaction": lambda table: table.optimize.compact_files(),
    "compaction of deleted rows": lambda table: table.delete("id < 15 OR note = 'beta'").optimize.compact_files(),
    "compaction in parts": lambda table: table.optimize.compact_files(target_rows_per_fragment=30),
    "two compactions": lambda table: table.optimize.compact_files().insert(some(90)).optimize.compact_files(),
    "deferred remap": lambda table: table.optimize.compact_files(defer_index_remap=True),
    "deferred remap, then optimized": lambda t: t.optimize.compact_files(defer_index_remap=True).optimize.optimize_indices(),
    "deferred remap, then compacted": lambda t: t.optimize.compact_files(defer_index_remap=True).insert(some(90)).optimize.compact_files(),
    "clustering": lambda table: table.optimize.cluster("x", "id"),
    "two clusterings": lambda table: table.optimize.cluster("x").insert(some(90, 91)).optimize.cluster("x", full=True),
    "sorted compaction": lambda table: table.optimize.compact_files(sort_by=["x"]),
    "indexes merged": lambda table: table.optimize.optimize_indices(),
    "indexes appended": lambda table: table.optimize.optimize_indices(num_indices_to_merge=0),
    "appended, then merged": lambda t: t.optimize.optimize_indices(num_indices_to_merge=0).insert(some(90)).optimize.optimize_indices(),
    "indexes retrained": lambda table: table.optimize.optimize_indices(retrain=True),
    "index replaced": lambda table: table.create_scalar_index("id", "BTREE").create_scalar_index(
        "note", "INVERTED", custom_stop_words=["foo"]
    ),
    "index added": lambda table: table.create_scalar_index("x", "BTREE", "other"),
    "index dropped": lambda table: table.drop_index("id_idx"),
    "append": lambda table: table.insert(some(90, 91)),
    "overwrite": lambda table: table.insert(some(90, 91), mode="overwrite"),
    "delete": lambda table: table.delete("id IN (2, 25, 60)"),
    "delete of a fragment": lambda table: table.delete("id < 20"),
    "update": lambda table: table.update({"x": "x + 500"}, "id < 30"),
    "update of all rows": lambda table: table.update({"x": "x + 500", "note": "'beta'"}),
    "merge": merged,
    "merge, then compaction": lambda table: merged(table).optimize.compact_files(),
    "columns added": lambda table: table.add_columns({"twice": "id * 2"}).optimize.compact_files(),
    "column dropped": lambda table: table.add_columns({"y": "id"}).drop_columns(["y"]).optimize.compact_files(),
    "type changed": lambda table: table.add_columns({"y": "x"}).alter_columns({"path": "y", "data_type": pa.int32()}),
    "backfill": backfilled,
    "backfill of a compacted table": lambda table: backfilled(table.optimize.compact_files()).optimize.compact_files(),
    "restore": lambda table: [table.optimize.compact_files().delete("id > 20"), table.restore()][1],
    "restore, then compaction": lambda table: [table.optimize.compact_files(), table.restore()][1].optimize.compact_files(),
    "cleanup": cleaned,
}


CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "id IN (7, 25, 60, 70, 80, 90)": lambda row: row["id"] in (7, 25, 60, 70, 80, 90),
    "x >= 15 AND x < 20": lambda row: 15 <= row["x"] < 20,
    "x > 499": lambda row: row["x"] > 499,
}


def expect_whole(child: Dataset) -> None:
    """All files are there, and every way of answering gives what the rows say."""
    report = child.verify()
    assert report.problems == (), report
    assert report.orphans == ()
    theirs: Any = opened_by_pylance(child)
    theirs.validate()
    rows = child.scan(["id", "x", "note", "vec"], use_scalar_index=False).to_table()
    assert sorted(theirs.to_table(["id", "x"]).to_pylist(), key=str) == sorted(rows.select(["id", "x"]).to_pylist(), key=str)
    by_id = {row["id"]: row for row in rows.to_pylist()}

    for condition, holds in CONDITIONS.items():
        expected = sorted(id for id, row in by_id.items() if holds(row))
        assert ids(child.scan(["id"], filter=condition).to_table()) == expected, condition
        assert ids(theirs.to_table(["id"], filter=condition)) == expected, condition

    for text in ("alpha", "foo", "beta"):
        expected = sorted(id for id, row in by_id.items() if text != "foo" and text in row["note"])
        if "note_idx" in {index["name"] for index in child.list_indices()}:
            assert ids(child.scan(["id"], full_text_query=text).to_table()) == expected, text
            assert ids(theirs.to_table(["id"], full_text_query=text)) == expected, text

    for query in VECTORS[[5, 33]]:
        distances = {id: float(((np.array(row["vec"]) - query) ** 2).sum()) for id, row in by_id.items()}
        expected = sorted(sorted(distances, key=lambda id: distances[id])[:6])
        nearest = {"column": "vec", "q": query, "k": 6, "nprobes": 2}
        assert ids(child.scan(["id"], nearest=nearest).to_table()) == expected
        assert ids(theirs.to_table(["id"], nearest=nearest)) == expected


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


def opened_by_pylance(child: Dataset) -> Any:
    root = lance.dataset(child.snapshot.root.uri)
    of_branch = child.snapshot.manifest.branch
    return root if of_branch is None else root.checkout_version((of_branch, None))


PLAIN = {
    (child, verb)
    for child in ("clone", "branch of a clone")
    for verb in ("compaction", "clustering", "indexes merged", "cleanup", "backfill")
}
CELLS = [
    pytest.param(child, verb, marks=[] if (child, verb) in PLAIN else pytest.mark.slow, id=f"{verb}, {child}")
    for child in CHILDREN
    for verb in VERBS
]


@pytest.mark.matrix
@pytest.mark.parametrize(("child", "verb"), CELLS)
def test_a_verb_leaves_a_child_whole(parent: Dataset, child: str, verb: str) -> None:
    of_parent: Manifest = parent.snapshot.manifest
    changed = VERBS[verb](CHILDREN[child](parent))
    expect_whole(Dataset(open_snapshot(changed.snapshot.store)))
    assert open_snapshot(parent.snapshot.store).manifest == of_parent


BLOB = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})


@pytest.mark.parametrize("child", CHILDREN)
def test_blobs_of_a_child_are_found(child: str, tmp_path: Path) -> None:
    """Large blobs are in files beside their data file."""
    contents = [b"small", b"x" * 70_000, None, b"y" * 200_000]
    rows = pa.table(
        [pa.array(range(4), pa.int64()), pa.array(contents, pa.large_binary())], schema=pa.schema([pa.field("id", pa.int64()), BLOB])
    )
    table = Dataset.write(tmp_path / "t", rows, max_rows_per_file=2)
    made = {"branch": branch, "clone": clone}
    for step in reversed(child.split(" of a ")):
        table = made[step](table)
    for changed in (table.optimize.compact_files(), table.delete("id = 0").optimize.compact_files()):
        opened = Dataset(open_snapshot(changed.snapshot.store))
        assert opened.verify().problems == ()
        found = opened.scan(["id", "b"], blob_handling="bytes").to_table()
        assert found["b"].to_pylist() == contents[-found.num_rows :]
        files = opened.take_blobs("b", indices=list(range(found.num_rows)))
        assert [None if file is None else file.readall() for file in files] == contents[-found.num_rows :]
        theirs = opened_by_pylance(opened).take_blobs("b", indices=[found.num_rows - 1])
        assert theirs[0].readall() == contents[-1]


def test_the_log_of_a_clone_is_merged_into_the_clone(tmp_path: Path) -> None:
    uri, other = logs.make(str(tmp_path / "t")), str(tmp_path / "c")
    logs.flushed(uri, 7)
    Dataset.open(uri, mem_wal="base").create_scalar_index("id", "BTREE").shallow_clone(other)
    assert Dataset.open(other).count_rows() == 2
    logs.flushed(other, 3, 4)
    merged_clone = Dataset.open(other).merge_mem_wal().optimize.compact_files()
    assert merged_clone.count_rows() == lance.dataset(other).count_rows() == 4
    assert merged_clone.count_rows("id = 3") == lance.dataset(other).count_rows("id = 3") == 1
    assert merged_clone.verify().problems == ()
    assert Dataset.open(uri).count_rows() == 3
