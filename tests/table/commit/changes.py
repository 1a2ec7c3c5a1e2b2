"""Changes of a small table by pylance: with its verbs, or with operations that it prepared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance import LanceOperation

from lance_spark.metadata.operations import ReserveFragments
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.commit.commit import commit

SCHEMA = pa.schema(
    [
        pa.field("a", pa.int32(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("b", pa.int32()),
        pa.field("c", pa.string()),
    ]
)
READ_VERSION = 6

Change = Callable[[lance.LanceDataset, str], Callable[[], object]]
"""Prepares a change of the read version, for "ours" or "theirs", and gives what commits it."""


def rows(first: int, count: int = 3) -> pa.Table:
    numbers = list(range(first, first + count))
    return pa.table({"a": numbers, "b": numbers, "c": [str(n) for n in numbers]}, schema=SCHEMA)


def make_table(folder: Path, stable_row_ids: bool) -> None:
    """Three fragments of three rows, the columns a, b, c and d (all null), an index on b, and the fragment ids 3 and 4 reserved."""
    for i in range(3):
        lance.write_dataset(rows(3 * i), folder, mode="append" if i else "create", enable_stable_row_ids=stable_row_ids)
    ds = lance.dataset(folder)
    ds.add_columns(pa.field("d", pa.int32()))
    ds.create_scalar_index("b", "BTREE", name="of_b")
    commit(Store(str(folder)), Transaction(ds.version, ReserveFragments(2)))
    assert lance.dataset(folder).version == READ_VERSION


def _commit(make: Callable[[lance.LanceDataset, str], LanceOperation.BaseOperation]) -> Change:
    def prepare(ds: lance.LanceDataset, side: str) -> Callable[[], object]:
        operation = make(ds, side)
        return lambda: lance.LanceDataset.commit(ds.uri, operation, read_version=READ_VERSION)

    return prepare


def _verb(run: Callable[[lance.LanceDataset, str], object]) -> Change:
    return lambda ds, side: lambda: run(ds, side)


def _new(ds: lance.LanceDataset, side: str, mode: str = "append") -> list[lance.FragmentMetadata]:
    return list(lance.fragment.write_fragments(rows(100 if side == "ours" else 200), ds.uri, mode=mode))


def _metadata(ds: lance.LanceDataset) -> list[lance.FragmentMetadata]:
    return [f.metadata for f in ds.get_fragments()]


def _rewrite(i: int) -> Change:
    def make(ds: lance.LanceDataset, side: str) -> LanceOperation.Rewrite:
        old = _metadata(ds)[i]
        (new,) = lance.fragment.write_fragments(rows(3 * i), ds.uri, mode="append")
        new.id = 3 + i
        new.row_id_meta, new.created_at_version_meta, new.last_updated_at_version_meta = (
            old.row_id_meta,
            old.created_at_version_meta,
            old.last_updated_at_version_meta,
        )
        return LanceOperation.Rewrite(groups=[LanceOperation.RewriteGroup([old], [new])], rewritten_indices=[])

    return _commit(make)


def _replace(i: int) -> Change:
    """The column d of one fragment, which was null."""

    def make(ds: lance.LanceDataset, side: str) -> LanceOperation.DataReplacement:
        (fragment,) = lance.fragment.write_fragments(pa.table({"d": pa.array([1, 2, 3], pa.int32())}), ds.uri, mode="overwrite")
        (file,) = fragment.files
        file = lance.fragment.DataFile(file.path, [3], [0], file.file_major_version, file.file_minor_version, file.file_size_bytes)
        return LanceOperation.DataReplacement([LanceOperation.DataReplacementGroup(i, file)])

    return _commit(make)


def _replace_all(ds: lance.LanceDataset, side: str) -> LanceOperation.DataReplacement:
    """All columns in the file of the first fragment."""
    (fragment,) = lance.fragment.write_fragments(rows(0), ds.uri, mode="append")
    return LanceOperation.DataReplacement([LanceOperation.DataReplacementGroup(0, fragment.files[0])])


def _config(**updates: str) -> Change:
    kinds: dict[str, Any] = {kind: LanceOperation.UpdateMap({key: "v"}) for kind, key in updates.items()}
    return _commit(lambda ds, side: LanceOperation.UpdateConfig(**kinds))


def _upsert(first: int) -> Change:
    def run(ds: lance.LanceDataset, side: str) -> object:
        return ds.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().conflict_retries(0).execute(rows(first, 2))

    return _verb(run)


def _compact(ds: lance.LanceDataset, side: str) -> object:
    return ds.optimize.compact_files(num_threads=1)


def _reserve(ds: lance.LanceDataset, side: str) -> object:
    # pylance has no such operation of its own; it reserves when it compacts.
    return commit(Store(ds.uri), Transaction(READ_VERSION, ReserveFragments(2)))


def _rewrite_column(ds: lance.LanceDataset, side: str) -> object:
    new = pa.table({"a": [0, 1], "b": [70, 71]}, schema=pa.schema([SCHEMA.field("a"), SCHEMA.field("b")]))
    return ds.merge_insert("a").when_matched_update_all().write_mode("rewrite_columns").conflict_retries(0).execute(new)


def _delete(predicate: str) -> Change:
    return _verb(lambda ds, side: ds.delete(predicate, conflict_retries=0))


def _schema(ds: lance.LanceDataset) -> Any:
    return lance.schema.LanceSchema.from_pyarrow(pa.schema([ds.schema.field("a")]))


def _field_metadata(ds: lance.LanceDataset, side: str) -> LanceOperation.UpdateConfig:
    return LanceOperation.UpdateConfig(field_metadata_updates={1: LanceOperation.UpdateMap({"k": side})})


CHANGES: dict[str, Change] = {
    "append": _commit(lambda ds, side: LanceOperation.Append(_new(ds, side))),
    "delete row 0": _delete("a = 0"),
    "delete row 1": _delete("a = 1"),
    "delete row 4": _delete("a = 4"),
    "delete rows 2 to 4": _delete("a between 2 and 4"),
    "delete nothing": _delete("a = 1000"),
    "delete fragment 0": _delete("a < 3"),
    "delete fragment 0 and row 4": _delete("a < 3 or a = 4"),
    "delete all but row 0": _delete("a > 0"),
    "update row 1": _verb(lambda ds, side: ds.update({"b": "b + 10"}, where="a = 1", conflict_retries=0)),
    "update column c": _verb(lambda ds, side: ds.update({"c": "'x'"}, where="a < 5", conflict_retries=0)),
    "rewrite column b": _verb(_rewrite_column),
    "upsert 2, 3": _upsert(2),
    "upsert 8, 9": _upsert(8),
    "upsert 50, 51": _upsert(50),
    "rewrite fragment 0": _rewrite(0),
    "rewrite fragment 1": _rewrite(1),
    "compact": _verb(_compact),
    "reserve": _verb(_reserve),
    "overwrite": _commit(lambda ds, side: LanceOperation.Overwrite(ds.schema, _new(ds, side, "overwrite"))),
    "restore": _commit(lambda ds, side: LanceOperation.Restore(2)),
    "project": _commit(lambda ds, side: LanceOperation.Project(_schema(ds))),
    "merge": _commit(lambda ds, side: LanceOperation.Merge(_metadata(ds), ds.lance_schema)),
    "add null column": _verb(lambda ds, side: ds.add_columns(pa.field(side, pa.int64()))),
    "add column": _verb(lambda ds, side: ds.add_columns({side: "a + 1"})),
    "drop column b": _verb(lambda ds, side: ds.drop_columns(["b"])),
    "drop column d": _verb(lambda ds, side: ds.drop_columns(["d"])),
    "rename column c": _verb(lambda ds, side: ds.alter_columns({"path": "c", "name": f"{side}_c"})),
    "change type of d": _verb(lambda ds, side: ds.alter_columns({"path": "d", "data_type": pa.int64()})),
    "config 1": _config(config_updates="k1"),
    "config 2": _config(config_updates="k2"),
    "schema metadata": _config(schema_metadata_updates="k"),
    "field metadata": _commit(_field_metadata),
    "table metadata": _config(table_metadata_updates="k"),
    "index c": _verb(lambda ds, side: ds.create_scalar_index("c", "BTREE", name=f"of_c_{side}")),
    "index c by one name": _verb(lambda ds, side: ds.create_scalar_index("c", "BTREE", name="same")),
    "index b anew": _verb(lambda ds, side: ds.create_scalar_index("b", "BTREE", name="of_b", replace=True)),
    "index d": _verb(lambda ds, side: ds.create_scalar_index("d", "BTREE", name=f"of_d_{side}")),
    "drop index": _verb(lambda ds, side: ds.drop_index("of_b")),
    "replace d of fragment 0": _replace(0),
    "replace d of fragment 1": _replace(1),
    "replace file of fragment 0": _commit(_replace_all),
    "add base path": _verb(lambda ds, side: ds.add_bases([lance.DatasetBasePath(f"/{side}", side)])),
    "add base path by one name": _verb(lambda ds, side: ds.add_bases([lance.DatasetBasePath(f"/{side}", "same")])),
}
