"""The conflict rules: complete, printed in the docs, and the outcomes of pylance where it lets one try."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from pyroaring import BitMap

from lance_spark.schema import Schema
from lance_spark.storage import Store
from lance_spark.table import operations as ops
from lance_spark.table.conflicts import RULES, Outcome, judge, markdown, touched
from lance_spark.table.metadata import BasePath, DataFile, Fragment, IndexMetadata
from lance_spark.table.snapshot import open_snapshot
from lance_spark.table.transaction import OPERATIONS, parse

ROOT = Path(__file__).parent.parent.parent
TABLE = pa.table({"a": pa.array([1, 2, 3], pa.int32()), "b": pa.array([1, 2, 3], pa.int32())})
READ_VERSION = 3
Change = Callable[[lance.LanceDataset, str], Callable[[], object]]
"""Prepares a change of the read version, for "ours" or "theirs", and gives what commits it."""


def _commit(make: Callable[[lance.LanceDataset, str], LanceOperation.BaseOperation]) -> Change:
    def prepare(ds: lance.LanceDataset, side: str) -> Callable[[], object]:
        operation = make(ds, side)
        return lambda: lance.LanceDataset.commit(ds.uri, operation, read_version=READ_VERSION)

    return prepare


def _new(ds: lance.LanceDataset, mode: str = "append") -> list[lance.FragmentMetadata]:
    return lance.fragment.write_fragments(TABLE, ds.uri, mode=mode)


def _deleted(ds: lance.LanceDataset, side: str, i: int) -> lance.FragmentMetadata:
    fragment = ds.get_fragments()[i].delete(f"a = {1 if side == 'ours' else 2}")
    assert fragment is not None
    return fragment


def _rewrite(i: int) -> Change:
    def make(ds: lance.LanceDataset, side: str) -> LanceOperation.Rewrite:
        group = LanceOperation.RewriteGroup(old_fragments=[ds.get_fragments()[i].metadata], new_fragments=_new(ds))
        return LanceOperation.Rewrite(groups=[group], rewritten_indices=[])

    return _commit(make)


def _update(i: int) -> Change:
    def make(ds: lance.LanceDataset, side: str) -> LanceOperation.Update:
        return LanceOperation.Update(updated_fragments=[_deleted(ds, side, i)], new_fragments=_new(ds), fields_modified=[])

    return _commit(make)


def _config(**updates: str) -> Change:
    kinds: dict[str, Any] = {kind: LanceOperation.UpdateMap({key: "v"}) for kind, key in updates.items()}
    return _commit(lambda ds, side: LanceOperation.UpdateConfig(**kinds))


def _metadata(ds: lance.LanceDataset) -> list[lance.FragmentMetadata]:
    return [f.metadata for f in ds.get_fragments()]


def _schema(ds: lance.LanceDataset) -> lance.schema.LanceSchema:
    return lance.schema.LanceSchema.from_pyarrow(pa.schema([ds.schema.field("a")]))


CHANGES: dict[str, Change] = {
    "append": _commit(lambda ds, side: LanceOperation.Append(_new(ds))),
    "delete_0": _commit(lambda ds, side: LanceOperation.Delete([_deleted(ds, side, 0)], [], "x")),
    "delete_1": _commit(lambda ds, side: LanceOperation.Delete([_deleted(ds, side, 1)], [], "x")),
    "remove_0": _commit(lambda ds, side: LanceOperation.Delete([], [0], "x")),
    "update_0": _update(0),
    "rewrite_0": _rewrite(0),
    "overwrite": _commit(lambda ds, side: LanceOperation.Overwrite(ds.schema, _new(ds, "overwrite"))),
    "restore": _commit(lambda ds, side: LanceOperation.Restore(1)),
    "project": _commit(lambda ds, side: LanceOperation.Project(_schema(ds))),
    "merge": _commit(lambda ds, side: LanceOperation.Merge(_metadata(ds), ds.lance_schema)),
    "config_1": _config(config_updates="k1"),
    "config_2": _config(config_updates="k2"),
    "schema_metadata": _config(schema_metadata_updates="k"),
    "drop_column": lambda ds, side: lambda: ds.drop_columns(["b"]),
    "index": lambda ds, side: lambda: ds.create_scalar_index("b", "BTREE", name=f"of_{side}"),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conflicts")
    for i in range(READ_VERSION):
        lance.write_dataset(TABLE, folder / "base", mode="append" if i else "create")
    return folder


def _operation(table: Path, name: str, side: str) -> ops.Operation:
    """The operation as it stands in the transaction that pylance commits for it."""
    uri = str(table / "alone")
    shutil.rmtree(uri, ignore_errors=True)
    shutil.copytree(table / "base", uri)
    CHANGES[name](lance.dataset(uri), side)()
    content = open_snapshot(Store(uri), version=READ_VERSION + 1).manifest.transaction
    assert content is not None
    return parse(content, name).operation


def _outcome(table: Path, ours: str, theirs: str) -> Outcome:
    """What pylance does with `ours` after `theirs`."""
    uri = str(table / "both")
    shutil.rmtree(uri, ignore_errors=True)
    shutil.copytree(table / "base", uri)
    second = CHANGES[ours](lance.dataset(uri), "ours")
    CHANGES[theirs](lance.dataset(uri), "theirs")()
    try:
        second()
    except (OSError, RuntimeError, ValueError) as e:
        if "preempted by concurrent" in str(e) or "retry" in str(e).lower():
            return Outcome.RETRYABLE
        if "incompatible" in str(e):
            return Outcome.INCOMPATIBLE
        raise
    return Outcome.COMPATIBLE


def test_outcomes_are_those_of_pylance(table: Path) -> None:
    ours = {name: _operation(table, name, "ours") for name in CHANGES}
    theirs = {name: _operation(table, name, "theirs") for name in CHANGES}
    differences = []
    for a, b in itertools.product(CHANGES, CHANGES):
        expected, got = _outcome(table, a, b), judge(ours[a], theirs[b]).outcome
        # pylance rebases what its own verbs commit; here the rows are not known to it, and it asks to run the operation again.
        if got is Outcome.REBASE:
            got = Outcome.RETRYABLE
        if expected is not got:
            differences.append(f"{a} after {b}: pylance {expected.value}, ours {got.value}")
    assert differences == []


def test_every_operation_that_can_be_committed_is_judged_by_every_other() -> None:
    every = {kind for kind, _, _ in OPERATIONS.values()}
    assert set(RULES) | {ops.Clone, ops.DataOverlay, ops.UpdateMemWalState} == every
    for ours, row in RULES.items():
        assert set(row) == every, ours


def test_an_unknown_operation_conflicts_with_everything() -> None:
    for ours in (ops.Append(()), ops.Restore(1), ops.UpdateConfig()):
        assert judge(ours, ops.Unknown(b"")).outcome is Outcome.INCOMPATIBLE
    assert judge(ops.Unknown(b""), ops.Append(())).outcome is Outcome.INCOMPATIBLE


def test_the_page_in_the_docs_is_printed_from_the_rules() -> None:
    assert (ROOT / "docs" / "conflicts.md").read_text() == markdown()


def _index(name: str = "i", fields: tuple[int, ...] = (0,), covers: tuple[int, ...] | None = (0, 1)) -> ops.CreateIndex:
    bitmap = BitMap(covers).serialize() if covers is not None else b""
    return ops.CreateIndex((IndexMetadata(bytes(16), name, fields, 1, bitmap),))


def _moved(*ids: int) -> ops.Rewrite:
    return ops.Rewrite((ops.RewriteGroup(tuple(Fragment(i, (), 1) for i in ids), ()),))


def _replaced(fragment: int, field: int) -> ops.DataReplacement:
    return ops.DataReplacement(((fragment, DataFile("x", (field,))),))


FRAGMENT = Fragment(5, (), 1)
CASES = {
    "an append is not stopped by a merge that keeps nullability": (
        ops.Append(()),
        ops.Merge((), Schema(()), preserves_nullability=True),
        Outcome.COMPATIBLE,
    ),
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
    "replacing a column of moved rows": (_replaced(5, 3), ops.Update((), (FRAGMENT,)), Outcome.RETRYABLE),
    "replacing a column beside a rewritten one": (
        _replaced(5, 3),
        ops.Update((), (FRAGMENT,), (), (4,), update_mode=1),
        Outcome.COMPATIBLE,
    ),
    "replacing a rewritten column": (_replaced(5, 3), ops.Update((), (FRAGMENT,), (), (3,), update_mode=1), Outcome.RETRYABLE),
    "two reuse indexes": (_index("__lance_frag_reuse"), _index("__lance_frag_reuse"), Outcome.RETRYABLE),
    "two ordinary indexes": (_index("i"), _index("i"), Outcome.COMPATIBLE),
    "an update that merges a log": (ops.Update(compacted_sstables=(b"x",)), ops.UpdateMemWalState(), Outcome.INCOMPATIBLE),
    "an update that merges none": (ops.Update(), ops.UpdateMemWalState(), Outcome.COMPATIBLE),
    "an overwrite of a changed key": (
        ops.Overwrite((), Schema(()), {"k": "v"}),
        ops.UpdateConfig(ops.UpdateMap({"k": None})),
        Outcome.RETRYABLE,
    ),
    "a change of an overwritten key": (
        ops.UpdateConfig(ops.UpdateMap({"k": None})),
        ops.Overwrite((), Schema(()), {"k": "v"}),
        Outcome.INCOMPATIBLE,
    ),
    "metadata of one field": (
        ops.UpdateConfig(field_metadata={1: ops.UpdateMap({})}),
        ops.UpdateConfig(field_metadata={1: ops.UpdateMap({})}),
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


def test_what_an_operation_touches() -> None:
    assert touched(ops.Delete((FRAGMENT,), (7,))) == {5, 7}
    assert touched(ops.Update((7,), (FRAGMENT,), (Fragment(0, (), 1),))) == {5, 7}
    assert touched(_moved(1, 2)) == {1, 2}
    assert touched(_replaced(9, 1)) == {9}
    assert touched(ops.Append((FRAGMENT,))) == frozenset()
