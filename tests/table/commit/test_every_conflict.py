"""Every change of a table after every other one: the outcome and the version match pylance.

What pylance answers to each pair is recorded in answers.json, since asking it takes minutes; `make conflict-answers` records it anew.
The slow tests ask pylance itself.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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

pytestmark = [pytest.mark.spec("table.md", "Transactions"), pytest.mark.spec("format-document.md", "Conflict resolution")]

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

    def after(self, name: str) -> Path:
        """The table to which pylance applied their change."""
        place = self.folder / "after" / name
        if not place.exists():
            shutil.copytree(self.folder / "base", place)
            CHANGES[name](lance.dataset(place), "theirs")()
        return place


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
    link_files(table.after(theirs), place)
    for files in FILES:
        link_files(prepared / files, place / files)
    store, versions = Store(str(place)), range(READ_VERSION + 1, open_snapshot(Store(str(place))).version + 1)
    rules = {judge(change.operation, transaction(place, v).operation).outcome for v in versions}
    try:
        commit(store, Transaction(READ_VERSION, change.operation))
    except CommitConflictError as e:
        return Outcome.RETRYABLE if e.retryable else Outcome.INCOMPATIBLE, rules
    return Outcome.COMPATIBLE, rules


def link_files(source: Path, target: Path) -> None:
    """Add the files of a folder to another one. Files of a table are never changed, so that two tables can share them."""
    for folder, _, names in os.walk(source):
        inner = target / Path(folder).relative_to(source)
        inner.mkdir(parents=True, exist_ok=True)
        for name in names:
            if not (inner / name).exists():
                os.link(Path(folder) / name, inner / name)


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


ANSWERS = Path(__file__).with_name("answers.json")
"""pylance's answer to each pair of `PAIRS`: the outcome, and of a commit the digest of its version."""
ROWS_OF_PAIRS = list(dict.fromkeys((stable, ours) for stable, ours, _ in PAIRS))


def digest(place: Path) -> str:
    """A few characters that stand for the manifest and the rows of a table's latest version."""
    manifest = open_snapshot(Store(str(place))).manifest
    text = repr((plain(normal(manifest)), rows_of(place).to_pydict()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def plain(value: Any) -> Any:
    """A value of a manifest without dataclasses, and with the keys of maps in order."""
    if dataclasses.is_dataclass(value):
        # pylance writes no unknown fields, and what is recorded does not depend on where they would be, nor on what is not compared.
        named = (field.name for field in dataclasses.fields(value) if field.compare and not field.name.startswith("unknown_of_"))
        return {name: plain(getattr(value, name)) for name in named}
    if isinstance(value, Mapping):
        return sorted((key, plain(item)) for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value


def answer(outcome: Outcome, place: Path) -> str:
    """The answer to a pair as it is recorded."""
    return f"{outcome.name} {digest(place)}" if outcome is Outcome.COMPATIBLE else outcome.name


def pairs_of(stable_row_ids: bool, ours: str) -> Iterator[str]:
    """Their changes that are paired with one of ours."""
    yield from (theirs for stable, one, theirs in PAIRS if (stable, one) == (stable_row_ids, ours))


def assert_rules_say_so(outcome: Outcome, rules: set[Outcome]) -> None:
    """Check that the rules allow an outcome of a commit: all of them a success, one of them a failure."""
    if outcome is Outcome.COMPATIBLE:
        assert rules <= {Outcome.COMPATIBLE, Outcome.REBASE}
    else:
        assert rules & {outcome, Outcome.REBASE}


def assert_same_as_pylance(table: Table, folder: Path, ours: str, theirs: str) -> None:
    """Ask pylance and us, and compare outcomes, manifests and rows."""
    expected = by_pylance(table, folder / "pylance", ours, theirs)
    got, rules = by_us(table, folder / "ours", ours, theirs)
    if theirs in STRICTER.get(ours, ()):
        assert (got, expected) == (Outcome.RETRYABLE, Outcome.COMPATIBLE)
        return
    assert got is expected
    assert_rules_say_so(got, rules)
    if got is not Outcome.COMPATIBLE:
        return
    snapshots = [open_snapshot(Store(str(folder / side))) for side in ("pylance", "ours")]
    assert normal(snapshots[1].manifest) == normal(snapshots[0].manifest)
    assert rows_of(folder / "ours").equals(rows_of(folder / "pylance"))


@pytest.mark.matrix
@pytest.mark.parametrize(("table", "ours"), ROWS_OF_PAIRS, indirect=["table"])
def test_outcomes_and_versions_are_those_recorded_of_pylance(table: Table, tmp_path: Path, ours: str) -> None:
    recorded = json.loads(ANSWERS.read_text())
    assert recorded["pylance"] == lance.__version__, "record the answers of this pylance: make conflict-answers"
    for theirs in pairs_of(table.stable_row_ids, ours):
        expected = recorded["stable row ids" if table.stable_row_ids else "row addresses"][ours][theirs]
        place = tmp_path / theirs
        outcome, rules = by_us(table, place, ours, theirs)
        got = answer(outcome, place)
        if theirs in STRICTER.get(ours, ()):
            assert (got, expected.split()[0]) == (Outcome.RETRYABLE.name, Outcome.COMPATIBLE.name)
            continue
        if got != expected:
            # pylance itself shows what the difference is.
            assert_same_as_pylance(table, tmp_path / f"{theirs} compared", ours, theirs)
            pytest.fail(f"{ours} after {theirs}: {got}, as pylance answers now, and not {expected}: make conflict-answers")
        assert_rules_say_so(outcome, rules)


@pytest.mark.slow
@pytest.mark.parametrize(("table", "ours"), ROWS_OF_PAIRS, indirect=["table"])
def test_outcomes_and_versions_match_pylance(table: Table, tmp_path: Path, ours: str) -> None:
    for theirs in pairs_of(table.stable_row_ids, ours):
        assert_same_as_pylance(table, tmp_path / theirs, ours, theirs)


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
