"""The conflict rules: complete, documented, and equal to pylance where this can be tested."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyroaring import BitMap

from lance_spark.metadata import operations as ops
from lance_spark.metadata.fragment import BasePath, DataFile, Fragment, IndexMetadata
from lance_spark.metadata.transaction import OPERATIONS
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.commit.conflict_conditions import touched
from lance_spark.table.commit.conflicts import RULES, Outcome, judge, markdown

ROOT = Path(__file__).parents[3]


def test_the_rules_cover_every_pair_of_operations() -> None:
    every = {kind for kind, _, _ in OPERATIONS.values()}
    assert set(RULES) | {ops.Clone, ops.DataOverlay, ops.UpdateMemWalState} == every
    for ours, row in RULES.items():
        assert set(row) == every, ours


def test_an_unknown_operation_conflicts_with_everything() -> None:
    for ours in (ops.Append(()), ops.Restore(1), ops.UpdateConfig()):
        assert judge(ours, ops.Unknown(b"")).outcome is Outcome.INCOMPATIBLE
    assert judge(ops.Unknown(b""), ops.Append(())).outcome is Outcome.INCOMPATIBLE


def test_the_conflicts_page_is_generated_from_the_rules() -> None:
    assert (ROOT / "docs" / "conflicts.md").read_text() == markdown()


def _index(name: str = "i", fields: tuple[int, ...] = (0,), covers: tuple[int, ...] | None = (0, 1)) -> ops.CreateIndex:
    bitmap = BitMap(covers).serialize() if covers is not None else b""
    return ops.CreateIndex((IndexMetadata(bytes(16), name, fields, 1, bitmap),))


def _moved(*ids: int) -> ops.Rewrite:
    return ops.Rewrite((ops.RewriteGroup(tuple(Fragment(i, (), 1) for i in ids), ()),))


def _replaced(fragment: int, field: int) -> ops.DataReplacement:
    return ops.DataReplacement((ops.DataReplacementGroup(fragment, DataFile("x", (field,))),))


def _inserts(*hashes: int) -> ops.Update:
    return ops.Update(inserted_keys=ops.InsertedKeys((0,), hashes))


def _filtered(bloom: bytes) -> ops.Update:
    return ops.Update(inserted_keys=ops.InsertedKeys((0,), None, bloom, 8, 1, 0.5))


FRAGMENT = Fragment(5, (), 1)
MERGE = ops.Merge((), Schema(()), preserves_nullability=True)
CONFIG_REMOVAL = ops.UpdateConfig(ops.UpdateMap({"k": None}))
COLUMN, NONE = Schema((Field("x", 3, "int64"),)), Schema(())
OF_COLUMN = Fragment(5, (DataFile("f", (3,)),), 1)
OF_FIELD = ops.UpdateConfig(field_metadata_updates={3: ops.UpdateMap({"k": "v"})})
CONFIG = ops.UpdateConfig(ops.UpdateMap({"k": "v"}))


def _project(schema: Schema) -> ops.Project:
    return ops.Project(schema, preserves_nullability=True)


def _merge(schema: Schema) -> ops.Merge:
    return ops.Merge((), schema, preserves_nullability=True)


KEEPING = ops.Overwrite((), COLUMN, keeps_columns=True)
REPLACED = ops.CreateIndex(_index("i").new_indices, (IndexMetadata(bytes(range(16)), "i", (0,), 1),))
CASES = {
    "an append is not stopped by a merge that keeps nullability": (
        ops.Append(()),
        ops.Merge((), Schema(()), preserves_nullability=True),
        Outcome.COMPATIBLE,
    ),
    "an append to a dropped column": (ops.Append((OF_COLUMN,)), _project(NONE), Outcome.RETRYABLE),
    "an append to a renamed column": (ops.Append((OF_COLUMN,)), _project(COLUMN), Outcome.COMPATIBLE),
    "an append to a column of a new type": (ops.Append((OF_COLUMN,)), _merge(NONE), Outcome.RETRYABLE),
    "an append beside a new column": (ops.Append((OF_COLUMN,)), _merge(COLUMN), Outcome.COMPATIBLE),
    "dropping a column of new rows": (_project(NONE), ops.Append((OF_COLUMN,)), Outcome.COMPATIBLE),
    "a new type for a column of new rows": (_merge(NONE), ops.Append((OF_COLUMN,)), Outcome.RETRYABLE),
    "a delete that would keep a dropped file": (ops.Delete((OF_COLUMN,)), _project(NONE), Outcome.RETRYABLE),
    "a delete beside a renamed column": (ops.Delete((OF_COLUMN,)), _project(COLUMN), Outcome.COMPATIBLE),
    "dropping a column of deleted rows": (_project(NONE), ops.Delete((OF_COLUMN,)), Outcome.COMPATIBLE),
    "an update that would keep a dropped file": (ops.Update((), (OF_COLUMN,)), _project(NONE), Outcome.RETRYABLE),
    "an update beside a renamed column": (ops.Update((), (OF_COLUMN,)), _project(COLUMN), Outcome.COMPATIBLE),
    "an index of a dropped column": (_index(fields=(3,)), _project(NONE), Outcome.RETRYABLE),
    "an index of a renamed column": (_index(fields=(3,)), _project(COLUMN), Outcome.COMPATIBLE),
    "an index of a column of a new type": (_index(fields=(3,)), _merge(NONE), Outcome.RETRYABLE),
    "an index beside a new column": (_index(fields=(3,)), _merge(COLUMN), Outcome.REBASE),
    "dropping a column with a new index": (_project(NONE), _index(fields=(3,)), Outcome.COMPATIBLE),
    "a new type for a column with a new index": (_merge(NONE), _index(fields=(3,)), Outcome.RETRYABLE),
    "a new column beside a new index": (_merge(COLUMN), _index(fields=(3,)), Outcome.COMPATIBLE),
    "a rename after new metadata of a column": (_project(COLUMN), OF_FIELD, Outcome.RETRYABLE),
    "a rename after a new config": (_project(COLUMN), CONFIG, Outcome.COMPATIBLE),
    "metadata of a renamed column": (OF_FIELD, _project(COLUMN), Outcome.COMPATIBLE),
    "metadata of a dropped column": (OF_FIELD, _project(NONE), Outcome.INCOMPATIBLE),
    "a new column after new metadata": (_merge(COLUMN), OF_FIELD, Outcome.RETRYABLE),
    "metadata after a new column": (OF_FIELD, _merge(COLUMN), Outcome.RETRYABLE),
    **{
        f"an overwrite that {'keeps' if keeps else 'gives'} the columns after {name}": (
            ops.Overwrite((), COLUMN, keeps_columns=keeps),
            theirs,
            Outcome.RETRYABLE if keeps and theirs != CONFIG else Outcome.COMPATIBLE,
        )
        for keeps in (True, False)
        for name, theirs in {
            "a rename": _project(COLUMN),
            "a new column": _merge(COLUMN),
            "new metadata": OF_FIELD,
            "a new config": CONFIG,
            "a restore": ops.Restore(1),
        }.items()
    },
    "a rename after an overwrite": (_project(COLUMN), KEEPING, Outcome.INCOMPATIBLE),
    "a new column after an overwrite": (_merge(COLUMN), KEEPING, Outcome.INCOMPATIBLE),
    "metadata after an overwrite": (OF_FIELD, KEEPING, Outcome.INCOMPATIBLE),
    "a new config after an overwrite": (CONFIG, KEEPING, Outcome.COMPATIBLE),
    "an index over moved rows": (_index(), _moved(1), Outcome.RETRYABLE),
    "an index over other rows": (_index(), _moved(2), Outcome.COMPATIBLE),
    "an index that does not say what it covers": (_index(covers=None), _moved(2), Outcome.RETRYABLE),
    "moving rows that were indexed": (_moved(1), _index(), Outcome.RETRYABLE),
    "indexing a replaced column": (_index(fields=(3,)), _replaced(9, 3), Outcome.RETRYABLE),
    "indexing another column": (_index(fields=(3,)), _replaced(9, 4), Outcome.COMPATIBLE),
    "replacing an indexed column": (_replaced(9, 3), _index(fields=(3,)), Outcome.RETRYABLE),
    "replacing the same cells": (_replaced(9, 3), _replaced(9, 3), Outcome.RETRYABLE),
    "replacing other cells": (_replaced(9, 3), _replaced(9, 4), Outcome.COMPATIBLE),
    "replacing a column of a removed fragment": (_replaced(9, 3), ops.Delete((), (9,)), Outcome.INCOMPATIBLE),
    "replacing a column of a fragment with deletions": (_replaced(5, 3), ops.Delete((FRAGMENT,)), Outcome.COMPATIBLE),
    "replacing a column of moved rows": (_replaced(5, 3), ops.Update((), (FRAGMENT,), (FRAGMENT,)), Outcome.RETRYABLE),
    "replacing a column beside a rewritten one": (
        _replaced(5, 3),
        ops.Update((), (FRAGMENT,), (), (4,), update_mode=1),
        Outcome.COMPATIBLE,
    ),
    "replacing a rewritten column": (_replaced(5, 3), ops.Update((), (FRAGMENT,), (), (3,), update_mode=1), Outcome.RETRYABLE),
    "other keys of the table's metadata": (
        ops.UpdateConfig(table_metadata_updates=ops.UpdateMap({"k": "1"})),
        ops.UpdateConfig(table_metadata_updates=ops.UpdateMap({"l": "1"})),
        Outcome.COMPATIBLE,
    ),
    "the same key of the table's metadata": (
        ops.UpdateConfig(table_metadata_updates=ops.UpdateMap({"k": "1"})),
        ops.UpdateConfig(table_metadata_updates=ops.UpdateMap({"k": "1"})),
        Outcome.INCOMPATIBLE,
    ),
    "two reuse indexes": (_index("__lance_frag_reuse"), _index("__lance_frag_reuse"), Outcome.RETRYABLE),
    "two indexes of one name": (_index("i"), _index("i"), Outcome.RETRYABLE),
    "two indexes": (_index("i"), _index("j"), Outcome.COMPATIBLE),
    "a segment of an index that was dropped": (_index("i"), ops.CreateIndex((), _index("i").new_indices), Outcome.RETRYABLE),
    "dropping an index that grew": (ops.CreateIndex((), _index("i").new_indices), _index("i"), Outcome.RETRYABLE),
    "replacing an index that was dropped": (REPLACED, ops.CreateIndex((), REPLACED.removed_indices), Outcome.RETRYABLE),
    "dropping what was dropped": (ops.CreateIndex((), REPLACED.removed_indices),) * 2 + (Outcome.COMPATIBLE,),
    "moving rows beside a reuse index": (_moved(1), _index("__lance_frag_reuse"), Outcome.COMPATIBLE),
    "the index of the logs after new columns": (_index("__lance_mem_wal"), MERGE, Outcome.RETRYABLE),
    "new columns after the index of the logs": (MERGE, _index("__lance_mem_wal"), Outcome.RETRYABLE),
    "an index of changed values": (
        _index(fields=(3,)),
        ops.Update((), (FRAGMENT,), (), (3,), update_mode=ops.REWRITE_COLUMNS),
        Outcome.REBASE,
    ),
    "an index of other values": (
        _index(fields=(4,)),
        ops.Update((), (FRAGMENT,), (), (3,), update_mode=ops.REWRITE_COLUMNS),
        Outcome.COMPATIBLE,
    ),
    "a key inserted twice": (_inserts(1, 2), _inserts(2, 3), Outcome.RETRYABLE),
    "other keys": (_inserts(1, 2), _inserts(3), Outcome.COMPATIBLE),
    "keys of other columns": (_inserts(1), ops.Update(inserted_keys=ops.InsertedKeys((7,), (3,))), Outcome.RETRYABLE),
    "keys and rows without": (_inserts(1), ops.Update(), Outcome.RETRYABLE),
    "rows without keys": (ops.Update(), _inserts(1), Outcome.COMPATIBLE),
    "keys and a filter": (_inserts(1), _filtered(b"\1"), Outcome.RETRYABLE),
    "filters that share a bit": (_filtered(b"\3"), _filtered(b"\2"), Outcome.RETRYABLE),
    "filters that share none": (_filtered(b"\1"), _filtered(b"\2"), Outcome.COMPATIBLE),
    "filters of other sizes": (_filtered(b"\1"), _filtered(b"\2\0"), Outcome.RETRYABLE),
    "keys and appended rows": (_inserts(1), ops.Append(()), Outcome.RETRYABLE),
    "removing the same key twice": (CONFIG_REMOVAL, CONFIG_REMOVAL, Outcome.COMPATIBLE),
    "replacing the table's metadata": (
        ops.UpdateConfig(table_metadata_updates=ops.UpdateMap({"a": "b"}, replace=True)),
        ops.UpdateConfig(table_metadata_updates=ops.UpdateMap({"c": "d"})),
        Outcome.INCOMPATIBLE,
    ),
    "overwrites of the same key": (ops.Overwrite((), Schema(()), {"k": "v"}),) * 2 + (Outcome.INCOMPATIBLE,),
    "an update that merges a log": (ops.Update(compacted_sstables=(b"x",)), ops.UpdateMemWalState(), Outcome.INCOMPATIBLE),
    "an update that merges none": (ops.Update(), ops.UpdateMemWalState(), Outcome.COMPATIBLE),
    "an overwrite of a changed key": (
        ops.Overwrite((), Schema(()), {"k": "v"}),
        ops.UpdateConfig(ops.UpdateMap({"k": None})),
        Outcome.INCOMPATIBLE,
    ),
    "a change of an overwritten key": (
        ops.UpdateConfig(ops.UpdateMap({"k": None})),
        ops.Overwrite((), Schema(()), {"k": "v"}),
        Outcome.INCOMPATIBLE,
    ),
    "metadata of one field": (
        ops.UpdateConfig(field_metadata_updates={1: ops.UpdateMap({})}),
        ops.UpdateConfig(field_metadata_updates={1: ops.UpdateMap({})}),
        Outcome.INCOMPATIBLE,
    ),
    "bases of one name": (
        ops.UpdateBases((BasePath(0, "/a", False, "n"),)),
        ops.UpdateBases((BasePath(0, "/b", False, "n"),)),
        Outcome.INCOMPATIBLE,
    ),
    "bases without a name": (
        ops.UpdateBases((BasePath(0, "/a", False),)),
        ops.UpdateBases((BasePath(0, "/b", False),)),
        Outcome.COMPATIBLE,
    ),
}


@pytest.mark.parametrize(("ours", "theirs", "expected"), CASES.values(), ids=CASES.keys())
def test_conditions(ours: ops.Operation, theirs: ops.Operation, expected: Outcome) -> None:
    assert judge(ours, theirs).outcome is expected


def test_touched_fragments_of_operations() -> None:
    assert touched(ops.Delete((FRAGMENT,), (7,))) == {5, 7}
    assert touched(ops.Update((7,), (FRAGMENT,), (Fragment(0, (), 1),))) == {5, 7}
    assert touched(_moved(1, 2)) == {1, 2}
    assert touched(_replaced(9, 1)) == {9}
    assert touched(ops.Append((FRAGMENT,))) == frozenset()
