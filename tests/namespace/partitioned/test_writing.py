"""Writing a partitioned namespace: all tables change in one version, or none; what others have not published stays unpublished."""

from __future__ import annotations

import contextlib
import random
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.namespace.partitioned import write as partition_write
from lance_spark.namespace.partitioned.commit import commit_partitions
from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
from lance_spark.namespace.partitioned.transforms import Transform
from lance_spark.namespace.partitioned.write import begin, write_partitions
from tests import programs
from tests.namespace.partitioned.made import plain, with_partitions
from tests.sample import TURNS, by_turns

pytestmark = [
    pytest.mark.spec("partitioned-namespace.md", "Physical Layout and Naming"),
    pytest.mark.spec("partitioned-namespace.md", "ACID Enforcement"),
]

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("c", pa.string()), pa.field("v", pa.float64())])
COUNTRIES = ["US", None, "é"]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "c": [COUNTRIES[i % 3] for i in ids], "v": [i / 2 for i in ids]}, schema=SCHEMA)


@pytest.fixture
def empty(tmp_path: Path) -> PartitionedNamespace:
    return PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["c", ("bucket", "id", 2)])


def ids(namespace: PartitionedNamespace, filter: str | None = None) -> list[int]:
    return sorted(namespace.scan(columns=["id"], filter=filter).to_table()["id"].to_pylist())


def check(namespace: PartitionedNamespace) -> None:
    """One table for each combination of values, each with only its rows, at a version that is there, in rooms that lead to it."""
    partitions = namespace.partitions().to_pylist()
    values = [tuple(row[f.column] for f in namespace.spec.fields) for row in partitions]
    assert len(values) == len(set(values))
    objects = set(namespace.snapshot.manifest.rows["object_id"].to_pylist())
    total = 0
    for row, object_id in zip(partitions, namespace.snapshot.leaves["object_id"].to_pylist()):
        table = lance.dataset(f"{namespace.uri}/{row['location']}", version=row["read_version"])
        assert set(table.to_table()["c"].to_pylist()) == {row["partition_field_c"]}
        total += table.count_rows()
        parts = object_id.split("$")
        assert all("$".join(parts[:n]) in objects for n in range(1, len(parts)))
    assert total == namespace.count_rows()


def test_rows_go_to_the_tables_of_their_values(empty: PartitionedNamespace) -> None:
    namespace = empty.write(rows(*range(10))).write(rows(*range(10, 20)))
    assert ids(namespace) == list(range(20))
    assert namespace.partitions().num_rows == 6
    check(namespace)
    assert ids(empty) == []
    assert ids(PartitionedNamespace.open(namespace.uri, version=namespace.version - 1)) == list(range(10))


def test_rows_are_divided_whatever_their_order_and_size(empty: PartitionedNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("CHUNK_BYTES", 1000), ("PENDING_BYTES", 2000), ("OPEN_FILES", 1)):
        monkeypatch.setattr(partition_write, name, value)
    shuffled = random.Random(1).sample(range(500), 500)
    batches = rows(*shuffled).to_batches(max_chunksize=37)
    namespace = empty.write(batches)
    assert plain(namespace) == sorted((tuple(row.values()) for row in rows(*shuffled).to_pylist()), key=repr)
    check(namespace)


def test_overwriting_replaces_everything(empty: PartitionedNamespace) -> None:
    namespace = empty.write(rows(*range(10)))
    later = namespace.write(rows(0, 3), "overwrite")
    assert ids(later) == [0, 3]
    assert ids(namespace) == list(range(10)), "an older version keeps its rows"
    check(later)
    assert ids(later.write(rows(), "overwrite")) == []


def test_a_dynamic_overwrite_replaces_the_partitions_of_the_new_rows(empty: PartitionedNamespace) -> None:
    namespace = empty.write(rows(*range(12)))
    buckets = dict(zip(range(12), Transform("bucket", 2).apply(pa.array(range(12), pa.int64())).to_pylist()))
    later = namespace.write(rows(3), "dynamic")
    assert ids(later) == [i for i in range(12) if i == 3 or i % 3 or buckets[i] != buckets[3]]
    check(later)
    assert later.partitions().num_rows == namespace.partitions().num_rows


def test_replace_where_replaces_whole_partitions(empty: PartitionedNamespace) -> None:
    namespace = empty.write(rows(*range(12)))
    later = namespace.write(rows(30, 33), "overwrite", replace_where="c = 'US'")
    assert ids(later) == sorted([i for i in range(12) if i % 3] + [30, 33])
    assert ids(later.write(rows(), "overwrite", replace_where="c IS NULL OR c = 'é'")) == [30, 33]
    check(later)
    with pytest.raises(InvalidOptionError, match="divides partitions"):
        namespace.write(rows(0), "overwrite", replace_where="id >= 0")
    with pytest.raises(SchemaMismatchError, match="does not satisfy"):
        namespace.write(rows(1), "overwrite", replace_where="c = 'US'")
    assert ids(PartitionedNamespace.open(later.uri)) == [30, 33]


