"""Every change of a table after every other one: the outcome and the version match pylance."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lance_spark.errors import CommitConflictError
from lance_spark.metadata.field_ids import KEY
from lance_spark.metadata.manifest import Fragment, IndexMetadata, Manifest
from lance_spark.metadata.operations import Clone, DataOverlay, Restore, UpdateMemWalState
from lance_spark.metadata.transaction import Transaction, parse
from lance_spark.storage.store import Store
from lance_spark.table.build.manifest_builder import TableSettings, build
from lance_spark.table.commit.commit import commit
from lance_spark.table.commit.conflicts import RULES, Outcome, judge
from lance_spark.table.versions.snapshot import open_snapshot
from tests.table.commit.changes import CHANGES, READ_VERSION, make_table

FILES = ("data", "_deletions", "_indices")


@dataclass(frozen=True)
class Table:
    """A table at the read version, and our change of it with its files."""

    folder: Path
    stable_row_ids: bool

    def ours(self, name: str) -> tuple[Transaction, Path]:
        """The transaction of a change, and a copy of the table to which pylance applied it."""
        place = self.folder / "alone" / name
        if not place.exists():
            shutil.copytree(self.folder / "base", place)
            CHANGES[name](lance.dataset(place), "ours")()
        return transaction(place, READ_VERSION + 1), place


def transaction(place: Path, version: int) -> Transaction:
    content = open_snapshot(Store(str(place)), version=version).manifest.transaction
    assert content is not None
    return parse(content, str(place))


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    folder = tmp_path_factory.mktemp("conflicts")
    make_table(folder / "base", request.param)
    return Table(folder, request.param)


def by_pylance(table: Table, place: Path, ours: str, theirs: str) -> Outcome:
    """The outcome of `ours` after `theirs` in pylance."""
    shutil.copytree(table.folder / "base", place)
    second = CHANGES[ours](lance.dataset(place), "ours")
    CHANGES[theirs](lance.dataset(place), "theirs")()
    try:
        second()
    except CommitConflictError as e:
        # A ReserveFragments, which is always ours.
        return Outcome.RETRYABLE if e.retryable else Outcome.INCOMPATIBLE
    except (OSError, RuntimeError, ValueError) as e:
        if (
            "incompatible" in str(e)
            or re.search("Field with id . does not exist", str(e))
            or "was removed by concurrent" in str(e)
            or "was dropped by concurrent" in str(e)
        ):
            return Outcome.INCOMPATIBLE
        if "preempted by concurrent" in str(e) or "retry" in str(e).lower() or "Too many concurrent writers" in str(e):
            return Outcome.RETRYABLE
        raise
    return Outcome.COMPATIBLE


def by_us(table: Table, place: Path, ours: str, theirs: str) -> tuple[Outcome, set[Outcome]]:
    """Our outcome of `ours` after `theirs`, and the outcome by the rules."""
    change, prepared = table.ours(ours)
    shutil.copytree(table.folder / "base", place)
    CHANGES[theirs](lance.dataset(place), "theirs")()
    for files in FILES:
        if (prepared / files).exists():
            shutil.copytree(prepared / files, place / files, dirs_exist_ok=True)
    latest = lance.dataset(place).version
    rules = {judge(change.operation, transaction(place, v).operation).outcome for v in range(READ_VERSION + 1, latest + 1)}
    try:
        commit(Store(str(place)), Transaction(READ_VERSION, change.operation))
    except CommitConflictError as e:
        return Outcome.RETRYABLE if e.retryable else Outcome.INCOMPATIBLE, rules
    return Outcome.COMPATIBLE, rules


def normal(manifest: Manifest) -> Manifest:
    """The manifest without parts that differ between two commits of the same change."""
    return replace(
        manifest,
        timestamp=0,
        writer=None,
        transaction_file="",
        transaction=None,
        numbered=None,
        table_metadata={key: value for key, value in manifest.table_metadata.items() if key != KEY},
        fragments=tuple(map(normal_fragment, manifest.fragments)),
        base_paths=tuple(sorted(manifest.base_paths, key=lambda b: b.id)),
        indexes=tuple(sorted(map(normal_index, manifest.indexes), key=lambda i: (i.name, i.dataset_version))),
    )


def normal_fragment(fragment: Fragment) -> Fragment:
    deletion = fragment.deletion
    return replace(
        fragment,
        files=tuple(replace(f, path="") for f in fragment.files),
        # pylance writes a bitmap whenever it merges deletions; we go by their number, as it does otherwise.
        deletion=None if deletion is None else replace(deletion, id=0, is_bitmap=False),
    )


def normal_index(index: IndexMetadata) -> IndexMetadata:
    covered = b",".join(b"%d" % i for i in BitMap.deserialize(index.fragment_bitmap)) if index.fragment_bitmap else b"none"
    return replace(index, uuid=b"", fragment_bitmap=covered, created_at=0, files=())


def rows_of(place: Path) -> pa.Table:
    ds = lance.dataset(place)
    ds.validate()
    return ds.to_table().sort_by("a")


# Variants that differ from another change only by where they are made stand for theirs, not for ours; so do changes of several versions.
ONLY_THEIRS = ("delete row 4", "upsert 8, 9", "rewrite fragment 1", "config 2", "replace d of fragment 1", "compact")
OURS = [name for name in CHANGES if name not in ONLY_THEIRS]
OF_ROWS = [n for n in CHANGES if n.split()[0] in ("append", "delete", "update", "rewrite", "upsert", "replace", "restore", "compact")]
OF_SCHEMA = {"schema metadata", "field metadata"}
# Where pylance commits ours and loses a change or values, so that we refuse it.
STRICTER = {
    "append": {"drop column b"},  # the new values of b
    "index c": {"project"},  # the index would be of no column, and pylance cannot filter any more
    "index c by one name": {"project"},
    "index b anew": {"project", "drop column b"},
    "index d": {"project", "drop column d", "change type of d"},
    "change type of d": {"index d"},  # the index
    "project": OF_SCHEMA,  # their metadata
    "drop column b": OF_SCHEMA,
    "drop column d": OF_SCHEMA,
    "rename column c": OF_SCHEMA,
}
PAIRS = [(False, ours, theirs) for ours in OURS for theirs in CHANGES]
PAIRS += [(True, ours, theirs) for ours in OURS for theirs in OF_ROWS if ours in OF_ROWS]


@pytest.mark.parametrize(("table", "ours", "theirs"), PAIRS, indirect=["table"])
def test_outcomes_and_versions_match_pylance(table: Table, tmp_path: Path, ours: str, theirs: str) -> None:
    expected = by_pylance(table, tmp_path / "pylance", ours, theirs)
    got, rules = by_us(table, tmp_path / "ours", ours, theirs)
    if theirs in STRICTER.get(ours, ()):
        assert (got, expected) == (Outcome.RETRYABLE, Outcome.COMPATIBLE)
        return
    assert got is expected
    if got is not Outcome.COMPATIBLE:
        assert rules & {got, Outcome.REBASE}
        return
    assert rules <= {Outcome.COMPATIBLE, Outcome.REBASE}
    snapshots = [open_snapshot(Store(str(tmp_path / side))) for side in ("pylance", "ours")]
    assert normal(snapshots[1].manifest) == normal(snapshots[0].manifest)
    assert rows_of(tmp_path / "ours").equals(rows_of(tmp_path / "pylance"))


@pytest.mark.parametrize("table", [False], indirect=True)
def test_every_cell_of_the_rules_is_tested(table: Table) -> None:
    kinds = {type(table.ours(name)[0].operation) for name in CHANGES}
    # No table can have these as its second version, or they ask more of a writer than we do: such tables are refused before.
    assert set(RULES) | {Clone, DataOverlay, UpdateMemWalState} == kinds | {Clone, DataOverlay, UpdateMemWalState}


@pytest.mark.parametrize("table", [False, True], indirect=True)
@pytest.mark.parametrize("name", CHANGES)
def test_built_manifests_match_pylance_for_the_same_transaction(table: Table, name: str) -> None:
    _, place = table.ours(name)
    store = Store(str(place))
    for version in range(READ_VERSION + 1, lance.dataset(place).version + 1):
        change, theirs = transaction(place, version), open_snapshot(store, version=version).manifest
        source = open_snapshot(store, version=change.operation.version).manifest if isinstance(change.operation, Restore) else None
        before = open_snapshot(store, version=version - 1).manifest
        assert normal(build(before, change, TableSettings(), 7, source)) == normal(theirs)
