"""Invalid hand-made operations are refused with the reason and change nothing; accepted ones make readable versions."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark.errors import LanceError
from lance_spark.metadata.deletion_file import write_deletions
from lance_spark.metadata.manifest import BasePath, DataFile, DeletionFile, ExternalFile, Fragment, IndexFile, IndexMetadata
from lance_spark.metadata.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    DataReplacementGroup,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
)
from lance_spark.schema.schema import Field, Schema
from lance_spark.storage.store import Store
from lance_spark.table.write import write

SCHEMA = pa.schema(
    [
        pa.field("a", pa.int64(), False),
        pa.field("b", pa.string()),
        pa.field("s", pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.float64())])),
    ]
)


def rows(first: int, count: int = 4) -> pa.Table:
    return pa.table(
        {
            "a": list(range(first, first + count)),
            "b": [str(i) for i in range(count)],
            "s": [{"x": i, "y": i / 2} for i in range(count)],
        },
        schema=SCHEMA,
    )


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable row ids"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three fragments of four rows; one row of the second is deleted; an index."""
    folder = tmp_path_factory.mktemp("original") / "t"
    for i in range(3):
        mode = "append" if i else "create"
        lance.write_dataset(rows(10 * i), folder, mode=mode, enable_stable_row_ids=request.param, data_storage_version="2.1")
    lance.dataset(folder).delete("a = 11")
    lance.dataset(folder).create_scalar_index("a", "BTREE")
    return folder


@pytest.fixture
def ds(original: Path, tmp_path: Path) -> Dataset:
    shutil.copytree(original, tmp_path / "t")
    return Dataset.open(str(tmp_path / "t"))


Make = Callable[[Dataset], Operation]


def fragments(ds: Dataset) -> tuple[Fragment, ...]:
    return tuple(ds.snapshot.manifest.fragments)


def schema(ds: Dataset) -> Schema:
    return ds.snapshot.manifest.schema


def new(ds: Dataset, count: int = 4, columns: list[str] | None = None) -> Fragment:
    """A fragment with a file that no version refers to."""
    table = rows(90, count).select(columns or SCHEMA.names)
    (fragment,) = write.write_fragments(write.begin_write(ds.uri, table.schema, "append"), table.to_batches())
    return fragment


def old_format(ds: Dataset) -> Fragment:
    """A fragment with a file of another storage version than the table's."""
    (written,) = lance.fragment.write_fragments(rows(90), ds.uri, mode="overwrite", data_storage_version="2.0")
    (f,) = written.files
    version = (f.file_major_version, f.file_minor_version)
    return Fragment(0, (DataFile(f.path, tuple(f.fields), tuple(f.column_indices), version, f.file_size_bytes),), 4)


def of_file(fragment: Fragment, **changes: object) -> Fragment:
    return replace(fragment, files=(replace(fragment.files[0], **changes),))  # type: ignore[arg-type]


def deletion(ds: Dataset, fragment_id: int = 0, rows: tuple[int, ...] = (0,)) -> DeletionFile:
    return write_deletions(Store(ds.uri), fragment_id, ds.version, np.array(rows, np.uint32))


def first(ds: Dataset, **changes: object) -> tuple[Fragment, ...]:
    """The table's fragments with the first one changed."""
    return (replace(fragments(ds)[0], **changes), *fragments(ds)[1:])  # type: ignore[arg-type]


def column(ds: Dataset, number: int, **changes: object) -> Schema:
    """The schema with one column changed."""
    fields = list(schema(ds).fields)
    fields[number] = replace(fields[number], **changes)  # type: ignore[arg-type]
    return replace(schema(ds), fields=tuple(fields))


def with_column(ds: Dataset, field: Field) -> Schema:
    return replace(schema(ds), fields=(*schema(ds).fields, field))


def replaced(file: Fragment, fragment_id: int = 0) -> DataReplacementGroup:
    return DataReplacementGroup(fragment_id, file.files[0])


