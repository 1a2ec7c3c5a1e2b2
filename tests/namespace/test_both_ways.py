"""One directory namespace, used by lance_spark and by pylance in turns: both always see the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from lance_namespace import LanceNamespaceError

from lance_spark.errors import LanceError
from tests.namespace.sides import Ours, Side, Theirs, seen

MODES: dict[str, dict[str, str]] = {
    "both": {},
    "manifest": {"dir_listing_enabled": "false"},
    "manifest-first": {"dir_listing_to_manifest_migration_enabled": "true"},
    "listing": {"manifest_enabled": "false"},
}
OPERATIONS = (
    *("create_namespace", "create_namespace", "drop_namespace", "declare_table", "create_table", "create_table", "create_table"),
    *("append", "append", "register_table", "deregister_table", "drop_table"),
)


def run(side: Side, drawn: random.Random, deep: bool) -> bool:
    """Run a random operation; whether it succeeded."""
    operation, id = drawn.choice(OPERATIONS), [drawn.choice("ab") for _ in range(drawn.choice([1, 1, 2, 2, 3]) if deep else 1)]
    place: list[Any] = [drawn.choice(["a.lance", "b.lance", "x/y", "free.lance"])] if operation == "register_table" else []
    try:
        getattr(side, operation)(id, *place)
    except (LanceError, LanceNamespaceError, ValueError, OSError):
        return False
    return True


@pytest.mark.parametrize("mode", MODES)
def test_200_operations_in_turns_with_pylance_end_with_both_seeing_the_same(tmp_path: Path, mode: str) -> None:
    root, deep = str(tmp_path / "root"), mode != "listing"
    sides: list[Side] = [Ours(root, **MODES[mode]), Theirs(root, **MODES[mode])]
    drawn, done = random.Random(mode), {0: 0, 1: 0}
    for step in range(200):
        done[step % 2] += run(sides[step % 2], drawn, deep)
        if step % 10 == 9:
            assert seen(sides[0], deep=deep) == seen(sides[1], deep=deep), f"after step {step}"
    assert min(done.values()) > 15, "too few operations succeed to tell anything"


def test_each_reads_the_tables_and_properties_of_the_other(tmp_path: Path) -> None:
    ours, theirs = Ours(str(tmp_path)), Theirs(str(tmp_path))
    for namer, side in (("ours", ours), ("theirs", theirs)):
        side.create_namespace([namer])
        side.create_table([namer, "t"])
        side.create_table([f"root-{namer}"])
    for side in (ours, theirs):
        assert side.namespaces([]) == {name: {"name": name} for name in ("ours", "theirs")}
        assert {name: rows for name, (_, rows) in side.tables([]).items()} == {"root-ours": 2, "root-theirs": 2}
        assert [rows for _, rows in side.tables(["ours"]).values()] == [2]
    ours.append(["theirs", "t"])
    theirs.append(["ours", "t"])
    assert theirs.tables(["theirs"])["t"][1] == ours.tables(["ours"])["t"][1] == 4


def test_each_drops_what_the_other_has_made(tmp_path: Path) -> None:
    ours, theirs = Ours(str(tmp_path)), Theirs(str(tmp_path))
    for maker, dropper in ((ours, theirs), (theirs, ours)):
        maker.create_namespace(["n"])
        maker.create_table(["n", "t"])
        maker.create_table(["t"])
        for id in (["t"], ["n", "t"]):
            dropper.drop_table(id)
        dropper.drop_namespace(["n"])
        assert seen(ours) == seen(theirs) == {}
        assert [p.name for p in tmp_path.iterdir()] == ["__manifest"]
