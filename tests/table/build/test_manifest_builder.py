"""The manifest builder: operations that it refuses, and those that no verb of pylance makes; test_every_conflict has the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from lance_spark.errors import TableNotFoundError, UnsupportedFeatureError
from lance_spark.metadata import operations as ops
from lance_spark.metadata.manifest import BasePath, DataFile, Fragment, IndexMetadata, Manifest
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Schema, from_arrow
from lance_spark.table.build.manifest_builder import WRITER, TableSettings, build

KEY, POSITION = "lance-schema:unenforced-primary-key", "lance-schema:unenforced-primary-key:position"
SCHEMA = from_arrow(pa.schema([("a", pa.int32()), ("b", pa.int32()), ("s", pa.struct([("x", pa.int8())]))]))
FILE = DataFile("f", (0, 1), (0, 1), (2, 2), 9)
FRAGMENTS = tuple(Fragment(i, (FILE,), 10) for i in (0, 1))
TABLE = Manifest(3, SCHEMA, FRAGMENTS, max_fragment_id=4, data_format="2.2", writer=WRITER, base_paths=(BasePath(7, "/p", True, "n"),))


def after(operation: ops.Operation, table: Manifest | None = TABLE, source: Manifest | None = None) -> Manifest:
    return build(table, Transaction(3, operation), TableSettings(), 1, source)


def replaced(fields: tuple[int, ...], fragment: int = 0, version: tuple[int, int] = (2, 2)) -> ops.DataReplacement:
    return ops.DataReplacement((ops.DataReplacementGroup(fragment, DataFile("n", fields, tuple(range(len(fields))), version)),))


def metadata(field: int, **values: str | None) -> ops.UpdateConfig:
    return ops.UpdateConfig(field_metadata_updates={field: ops.UpdateMap({KEY if k == "key" else POSITION: v for k, v in values.items()})})


REFUSED: dict[str, tuple[ops.Operation, str]] = {
    "deleting what is not there": (ops.Delete((Fragment(9, (FILE,), 1),)), r"no fragments with the ids \[9\]"),
    "removing what is not there": (ops.Delete((), (9,)), r"no fragments with the ids \[9\]"),
    "rewriting what is not there": (ops.Rewrite((ops.RewriteGroup((Fragment(9, (), 1),), ()),)), r"no fragments with the ids \[9\]"),
    "replacing a file of what is not there": (replaced((0, 1), 9), r"no fragments with the ids \[9\]"),
    "replacing with different columns": (
        ops.DataReplacement((*replaced((0,)).replacements, *replaced((1,), 1).replacements)),
        "same fields",
    ),
    "replacing some columns": (replaced((1, 3)), "has only some of the columns"),
    "merging without a fragment": (ops.Merge(FRAGMENTS[:1], SCHEMA), r"lacks \[1\]"),
    "merging other rows": (ops.Merge((FRAGMENTS[0], replace(FRAGMENTS[1], physical_rows=3)), SCHEMA), r"lacks \[1\]"),
    "restoring what is not given": (ops.Restore(1), "version 1"),
    "metadata of no field": (metadata(9, key="true"), r"no fields with the ids \[9\]"),
    "an invalid key": (metadata(0, key="perhaps"), "invalid metadata"),
    "a base path twice": (ops.UpdateBases((BasePath(0, "/p", False),)), "base path '/p'"),
    "a base path name twice": (ops.UpdateBases((BasePath(0, "/q", False, "n"),)), "with the name 'n'"),
    "a merge of a log that is not there": (ops.Update(compacted_sstables=(b"",)), "the table has none"),
    "base paths with an overwrite": (ops.Overwrite((), SCHEMA, {}, (BasePath(0, "/q", False),)), "UpdateBases"),
}


@pytest.mark.parametrize(("operation", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_an_operation_that_does_not_fit_the_table_is_refused(operation: ops.Operation, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        after(operation)


@pytest.mark.parametrize(
    "operation",
    [ops.Clone(True, 1, "/x"), ops.DataOverlay(()), ops.UpdateMemWalState(), ops.Unknown(b"")],
)
def test_unsupported_changes_are_refused_by_name(operation: ops.Operation) -> None:
    with pytest.raises(UnsupportedFeatureError):
        after(operation)


def test_only_an_overwrite_creates_a_table() -> None:
    with pytest.raises(TableNotFoundError, match="Delete"):
        after(ops.Delete(), None)
    first = after(ops.Overwrite(tuple(replace(f, files=(replace(FILE, version=(2, 1)),)) for f in FRAGMENTS), SCHEMA), None)
    assert (first.version, first.data_format, [f.id for f in first.fragments]) == (1, "2.1", [0, 1])


def test_a_primary_key_is_set_once() -> None:
    with pytest.raises(ValueError, match="'a' is in the primary key, so it must not be nullable"):
        after(metadata(0, position="1"))
    required = Schema((replace(SCHEMA.fields[0], nullable=False), *SCHEMA.fields[1:]))
    keyed = after(metadata(0, position="1"), replace(TABLE, schema=required))
    assert [f.metadata for f in keyed.schema.fields[:2]] == [{POSITION.encode(): b"1"}, {}]
    for change in (metadata(0, position=None), metadata(0, position="2"), metadata(1, key="true")):
        with pytest.raises(ValueError, match="cannot be changed"):
            after(change, keyed)
    other = after(ops.UpdateConfig(field_metadata_updates={3: ops.UpdateMap({"unit": "m"}), 0: ops.UpdateMap({"k": "v"})}), keyed)
    assert other.schema.fields[0].metadata == {POSITION.encode(): b"1", b"k": b"v"}
    assert other.schema.fields[2].children[0].metadata == {b"unit": b"m"}


FILES: dict[str, tuple[tuple[int, ...], Callable[[Fragment], bool]]] = {
    "the same columns": ((0, 1), lambda f: f.files == (replace(FILE, path="n", size=None),)),
    "a column of a wider file": ((1,), lambda f: [d.fields for d in f.files] == [(0, -2), (1,)]),
    "a column without values": ((3,), lambda f: [d.fields for d in f.files] == [(0, 1), (3,)]),
}


@pytest.mark.parametrize(("fields", "holds"), FILES.values(), ids=FILES.keys())
def test_a_replaced_file(fields: tuple[int, ...], holds: Callable[[Fragment], bool]) -> None:
    fragments = after(replaced(fields)).fragments
    assert holds(fragments[0])
    assert fragments[1] == FRAGMENTS[1]


def test_columns_of_old_files_are_replaced_as_a_whole_only() -> None:
    old = replace(TABLE, fragments=tuple(replace(f, files=(replace(FILE, version=(0, 2), column_indices=()),)) for f in FRAGMENTS))
    with pytest.raises(ValueError, match=r"in 0\.1 files"):
        after(replaced((1,)), old)


def test_files_without_remaining_columns_are_dropped() -> None:
    updated = replace(FRAGMENTS[0], files=(replace(FILE, fields=(-2, -2)), replace(FILE, path="n")))
    assert [f.path for f in after(ops.Update((), (updated,), (), (0, 1), update_mode=ops.REWRITE_COLUMNS)).fragments[0].files] == ["n"]


def test_base_paths_get_ids_after_the_highest() -> None:
    bases = after(ops.UpdateBases((BasePath(0, "/q", False), BasePath(0, "/r", True, "m")))).base_paths
    assert [(b.id, b.path) for b in bases] == [(7, "/p"), (8, "/q"), (9, "/r")]


def test_a_restored_table_does_not_reuse_ids() -> None:
    source = replace(TABLE, version=1, fragments=FRAGMENTS[:1], max_fragment_id=0, next_row_id=5, config={"old": "1"}, transaction=b"old")
    done = after(ops.Restore(1), replace(TABLE, next_row_id=20, config={"new": "2"}), source)
    assert (done.version, done.max_fragment_id, done.next_row_id, done.config) == (4, 4, 20, {"old": "1"})
    assert done.fragments == FRAGMENTS[:1]


def test_details_of_unknown_indexes_are_kept() -> None:
    index = IndexMetadata(bytes(16), "i", (1,), 2, b"", "/other.Details", b"\x01\xff", 7, 8, None, (), (), b"\xf2\x3f\x01x")
    indexed = replace(TABLE, indexes=(index,))
    for operation in (ops.Append(FRAGMENTS), ops.Delete((), (0,)), ops.UpdateConfig(), ops.ReserveFragments(2), ops.Project(SCHEMA)):
        assert after(operation, indexed).indexes == (index,)
    assert after(ops.CreateIndex((), (index,)), indexed).indexes == ()
    assert after(ops.Project(replace(SCHEMA, fields=SCHEMA.fields[:1])), indexed).indexes == ()