def test_columns_that_were_added_or_renamed_are_written_under_their_ids(empty: PartitionedNamespace) -> None:
    namespace = empty.write(rows(0, 1)).add_columns([pa.field("w", pa.int32())])
    namespace = namespace.write(rows(3, 4).append_column("w", pa.array([3, 4], pa.int32())))
    namespace = namespace.alter_column("v", name="x")
    namespace = namespace.write(pa.table({"id": [6], "x": [6.5], "w": [6], "c": ["US"]}))
    found = namespace.scan(columns=["id", "x", "w"]).to_table().to_pylist()
    assert sorted(map(tuple, (r.values() for r in found))) == [(0, 0.0, None), (1, 0.5, None), (3, 1.5, 3), (4, 2.0, 4), (6, 6.5, 6)]
    check(namespace)


def test_new_rows_go_under_the_newest_spec(empty: PartitionedNamespace) -> None:
    namespace = empty.write(rows(*range(6))).add_spec([("truncate", "id", 100)]).write(rows(*range(6, 12)))
    assert ids(namespace) == list(range(12))
    assert sorted(namespace.partitions()["spec"].to_pylist())[-1] == 2
    assert ids(namespace, "id = 7") == [7]
    with pytest.raises(UnsupportedFeatureError, match="older specs"):
        namespace.write(rows(1), "dynamic")
    assert ids(namespace.write(rows(1), "overwrite")) == [1]


def test_a_table_without_the_partition_column_stays_so(empty: PartitionedNamespace, tmp_path: Path) -> None:
    made = PartitionedNamespace.create(tmp_path / "d", SCHEMA, ["c"])
    namespace = with_partitions(made, [({"c": "US"}, rows(0, 3).drop_columns(["c"]))]).write(rows(6, 1))
    assert sorted(plain(namespace)) == sorted((tuple(r.values()) for r in rows(0, 3, 6, 1).to_pylist()), key=repr)
    assert Dataset.open(f"{namespace.uri}/{namespace.partitions()['location'][0].as_py()}").schema.names == ["id", "v"]


def test_a_table_without_a_pinned_version_gets_one(tmp_path: Path) -> None:
    made = PartitionedNamespace.create(tmp_path / "d", SCHEMA, ["c"])
    namespace = with_partitions(made, [({"c": "US"}, rows(0))], pinned=False)
    location = f"{namespace.uri}/{namespace.partitions()['location'][0].as_py()}"
    lance.write_dataset(rows(3), location, mode="append")
    namespace = namespace.write(rows(6))
    assert namespace.partitions()["read_version"].to_pylist() == [3]
    lance.write_dataset(rows(9), location, mode="append")
    assert ids(namespace) == [0, 3, 6]


def test_rows_that_were_never_published_stay_unpublished(empty: PartitionedNamespace) -> None:
    namespace = empty.write(rows(0, 3, 6))
    for row in namespace.partitions().to_pylist():
        lance.write_dataset(rows(99), f"{namespace.uri}/{row['location']}", mode="append")
    assert ids(namespace.write(rows(9, 12))) == [0, 3, 6, 9, 12]


def test_a_numbered_write_is_done_once(empty: PartitionedNamespace) -> None:
    first = empty.write(rows(0), txn_app_id="a", txn_version=1)
    again = first.write(rows(0), txn_app_id="a", txn_version=1)
    assert (ids(again), again.version) == ([0], first.version)
    assert ids(again.write(rows(3), txn_app_id="a", txn_version=2)) == [0, 3]


def test_the_versions_that_the_namespace_names_survive_a_cleanup_of_a_table(empty: PartitionedNamespace) -> None:
    from datetime import timedelta

    namespace = empty.write(rows(0, 6)).write(rows(12, 18))
    later = namespace.write(rows(24, 30))
    for row in later.partitions().to_pylist():
        table = lance.dataset(f"{later.uri}/{row['location']}")
        table.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)
    assert (ids(namespace), ids(later)) == ([0, 6, 12, 18], [0, 6, 12, 18, 24, 30])


def test_two_writers_of_a_new_partition_make_one_table(empty: PartitionedNamespace) -> None:
    written = []
    for i in (0, 6):
        target = begin(empty.snapshot.root, SCHEMA, "append")
        written.append((target, write_partitions(target, rows(i).to_batches())))
    for target, partitions in written:
        commit_partitions(target, partitions)
    namespace = PartitionedNamespace.open(empty.uri)
    assert ids(namespace) == [0, 6]
    check(namespace)
    places = {p.name for p in Path(empty.uri).iterdir() if any(f.is_file() for f in p.rglob("*"))}
    assert places == {"__manifest", *namespace.partitions()["location"].to_pylist()}, "the other table is removed"


