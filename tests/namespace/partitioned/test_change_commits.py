"""Commits of changes of a partitioned namespace: other writers, killed ones, old specs, and tables of other writers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset, PartitionedNamespace
from lance_spark.errors import (
    AmbiguousMergeError,
    CommitConflictError,
    InvalidOptionError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.manifest_table import change_metadata
from lance_spark.namespace.partitioned import changes as partitioned_changes
from lance_spark.namespace.partitioned.addresses import Addresses
from lance_spark.namespace.partitioned.changes import ChangePart, ChangeTarget, begin_changes, write_changes
from lance_spark.namespace.partitioned.commit import commit_changes
from lance_spark.namespace.partitioned.maintenance import compact
from lance_spark.storage.store import Store
from lance_spark.table.changes.delta import DELETED, OPERATION, ROW_ADDRESS, UPDATED
from lance_spark.table.compaction.compaction import CompactionOptions
from lance_spark.table.write.options import NO_OPTIONS
from tests import programs
from tests.namespace.partitioned.made import plain, with_partitions
from tests.namespace.partitioned.test_changes import check
from tests.sample import TURNS, by_turns

pytestmark = pytest.mark.spec("partitioned-namespace.md", "ACID Enforcement")

SCHEMA = pa.schema([("id", pa.int64()), ("c", pa.string()), ("v", pa.float64())])
Row = tuple[int, str | None, float]


def rows(*ids: int, c: str | None = None) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "c": [c or "abc"[i % 3] for i in ids], "v": [float(i) for i in ids]}, schema=SCHEMA)


@pytest.fixture
def namespace(tmp_path: Path) -> PartitionedNamespace:
    """The rows 0 to 8 in three tables."""
    return PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["c"]).write(rows(*range(9)))


def latest(namespace: PartitionedNamespace) -> PartitionedNamespace:
    return PartitionedNamespace.open(namespace.uri)


def content(namespace: PartitionedNamespace) -> dict[int, tuple[str | None, float]]:
    found = latest(namespace).scan().to_table().to_pylist()
    return {row["id"]: (row["c"], row["v"]) for row in found}


def begun(namespace: PartitionedNamespace, where: str, **values: Any) -> Callable[[], int]:
    """An update, or without values a delete, of the rows of a version that has written its files; the function that commits it."""
    found = namespace.scan(columns=["_rowaddr"], filter=where).to_table()
    operation = pa.array(np.full(found.num_rows, UPDATED if values else DELETED, np.int32))
    delta = pa.table({OPERATION: operation, ROW_ADDRESS: found["_rowaddr"]} | {k: [v] * found.num_rows for k, v in values.items()})
    target = begin_changes(namespace.snapshot, tuple(values), NO_OPTIONS)
    part = write_changes(target, delta.combine_chunks().to_batches())
    return lambda: commit_changes(target, [part], {}).version


MEANWHILE: dict[str, Callable[[PartitionedNamespace], PartitionedNamespace]] = {
    "rows of the same table are added": lambda n: n.write(rows(30, 33)),
    "a table is added": lambda n: n.write(rows(31, c="new")),
    "other rows of the same fragment are deleted": lambda n: n.delete("id = 6"),
    "other rows of the same fragment are updated": lambda n: n.update({"v": "-6"}, "id = 6"),
    "another table is changed": lambda n: n.update({"c": "'d'"}, "id = 1"),
    "a row moves here": lambda n: n.update({"c": "'a'"}, "id = 1"),
    "a spec is added": lambda n: n.add_spec([("bucket", "id", 2)]).write(rows(30)),
    "a column is added": lambda n: n.add_columns(pa.schema([("w", pa.int64())])),
    "a column is renamed": lambda n: n.alter_column("v", name="w").alter_column("w", name="v"),
}
MINE = {
    "delete": (lambda n: begun(n, "id = 0"), {0: None}),
    "update": (lambda n: begun(n, "id = 0", v=100.0), {0: ("a", 100.0)}),
    "update that moves": (lambda n: begun(n, "id = 0 OR id = 4", c="new"), {0: ("new", 0.0), 4: ("new", 4.0)}),
}


@pytest.mark.matrix
@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=list(MEANWHILE))
@pytest.mark.parametrize("mine", MINE.values(), ids=list(MINE))
def test_a_change_lands_beside_others_of_other_rows(namespace: PartitionedNamespace, mine: Any, meanwhile: Any) -> None:
    begin, expected = mine
    commit = begin(namespace)
    meanwhile(namespace)
    before = content(namespace)
    commit()
    after = {**before, **expected}
    assert content(namespace) == {i: row for i, row in after.items() if row is not None}
    check(latest(namespace))


CONFLICTS: dict[str, Callable[[PartitionedNamespace], object]] = {
    "the row is deleted": lambda n: n.delete("id = 0"),
    "the row is updated": lambda n: n.update({"v": "7"}, "id = 0"),
    "the row moves": lambda n: n.update({"c": "'d'"}, "id = 0"),
    "the table is compacted": lambda n: n.write(rows(30)).compact(),
    "everything is overwritten": lambda n: n.write(rows(0, 3), mode="overwrite"),
    "the partition is overwritten": lambda n: n.write(rows(0), mode="dynamic"),
}


@pytest.mark.matrix
@pytest.mark.parametrize("meanwhile", CONFLICTS.values(), ids=list(CONFLICTS))
@pytest.mark.parametrize("mine", MINE.values(), ids=list(MINE))
def test_a_change_of_rows_that_others_changed_is_a_conflict_and_leaves_nothing(
    namespace: PartitionedNamespace, mine: Any, meanwhile: Any
) -> None:
    commit = mine[0](namespace)
    meanwhile(namespace)
    before, version = content(namespace), latest(namespace).version
    with pytest.raises(CommitConflictError) as e:
        commit()
    assert e.value.retryable
    assert (content(namespace), latest(namespace).version) == (before, version)
    latest(namespace).update({"v": "v + 1"})
    assert content(namespace) == {i: (c, v + 1) for i, (c, v) in before.items()}
    check(latest(namespace))


def test_verbs_run_again_after_a_conflict(namespace: PartitionedNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    real, others = partitioned_changes._ChangeWriter.finish, [lambda: namespace.update({"v": "v + 100"}, "id = 0")]

    def finish(writer: Any) -> ChangePart:
        if others:
            others.pop()()
        return real(writer)

    monkeypatch.setattr(partitioned_changes._ChangeWriter, "finish", finish)
    namespace.update({"v": "v * 2"}, "id <= 1")
    assert content(namespace)[0] == ("a", 200.0)
    assert content(namespace)[1] == ("b", 2.0)


def test_of_two_merges_that_insert_one_key_the_second_finds_the_row_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key:position": "1"})
    namespace = PartitionedNamespace.create(tmp_path / "n", pa.schema([key, ("c", pa.string()), ("v", pa.float64())]), ["c"])
    namespace = namespace.write(rows(0, 1).cast(namespace.schema))
    real, others = partitioned_changes._ChangeWriter.finish, [True]

    def merge(c: str) -> None:
        namespace.merge_insert().when_matched_update_all().when_not_matched_insert_all().execute(rows(7, c=c).cast(namespace.schema))

    def finish(writer: Any) -> ChangePart:
        if others:
            others.pop()
            merge("first")
        return real(writer)

    monkeypatch.setattr(partitioned_changes._ChangeWriter, "finish", finish)
    merge("second")
    assert latest(namespace).count_rows("id = 7") == 1
    assert content(namespace)[7][0] == "second"


@pytest.mark.parametrize("turn", by_turns([()]))
def test_a_change_that_is_killed_is_seen_whole_or_not_at_all(turn: int, tmp_path: Path) -> None:
    template = PartitionedNamespace.create(tmp_path / "template", SCHEMA, ["c"]).write(rows(0, 1, 3))
    killed = int(programs.run("tests.namespace.partitioned.killed", template.uri, str(tmp_path / "killed"), str(turn + 1), "update"))
    before = content(template)
    whole = {i: ("moved" if c == "a" else c, v + 1) for i, (c, v) in before.items()}
    seen = []
    for number in range(turn + 1, turn + 2 + TURNS * killed, TURNS):
        namespace = PartitionedNamespace.open(tmp_path / "killed" / str(number))
        seen.append(content(namespace))
        assert seen[-1] in (before, whole)
    for number in (turn + 1 + TURNS * (killed // 2), turn + 1 + TURNS * (killed - 1)):
        namespace = PartitionedNamespace.open(tmp_path / "killed" / str(number))
        expected = content(namespace)
        namespace.update({"v": "v * 10"}, "id > 0")
        assert content(namespace) == {i: (c, v * 10 if i > 0 else v) for i, (c, v) in expected.items()}
        check(latest(namespace))
    assert before in seen
    assert whole in seen


@pytest.mark.spec("partitioned-namespace.md", "Partition Evolution")
def test_rows_of_an_old_spec_stay_there_until_their_values_change(namespace: PartitionedNamespace) -> None:
    changed = namespace.add_spec([("truncate", "c", 1), ("bucket", "id", 2)]).update({"v": "v + 1"}, "id < 2")
    assert set(changed.partitions()["spec"].to_pylist()) == {1}
    changed = changed.update({"c": "concat(c, 'x')"}, "id < 2").update({"id": "id + 100"}, "id = 0")
    assert content(changed)[100] == ("ax", 1.0)
    assert content(changed)[1] == ("bx", 2.0)
    assert sorted(changed.partitions()["spec"].to_pylist())[:4] == [1, 1, 1, 2]
    check(changed)


@pytest.mark.spec("partitioned-namespace.md", "Schema Consistency Rules")
def test_a_column_that_tables_lack_is_assigned_merged_and_moves(namespace: PartitionedNamespace) -> None:
    changed = namespace.add_columns(pa.schema([("w", pa.int64())])).update({"w": "id"}, "id < 2").update({"c": "'new'", "w": "1"}, "id = 5")
    source = rows(1, 2, 50).append_column("w", pa.array([10, 20, 500]))
    changed = changed.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)
    found = {row["id"]: (row["c"], row["w"]) for row in changed.scan().to_table().to_pylist()}
    assert [found[i] for i in (0, 1, 2, 3, 5, 50)] == [("a", 0), ("b", 10), ("c", 20), ("a", None), ("new", 1), ("c", 500)]
    check(changed)


@pytest.mark.parametrize("pinned", [True, False])
def test_tables_without_the_partition_column_and_without_versions_are_changed(tmp_path: Path, pinned: bool) -> None:
    made = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["c"])
    partitions = [({"c": c}, rows(*ids).drop_columns(["c"])) for c, ids in (("x", (0, 1, 2)), (None, (3, 4)))]
    namespace = with_partitions(made, partitions, pinned)
    if not pinned:
        with pytest.raises(UnsupportedFeatureError, match="names no version"):
            namespace.changes(0).to_table()
    namespace = namespace.update({"v": "v + 1", "c": "'x'"}, "id IN (0, 3)").delete("id = 4")
    assert plain(namespace) == [(0, "x", 1.0), (1, "x", 1.0), (2, "x", 2.0), (3, "x", 4.0)]
    assert None not in namespace.partitions()["read_version"].to_pylist()
    assert namespace.verify().ok


def test_rows_that_break_a_rule_change_nothing(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), ("c", pa.string()), pa.field("v", pa.float64(), False)])
    namespace = PartitionedNamespace.create(tmp_path / "n", schema, ["c"]).write(rows(*range(6)).cast(schema))
    (location,) = [row["location"] for row in namespace.partitions().to_pylist() if row["partition_field_c"] == "a"]
    lance.dataset(f"{namespace.uri}/{location}").update_config({"lance_spark.constraint.small": "v < 100"})
    namespace = namespace.write(rows(9).cast(schema))
    before = namespace.version
    refused = (
        ({"v": "NULL"}, "id = 1", "null"),
        ({"id": "NULL", "c": "'new'"}, "id = 2", "null"),
        ({"v": "1000"}, "id = 0", "v < 100"),
        ({"v": "1000", "c": "'a'"}, "id = 1", "v < 100"),
    )
    for values, where, message in refused:
        with pytest.raises(SchemaMismatchError, match=message):
            namespace.update(values, where)
    assert latest(namespace).version == before


def test_any_order_of_rows_is_written_with_few_open_tables(namespace: PartitionedNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned_changes, "OPEN_TABLES", 1)
    found = namespace.scan(columns=["_rowaddr", "id"]).to_table().sort_by("id")
    target = begin_changes(namespace.snapshot, ("v",), NO_OPTIONS)
    delta = pa.table({OPERATION: pa.array([UPDATED] * 9, pa.int32()), ROW_ADDRESS: found["_rowaddr"], "v": [100.0 + i for i in range(9)]})
    part = write_changes(target, [delta.slice(i, 1).to_batches()[0] for i in range(9)])
    assert len(part.leaves) > 3
    commit_changes(target, [part], {})
    assert content(namespace) == {i: ("abc"[i % 3], 100.0 + i) for i in range(9)}
    check(latest(namespace))


def test_a_row_that_is_changed_twice_is_named(namespace: PartitionedNamespace) -> None:
    source = pa.concat_tables([rows(4), rows(4)])
    with pytest.raises(AmbiguousMergeError, match=r"more than one row of the source changes the row with id = 4") as e:
        namespace.merge_insert("id").when_matched_update_all().execute(source)
    found = namespace.scan(columns=["_rowaddr"], filter="id = 4").to_table()["_rowaddr"][0].as_py()
    assert e.value.address == found
    target, commit = _deleting(namespace, "id = 4")
    with pytest.raises(AmbiguousMergeError) as again:
        commit_changes(target, [commit, commit], {})
    assert again.value.address == found


def _deleting(namespace: PartitionedNamespace, where: str) -> tuple[ChangeTarget, ChangePart]:
    addresses = namespace.scan(columns=["_rowaddr"], filter=where).to_table()["_rowaddr"]
    target = begin_changes(namespace.snapshot, (), NO_OPTIONS)
    delta = pa.table({OPERATION: pa.array([DELETED] * len(addresses), pa.int32()), ROW_ADDRESS: addresses})
    return target, write_changes(target, delta.combine_chunks().to_batches())


def test_addresses_tell_the_table_and_the_row(namespace: PartitionedNamespace) -> None:
    found = namespace.scan(columns=["_rowaddr", "c"]).to_table()
    assert len(set(found["_rowaddr"].to_pylist())) == 9
    addresses = Addresses.of(namespace.snapshot)
    tables = {number: set(found["c"].take(pa.array(at)).to_pylist()) for number, at, _ in addresses.by_table(found["_rowaddr"].to_numpy())}
    assert sorted(map(sorted, tables.values())) == [["a"], ["b"], ["c"]]
    table = Dataset.open(f"{namespace.uri}/{namespace.partitions()['location'][0].as_py()}").snapshot
    with pytest.raises(UnsupportedFeatureError, match="no addresses in a namespace of"):
        Addresses(1 << 31).first(0, _with_fragment(table, 1))
    with pytest.raises(UnsupportedFeatureError, match="conditions cannot use addresses"):
        namespace.scan(filter="_rowaddr = 1").to_table()


def _with_fragment(table: Any, number: int) -> Any:
    written = Dataset.write(table.store.uri, rows(0), "append")
    assert written.snapshot.manifest.lazy_fragments.ids.max() == number
    return written.snapshot


def test_a_compaction_takes_the_tables_of_a_condition(namespace: PartitionedNamespace) -> None:
    namespace = namespace.write(rows(*range(9, 18)))
    done = namespace.compact(where="id = 10")
    assert (done.tables, done.fragments_removed, done.fragments_added) == (1, 2, 1)
    fragments = {
        row["partition_field_c"]: len(lance.dataset(f"{namespace.uri}/{row['location']}", version=row["read_version"]).get_fragments())
        for row in latest(namespace).partitions().to_pylist()
    }
    assert fragments == {"a": 2, "b": 1, "c": 2}
    check(latest(namespace))
    with pytest.raises(InvalidOptionError, match="fragments of one table"):
        compact(namespace.snapshot, CompactionOptions(max_source_rows=3))


@pytest.mark.parametrize("stable", [True, False])
def test_the_changes_of_all_versions_make_the_rows_of_the_last_one(tmp_path: Path, stable: bool) -> None:
    made = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["c"])
    first = made.write(rows(*range(9)), stable_row_ids=stable)
    first.update({"v": "v + 1"}, "id < 4").update({"c": "'new'"}, "id IN (1, 2)").compact()
    now = latest(first).delete("id = 8").merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(3, 60))
    now = now.add_columns(pa.schema([("w", pa.int64())])).update({"w": "id"}, "id = 5").write(rows(70, 71), mode="dynamic")
    for begin in (0, first.version):
        at = [] if not begin else [(*row, None) for row in plain(first)]
        for change in now.changes(begin).to_table().to_pylist():
            row = tuple(change[name] for name in ("id", "c", "v", "w"))
            if change["_change_type"] in ("delete", "update_preimage"):
                at.remove(row)
            else:
                at.append(row)
        assert sorted(at, key=repr) == plain(now)
    kinds = set(now.changes(first.version, columns=["id"], filter="_commit_version = 4").to_table()["_change_type"].to_pylist())
    assert kinds == ({"update_preimage", "update_postimage"} if stable else {"delete", "insert"})


def test_a_field_that_cannot_be_evaluated_refuses_what_it_would_divide(namespace: PartitionedNamespace) -> None:
    spec = json.loads(lance.dataset(f"{namespace.uri}/__manifest").metadata["partition_spec_v1"])
    del spec["fields"][0]["transform"]
    spec["fields"][0]["expression"] = "soundex(col0)"
    change_metadata(Store(namespace.uri), lambda table: {"partition_spec_v1": json.dumps(spec)})
    changed = latest(namespace).delete("id = 0").update({"v": "v + 1"}, "c = 'b'")
    assert content(changed)[1] == ("b", 2.0)
    with pytest.raises(InvalidOptionError, match="cannot be evaluated"):
        changed.update({"c": "'x'"}, "id = 1")
    with pytest.raises(InvalidOptionError, match="cannot be evaluated"):
        changed.merge_insert("id").when_not_matched_insert_all().execute(rows(50))
    merged = changed.merge_insert("id").when_matched_delete().execute(rows(1))
    assert merged.version == changed.version + 1
    assert 1 not in content(merged)


def test_a_change_of_nothing_makes_no_version(namespace: PartitionedNamespace) -> None:
    for changed in (namespace.delete("id = 100"), namespace.update({"v": "0"}, "id = 100")):
        assert changed.version == namespace.version
    assert namespace.merge_insert("id").when_matched_update_all().execute(rows(100)).version == namespace.version
