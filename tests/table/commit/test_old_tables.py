"""Writes to tables of old versions of Lance: without the highest fragment id, or with one id for several fragments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError
from lance_spark.metadata.manifest import Fragment, Manifest, serialise
from lance_spark.metadata.operations import Delete, Rewrite
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.commit.commit import commit
from lance_spark.table.versions.history import transaction_of
from lance_spark.table.versions.snapshot import open_snapshot

Change = Callable[[Dataset], Dataset]


def rows(first: int, count: int = 3) -> pa.Table:
    return pa.table({"a": pa.array(range(first, first + count), pa.int64()), "b": pa.array([1.5] * count)})


def edited(uri: str, change: Callable[[Manifest], Manifest]) -> Dataset:
    """The table with its latest version modified, as if another writer had written it."""
    snapshot = open_snapshot(Store(uri))
    Path(uri, snapshot.path).write_bytes(serialise(change(snapshot.manifest)))
    return Dataset.open(uri)


def ids(uri: str) -> list[int]:
    """The fragment ids of a table that is valid for pylance."""
    table = lance.dataset(uri)
    table.validate()
    return [f.fragment_id for f in table.get_fragments()]


def values(uri: str) -> list[int]:
    """The values of the column a, which both libraries read equally."""
    found: list[int] = Dataset.open(uri).scan(["a"]).to_table()["a"].to_pylist()
    assert lance.dataset(uri).to_table()["a"].to_pylist() == found
    return found


CHANGES: dict[str, Change] = {
    "append": lambda ds: Dataset.write(ds.uri, rows(90), "append"),
    "merge_insert": lambda ds: ds.merge_insert("a").when_not_matched_insert_all().execute(rows(90)),
    "update": lambda ds: ds.update({"b": "b + 1"}),
    "compact": lambda ds: (ds.optimize.compact_files(), Dataset.open(ds.uri))[1],
    "delete": lambda ds: ds.delete("a % 2 = 1"),
    "add a column": lambda ds: ds.add_columns(pa.field("c", pa.int8())),
    "drop a column": lambda ds: ds.drop_columns(["b"]),
    "rename a column": lambda ds: ds.alter_columns({"path": "b", "name": "c"}),
    "config": lambda ds: ds.update_config({"k": "v"}),
    "restore": lambda ds: ds.restore(),
    "overwrite": lambda ds: Dataset.write(ds.uri, rows(90), "overwrite"),
}


def expected(change: str, before: list[int]) -> list[int]:
    more = [*before, 90, 91, 92]
    after = {"append": more, "merge_insert": more, "delete": [a for a in before if a % 2 == 0], "overwrite": [90, 91, 92]}
    return after.get(change, before)


@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_ids_are_unique_if_the_highest_is_not_recorded(tmp_path: Path, change: str, stable_row_ids: bool) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0), uri, enable_stable_row_ids=stable_row_ids)
    ds = edited(uri, lambda m: replace(m, max_fragment_id=None))
    CHANGES[change](ds)
    Dataset.write(uri, Dataset.open(uri).scan().to_table().slice(0, 1), "append")
    assert ids(uri)[-1] == len(ids(uri)) - (change != "overwrite")
    lance.write_dataset(lance.dataset(uri).to_table().slice(0, 1), uri, mode="append")
    first = expected(change, [0, 1, 2])
    assert values(uri) == [*first, first[0], first[0]]


def test_an_id_that_an_index_covers_is_not_reused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0), uri)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    lance.dataset(uri).delete("true")
    edited(uri, lambda m: replace(m, max_fragment_id=None))
    Dataset.write(uri, rows(0), "append")
    assert ids(uri) == [1]
    assert lance.dataset(uri).to_table(filter="a = 2")["a"].to_pylist() == [2]


def test_a_wrong_storage_version_is_replaced_by_that_of_the_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0), uri, data_storage_version="2.0")
    edited(uri, lambda m: replace(m, data_format="0.1"))
    Dataset.write(uri, rows(3), "append")
    assert Dataset.open(uri).snapshot.manifest.data_format == "2.0"
    assert values(uri) == [0, 1, 2, 3, 4, 5]
    assert ids(uri) == [0, 1]


def twins(uri: str, stable_row_ids: bool = False, deleted: str = "false") -> Dataset:
    """Five fragments with the ids 0, 1, 1, 1 and 2."""
    for i in range(5):
        lance.write_dataset(rows(10 * i), uri, mode="append" if i else "create", enable_stable_row_ids=stable_row_ids)
    lance.dataset(uri).delete(deleted)

    def with_one_id(f: Fragment) -> Fragment:
        id = {0: 0, 4: 2}.get(f.id, 1)
        if f.deletion is not None:
            Path(uri, f.deletion.path(id)).write_bytes(Path(uri, f.deletion.path(f.id)).read_bytes())
        return replace(f, id=id)

    return edited(uri, lambda m: replace(m, fragments=tuple(with_one_id(f) for f in m.fragments), max_fragment_id=2))


TWINS = [10 * i + j for i in range(5) for j in range(3)]


def test_fragments_with_one_id_are_read_as_in_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    ds, theirs = twins(uri), lance.dataset(str(tmp_path / "t"))
    assert values(uri) == TWINS
    assert ds.count_rows() == theirs.count_rows() == 15
    assert ds.count_rows("a > 20") == theirs.count_rows("a > 20") == 8
    columns = ["a", "_rowaddr"]
    assert ds.scan(columns, "a > 11").to_table().to_pydict() == theirs.to_table(columns[:1], "a > 11", with_row_address=True).to_pydict()
    addresses = [1 << 32, 1, 1 << 32 | 2]
    assert ds.take_rows(addresses, ["a"])["a"].to_pylist() == theirs._take_rows(addresses, ["a"])["a"].to_pylist() == [10, 1, 12]
    assert ds.take([3, 6, 14], ["a"])["a"].to_pylist() == [10, 20, 42]


@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_fragments_with_one_id_get_distinct_ids_before_a_change(tmp_path: Path, change: str, stable_row_ids: bool) -> None:
    uri = str(tmp_path / "t")
    ds = twins(uri, stable_row_ids, deleted="a = 21 or a = 32 or a = 40")
    before = ds.scan(["a"]).to_table()["a"].to_pylist()
    assert before == [a for a in TWINS if a not in (21, 32, 40)], "each fragment has its own deletion file"
    CHANGES[change](ds)
    assert sorted(values(uri)) == sorted(expected(change, before))
    assert len(set(ids(uri))) == len(ids(uri))
    lance.dataset(uri).delete("a = 2")
    lance.dataset(uri).optimize.compact_files()
    assert sorted(values(uri)) == [a for a in sorted(expected(change, before)) if a != 2]


def test_changes_prepared_for_fragments_with_one_id_must_be_repeated(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    snapshot = twins(uri).snapshot
    Dataset.write(uri, rows(90), "append")
    made = transaction_of(open_snapshot(Store(uri), version=snapshot.version + 1)).operation
    assert isinstance(made, Rewrite)
    assert [[f.id for f in part] for g in made.groups for part in (g.old_fragments, g.new_fragments)] == [[1, 1, 1], [3, 4, 5]]
    with pytest.raises(CommitConflictError, match="Rewrite of version 7") as e:
        commit(Store(uri), Transaction(snapshot.version, Delete((), (1,))))
    assert e.value.retryable


def test_indexes_do_not_cover_fragments_with_new_ids(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for i in range(3):
        lance.write_dataset(rows(10 * i), uri, mode="append" if i else "create")
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    edited(uri, lambda m: replace(m, fragments=tuple(replace(f, id=min(f.id, 1)) for f in m.fragments)))
    Dataset.write(uri, rows(90), "append")
    for a in (0, 10, 20, 90):
        assert lance.dataset(uri).to_table(filter=f"a = {a}")["a"].to_pylist() == [a]