def index(ds: Dataset, **changes: object) -> IndexMetadata:
    made = IndexMetadata(b"\1" * 16, "i", (0,), ds.version, BitMap([0]).serialize(), "/lance.table.BTreeIndexDetails", b"", 0)
    return replace(made, **changes)  # type: ignore[arg-type]


def moved(ds: Dataset, number: int, *to: Fragment) -> RewriteGroup:
    old = fragments(ds)[number]
    return RewriteGroup((old,), tuple(replace(f, row_ids=old.row_ids) for f in to))


REFUSED: dict[str, tuple[Make, str]] = {
    # Files of another storage version
    "append another format": (lambda ds: Append((old_format(ds),)), "storage version 2.0; expected the table's version 2.1"),
    "overwrite another format": (lambda ds: Overwrite((old_format(ds),), schema(ds)), "storage version 2.0"),
    "replace by another format": (lambda ds: DataReplacement((replaced(old_format(ds)),)), "storage version 2.0"),
    "merge another format": (lambda ds: Merge(first(ds, files=old_format(ds).files), schema(ds)), "storage version 2.0"),
    "insert another format": (lambda ds: Update(new_fragments=(old_format(ds),)), "storage version 2.0"),
    "update to another format": (lambda ds: Update(updated_fragments=first(ds, files=old_format(ds).files)[:1]), "storage version 2.0"),
    "delete from another format": (
        lambda ds: Delete(first(ds, files=old_format(ds).files, deletion=deletion(ds))[:1]),
        "storage version 2.0",
    ),
    "rewrite to another format": (lambda ds: Rewrite((moved(ds, 0, old_format(ds)),)), "storage version 2.0"),
    # Deletion files
    "append with deletions": (lambda ds: Append((replace(new(ds), deletion=deletion(ds)),)), "would get a new id"),
    "append what has deletions": (lambda ds: Append((fragments(ds)[1],)), "would get a new id"),
    "overwrite with deletions": (lambda ds: Overwrite((replace(new(ds), deletion=deletion(ds)),), schema(ds)), "would get a new id"),
    "overwrite with itself": (lambda ds: Overwrite(fragments(ds), schema(ds)), "would get a new id"),
    "insert with deletions": (lambda ds: Update(new_fragments=(replace(new(ds), deletion=deletion(ds)),)), "would get a new id"),
    "rewrite with deletions": (lambda ds: Rewrite((moved(ds, 0, replace(new(ds), deletion=deletion(ds))),)), "would get a new id"),
    "more deleted than there are": (
        lambda ds: Delete(first(ds, deletion=replace(deletion(ds), num_deleted=300))[:1]),
        "4 rows, but 300 deleted rows",
    ),
    # Schemas
    "another type": (lambda ds: Merge(fragments(ds), column(ds, 0, logical_type="int32")), "change its type from int64 to int32"),
    "another type by a project": (lambda ds: Project(column(ds, 0, logical_type="string")), "change its type from int64 to string"),
    "another type in a struct": (
        lambda ds: Merge(fragments(ds), column(ds, 2, children=(replace(schema(ds).fields[2].children[0], logical_type="int64"),))),
        "'x' cannot change its type",
    ),
    "another type of one fragment": (
        lambda ds: Merge(first(ds, files=new(ds).files), column(ds, 0, logical_type="uint64")),
        "new data files, which fragment 1 lacks",
    ),
    "no nulls any more": (lambda ds: Merge(fragments(ds), column(ds, 1, nullable=False)), "become non-nullable"),
    "out of its struct": (
        lambda ds: Merge(fragments(ds), replace(schema(ds), fields=(*schema(ds).fields[:2], *schema(ds).fields[2].children))),
        "move to another parent",
    ),
    "ids exchanged": (
        lambda ds: Project(replace(schema(ds), fields=(replace(schema(ds).fields[0], id=1), replace(schema(ds).fields[1], id=0)))),
        "cannot change its type",
    ),
    "a blob": (lambda ds: UpdateConfig(field_metadata_updates={1: UpdateMap({"lance-encoding:blob": "true"})}), "change between a blob"),
    "a wrong extension": (
        lambda ds: UpdateConfig(field_metadata_updates={1: UpdateMap({"ARROW:extension:name": "arrow.uuid"})}),
        "extension type",
    ),
    "a name twice": (lambda ds: Merge(fragments(ds), with_column(ds, Field("a", 9, "int32"))), "two columns called 'a'"),
    "a name twice by a project": (lambda ds: Project(column(ds, 1, name="a")), "two columns called 'a'"),
    "a name twice by an overwrite": (lambda ds: Overwrite((new(ds),), column(ds, 1, name="a")), "two columns called 'a'"),
    "a name twice in a struct": (
        lambda ds: Merge(fragments(ds), column(ds, 2, children=(*schema(ds).fields[2].children, Field("x", 9, "int8")))),
        "two columns called 'x'",
    ),
    "a column twice": (lambda ds: Project(replace(schema(ds), fields=schema(ds).fields[:1] * 2)), "two columns|duplicate field ids"),
    "an id twice": (lambda ds: Merge(fragments(ds), with_column(ds, Field("n", 0, "int64"))), r"duplicate field ids \[0\]"),
    "a negative id": (lambda ds: Merge(fragments(ds), with_column(ds, Field("n", -1, "int64"))), r"invalid or duplicate field ids \[-1\]"),
    "no name": (lambda ds: Merge(fragments(ds), with_column(ds, Field("", 9, "int64"))), "has no name"),
    "a reserved name": (lambda ds: Merge(fragments(ds), with_column(ds, Field("_rowid", 9, "uint64"))), "reserved"),
    "an unknown type": (lambda ds: Merge(fragments(ds), with_column(ds, Field("n", 9, "wibble"))), "unknown logical type 'wibble'"),
    "a list of nothing": (lambda ds: Overwrite((new(ds),), with_column(ds, Field("n", 9, "list"))), "unknown logical type 'list'"),
    "a number with parts": (
        lambda ds: Project(with_column(ds, Field("n", 9, "int32", True, (Field("k", 10, "int8"),)))),
        "unknown nested type",
    ),
    "no columns": (lambda ds: Merge(fragments(ds), Schema(())), "must have columns"),
    "no columns by a project": (lambda ds: Project(Schema(())), "must have columns"),
    "the id of a dropped column": (lambda ds: Merge(fragments(ds.drop_columns(["b"])), schema(ds)), "use for a dropped column"),
    "a required column without values": (lambda ds: Project(with_column(ds, Field("n", 9, "int32", False))), "lacks the column 'n'"),
    "a required column without values by a merge": (
        lambda ds: Merge(fragments(ds), with_column(ds, Field("n", 9, "int32", False))),
        "lacks the column 'n'",
    ),
    "a required column that the new files lack": (
        lambda ds: Overwrite((new(ds),), with_column(ds, Field("n", 9, "int32", False))),
        "lacks the column 'n'",
    ),
    "columns of other ids": (lambda ds: Overwrite((new(ds),), Schema((Field("n", 19, "int32"),))), "none of the table's columns"),
    # Fragments
    "no rows": (lambda ds: Append((replace(new(ds), physical_rows=0),)), "0 rows; expected 1 to"),
    "insert no rows": (lambda ds: Update(new_fragments=(replace(new(ds), physical_rows=0),)), "0 rows"),
    "too many rows": (lambda ds: Append((replace(new(ds), physical_rows=2**32 + 1),)), "4294967297 rows"),
    "less than no rows": (lambda ds: Append((replace(new(ds), physical_rows=-1),)), "out of range"),
    "no files": (lambda ds: Append((Fragment(0, (), 4),)), "no data files"),
    "no files any more": (lambda ds: Merge(first(ds, files=()), schema(ds)), "fragment 0 would have no data files"),
    "no columns in a file": (lambda ds: Append((of_file(new(ds), fields=(), column_indices=()),)), "has no columns"),
    "a path out of the table": (lambda ds: Append((of_file(new(ds), path="../x.lance"),)), "outside of the table"),
    "a field twice": (lambda ds: Append((replace(new(ds), files=new(ds).files * 2),)), "two columns for the field 0"),
    "a field twice by a merge": (
        lambda ds: Merge(first(ds, files=(*fragments(ds)[0].files, *new(ds).files)), schema(ds)),
        "two columns for the field 0",
    ),
    "fewer columns than fields": (lambda ds: Append((of_file(new(ds), column_indices=(0,)),)), "a separate column for each field"),
    "fields of one column": (lambda ds: Append((of_file(new(ds), column_indices=(0, 0, 1, 2)),)), "a separate column for each field"),
    "no required column": (
        lambda ds: Append((new(ds, columns=["a"]), of_file(new(ds, columns=["a"]), fields=(1,)))),
        "lacks the column 'a'",
    ),
    "no required column any more": (
        lambda ds: Merge(first(ds, files=(replace(fragments(ds)[0].files[0], fields=(-2, 1, 3, 4)),)), schema(ds)),
        "lacks the column 'a'",
    ),
    "an unknown base path": (lambda ds: Append((of_file(new(ds), base_id=7),)), "base path 7"),
    "appended row ids": (lambda ds: Append((replace(new(ds), row_ids=fragments(ds)[0].row_ids or b"\n\4\n\2\20\4"),)), "has row ids, but"),
    "appended row ids in a file": (lambda ds: Append((replace(new(ds), row_ids=ExternalFile("x", 0, 10)),)), "has row ids, but"),
    "an id that is taken": (lambda ds: Update(new_fragments=(replace(new(ds), id=1),)), "two fragments would have the id 1"),
    "an id beyond all": (lambda ds: Update(new_fragments=(replace(new(ds), id=2**32),)), "the maximum is 4294967295"),
    "other rows": (lambda ds: Delete(first(ds, physical_rows=30, deletion=deletion(ds))[:1]), "has 30 rows; expected 4"),
    "named twice": (lambda ds: Delete(first(ds, deletion=deletion(ds))[:1], (0,)), "is duplicated"),
    "removed twice": (lambda ds: Update(removed_fragment_ids=(0, 0)), "is duplicated"),
    "an unknown update mode": (lambda ds: Update(new_fragments=(new(ds),), update_mode=7), "unknown update mode 7"),
    "offsets that are no bitmap": (
        lambda ds: Update(updated_fragments=fragments(ds)[:1], updated_fragment_offsets={0: b"xx"}),
        "not a roaring bitmap",
    ),
    "merged twice": (lambda ds: Merge(fragments(ds) * 2, schema(ds)), "two fragments would have the id"),
    # Moved rows
    "fewer rows": (lambda ds: Rewrite((moved(ds, 0, replace(new(ds, 3), row_ids=None)),)), "4 rows and the new ones 3"),
    "more rows": (lambda ds: Rewrite((moved(ds, 1, new(ds)),)), "3 rows and the new ones 4"),
    "rows out of nothing": (lambda ds: Rewrite((RewriteGroup((), moved(ds, 0, new(ds)).new_fragments),)), "have 0 rows and the new ones"),
    "moved twice": (lambda ds: Rewrite((moved(ds, 0, new(ds)), moved(ds, 0, new(ds)))), "is duplicated"),
    "moved to an id that is taken": (lambda ds: Rewrite((moved(ds, 0, replace(new(ds), id=2)),)), "two fragments would have the id 2"),
    # Replaced files
    "an unknown field": (
        lambda ds: DataReplacement((replaced(of_file(new(ds, columns=["a"]), fields=(55,))),)),
        r"no fields with the ids \[55\]",
    ),
    "replaced twice": (lambda ds: DataReplacement((replaced(new(ds)), replaced(new(ds)))), "is duplicated"),
    "replaced by no columns": (lambda ds: DataReplacement((replaced(of_file(new(ds), fields=(), column_indices=())),)), "has no columns"),
    "replaced from elsewhere": (lambda ds: DataReplacement((replaced(of_file(new(ds), base_id=7)),)), "base path 7"),
    # Indexes, ids, base paths
    "a short uuid": (lambda ds: CreateIndex((index(ds, uuid=b"1"),)), "16 bytes"),
    "an index twice": (lambda ds: CreateIndex((index(ds), index(ds, name="j"))), "that no other index has"),
    "fragments that are no bitmap": (lambda ds: CreateIndex((index(ds, fragment_bitmap=b"xxxx"),)), "not a roaring bitmap"),
    "an index elsewhere": (lambda ds: CreateIndex((index(ds, base_id=9),)), "base path 9"),
    "all ids": (lambda ds: ReserveFragments(2**32 - 1), "the maximum is 4294967295"),
    "a base path twice": (lambda ds: UpdateBases((BasePath(5, "/x", False), BasePath(5, "/y", False))), "duplicate base path ids"),
    "an empty base path": (lambda ds: UpdateBases((BasePath(5, "", False),)), "is empty"),
    "a version that is not there": (lambda ds: Restore(99), "no version 99"),
    # Files that are not what the operation says
    "no such file": (lambda ds: Append((of_file(new(ds), path="none.lance"),)), "none.lance"),
    "another size": (lambda ds: Append((of_file(new(ds), size=7),)), "expected 7"),
    "fewer rows than the file": (lambda ds: Append((replace(new(ds), physical_rows=3),)), "has 4 rows, expected 3"),
    "more rows than the file": (lambda ds: Overwrite((replace(new(ds), physical_rows=5),), schema(ds)), "has 4 rows, expected 5"),
    "replaced by fewer rows": (lambda ds: DataReplacement((replaced(new(ds, 2)),)), "has 2 rows, expected 4"),
    "columns that the file lacks": (lambda ds: Append((of_file(new(ds), column_indices=(0, 1, 2, 99)),)), "in column 99"),
    "columns exchanged": (
        lambda ds: Append((of_file(new(ds), column_indices=(1, 0, 2, 3)),)),
        r"column 1 has the type string, but its field 'a'",
    ),
    "another type than in the file": (lambda ds: Overwrite((new(ds),), column(ds, 0, logical_type="int32")), "but its field 'a'"),
    "another type in its place": (
        lambda ds: DataReplacement((replaced(of_file(new(ds, columns=["a"]), fields=(1,))),)),
        r"column 0 has the type int64, but its field 'b'",
    ),
    "no such deletion file": (lambda ds: Delete(first(ds, deletion=DeletionFile(False, 1, 77, 1))[:1]), "0-1-77.arrow"),
    "no such deletion file by a merge": (lambda ds: Merge(first(ds, deletion=DeletionFile(False, 1, 77, 1)), schema(ds)), "0-1-77.arrow"),
    "another number of deleted rows": (
        lambda ds: Delete(first(ds, deletion=replace(deletion(ds), num_deleted=3))[:1]),
        "it has 1 deleted rows, expected 3",
    ),
    "deleted rows beyond the last": (lambda ds: Delete(first(ds, deletion=deletion(ds, rows=(4,)))[:1]), "deletes row 4"),
    "no such index file": (lambda ds: CreateIndex((index(ds, files=(IndexFile("x.lance", 9),)),)), "x.lance"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_unreadable_version_is_refused_with_the_reason(ds: Dataset, name: str) -> None:
    make, reason = REFUSED[name]
    operation = make(ds)
    version = lance.dataset(ds.uri).version
    transactions = sorted(Path(ds.uri, "_transactions").iterdir())
    with pytest.raises((ValueError, LanceError), match=reason):
        Dataset.commit(ds.uri, operation, version)
    assert lance.dataset(ds.uri).version == version
    assert sorted(Path(ds.uri, "_transactions").iterdir()) == transactions


ACCEPTED: dict[str, tuple[Make, int]] = {
    "append": (lambda ds: Append((new(ds),)), 15),
    "append nothing": (lambda ds: Append(()), 11),
    "append fewer columns": (lambda ds: Append((new(ds, columns=["a"]),)), 15),
    "append with an id": (lambda ds: Append((replace(new(ds), id=1),)), 15),
    "overwrite": (lambda ds: Overwrite((new(ds),), schema(ds)), 4),
    "overwrite with a part of itself": (lambda ds: Overwrite(fragments(ds)[:1], schema(ds)), 4),
    "overwrite with nothing": (lambda ds: Overwrite((), schema(ds)), 0),
    "delete": (lambda ds: Delete(first(ds, deletion=deletion(ds))[:1], (2,)), 6),
    "delete all rows": (lambda ds: Delete(first(ds, deletion=deletion(ds, rows=(0, 1, 2, 3)))[:1]), 7),
    "update": (lambda ds: Update((2,), first(ds, deletion=deletion(ds))[:1], (new(ds), new(ds, 1))), 11),
    "insert with an id": (lambda ds: Update(new_fragments=(replace(new(ds), id=100),)), 15),
    "rewrite": (lambda ds: Rewrite((moved(ds, 0, new(ds)),)), 11),
    "rewrite in place": (lambda ds: Rewrite((moved(ds, 2, replace(new(ds), id=2)),)), 11),
    "merge a nullable column": (lambda ds: Merge(fragments(ds), with_column(ds, Field("n", 9, "int32"))), 11),
    "merge new names": (lambda ds: Merge(fragments(ds), column(ds, 0, name="q")), 11),
    "merge fewer columns": (lambda ds: Merge(fragments(ds), replace(schema(ds), fields=schema(ds).fields[1:])), 11),
    "merge a new fragment": (lambda ds: Merge((*fragments(ds), new(ds), new(ds)), schema(ds)), 19),
    "merge a new fragment with an id": (lambda ds: Merge((*fragments(ds), replace(new(ds), id=9)), schema(ds)), 15),
    "merge a part of a struct": (
        lambda ds: Merge(fragments(ds), column(ds, 2, children=(*schema(ds).fields[2].children[::-1], Field("z", 9, "int8")))),
        11,
    ),
    "project": (lambda ds: Project(replace(schema(ds), fields=schema(ds).fields[::-1][:2])), 11),
    "replace": (lambda ds: DataReplacement((replaced(new(ds)), replaced(new(ds), 2))), 11),
    "replace nothing": (lambda ds: DataReplacement(()), 11),
    "index": (lambda ds: CreateIndex((), ds.snapshot.manifest.indexes), 11),
    "reserve": (lambda ds: ReserveFragments(5), 11),
    "base": (lambda ds: UpdateBases((BasePath(0, "/x", False), BasePath(0, "/y", False))), 11),
    "config": (lambda ds: UpdateConfig(UpdateMap({"k": "v"}), field_metadata_updates={1: UpdateMap({"k": "v"})}), 11),
    "restore": (lambda ds: Restore(2), 8),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_accepted_version_is_valid_for_pylance(ds: Dataset, name: str) -> None:
    make, count = ACCEPTED[name]
    after = Dataset.commit(ds.uri, make(ds), ds.version)
    theirs = lance.dataset(ds.uri)
    theirs.validate()
    assert theirs.to_table().to_pydict() == after.scan().to_table().to_pydict()
    assert theirs.count_rows() == after.count_rows() == count
    lance.write_dataset(theirs.to_table().slice(0, 1), ds.uri, mode="append")
    lance.dataset(ds.uri).delete("true")
    lance.dataset(ds.uri).validate()