def test_two_writers_of_one_partition_keep_the_rows_of_both(empty: PartitionedNamespace) -> None:
    base = empty.write(rows(0))
    written = []
    for i in (6, 12):
        target = begin(base.snapshot.root, SCHEMA, "append")
        written.append((target, write_partitions(target, rows(i).to_batches())))
    for target, partitions in written:
        commit_partitions(target, partitions)
    assert ids(PartitionedNamespace.open(base.uri)) == [0, 6, 12]


def test_a_dynamic_overwrite_of_a_partition_that_changed_is_refused(empty: PartitionedNamespace) -> None:
    base = empty.write(rows(0))
    target = begin(base.snapshot.root, SCHEMA, "dynamic")
    partitions = write_partitions(target, rows(0).to_batches())
    base.write(rows(0))
    with pytest.raises(CommitConflictError) as e:
        commit_partitions(target, partitions)
    assert e.value.retryable
    assert ids(PartitionedNamespace.open(base.uri)) == [0, 0]


def test_data_that_does_not_fit_changes_nothing(empty: PartitionedNamespace) -> None:
    namespace = empty.write(rows(0))
    with pytest.raises(SchemaMismatchError):
        namespace.write(pa.table({"id": ["x"]}))
    with pytest.raises(SchemaMismatchError):
        namespace.write(pa.table({"id": [1], "nope": [2]}))
    assert PartitionedNamespace.open(empty.uri).version == namespace.version


def appended(uri: str, number: int, times: int) -> None:
    namespace = PartitionedNamespace.open(uri)
    for i in range(times):
        first = 1000 * number + 6 * i
        for attempt in range(50):
            try:
                namespace.write(rows(first, first + 1, first + 3) if number % 2 else rows(first))
                break
            except CommitConflictError as e:
                if not e.retryable or attempt == 49:
                    raise


def compacted(uri: str, times: int) -> None:
    for _ in range(times):
        for location in PartitionedNamespace.open(uri).partitions()["location"].to_pylist():
            # pylance does not repeat what meets another commit, such as the Restore of a write that was given up.
            with contextlib.suppress(OSError):
                lance.dataset(f"{uri}/{location}").optimize.compact_files()


@pytest.mark.parametrize("writers", [pytest.param(3), pytest.param(8, marks=pytest.mark.slow)])
def test_writers_lose_and_double_no_row_while_tables_are_compacted(empty: PartitionedNamespace, writers: int) -> None:
    times = 3 if writers > 3 else 2
    with ProcessPoolExecutor(writers + 1, mp_context=get_context("spawn")) as pool:
        work = [pool.submit(appended, empty.uri, number, times) for number in range(writers)]
        work.append(pool.submit(compacted, empty.uri, 4))
        for done in work:
            done.result()
    expected = [1000 * n + 6 * i + k for n in range(writers) for i in range(times) for k in ((0, 1, 3) if n % 2 else (0,))]
    namespace = PartitionedNamespace.open(empty.uri)
    assert ids(namespace) == sorted(expected)
    check(namespace)
    for version in range(3, namespace.version + 1):
        at = PartitionedNamespace.open(empty.uri, version=version)
        assert at.scan().to_table().num_rows == at.count_rows()


@pytest.mark.parametrize("turn", by_turns([()]))
def test_a_write_that_is_killed_is_seen_whole_or_not_at_all(turn: int, tmp_path: Path) -> None:
    template = PartitionedNamespace.create(tmp_path / "template", SCHEMA, ["c"]).write(rows(0, 1))
    killed = int(programs.run("tests.namespace.partitioned.killed", template.uri, str(tmp_path / "killed"), str(turn + 1)))
    assert TURNS * killed > 40
    seen = set()
    numbers = range(turn + 1, turn + 2 + TURNS * killed, TURNS)
    for number in sorted({*random.Random(turn).sample(numbers, 5), *numbers[-3:]}):
        namespace = PartitionedNamespace.open(tmp_path / "killed" / str(number))
        seen.add(tuple(ids(namespace)))
        assert tuple(ids(namespace)) in {(0, 1), (0, 1, 3, 4, 5, 8)}
        after = namespace.write(rows(6, 7, 11))
        assert set(ids(after)) == {*ids(namespace), 6, 7, 11}
        assert pc.sum(after.partitions()["read_version"]).as_py() >= 3
    assert seen == {(0, 1), (0, 1, 3, 4, 5, 8)}
