"""Cases: a changed file of a table, and what is done with it. Each is made of its number alone, or was found before and kept."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

from fuzz import files
from fuzz.operations import OPERATIONS
from fuzz.seeds import ROOT, Seed, every_file, latest_manifests, seeds

FOUND = ROOT / "fuzz" / "found"
KEPT = ROOT / "tests" / "hostile"
_SHARES = {"latest": 50, "manifest": 15, "refs": 10, "_deletions": 8, "data": 8, "_transactions": 6, "_indices": 3}
"""How many of a hundred cases change such a file."""


@dataclass(frozen=True)
class Case:
    """`data` in the place of a file of a table, which is missing if this is None. The table is scanned, or `operation` is done to it, which
    makes its choices by `number`.
    """

    seed: Seed
    data: bytes | None
    operation: str = ""
    number: int = 0


def scan_case(number: int) -> Case:
    """A case of reading."""
    rng = random.Random(number)
    # All seeds in turn, those of data files three times as often as others.
    weighted = [s for s in seeds() for _ in range(3 if s.path.endswith(".lance") else 1)]
    seed = weighted[rng.randrange(len(weighted))]
    return Case(seed, files.mutate(seed.path, seed.data, rng))


def operation_case(number: int) -> Case:
    """A case of an operation."""
    rng = random.Random(number)
    candidates = every_file()
    # Half of them on the tables that have everything.
    if rng.random() < 0.5:
        candidates = tuple(s for s in candidates if "/history_" in s.table)
    table = rng.choice(sorted({s.table for s in candidates}))
    kinds = {kind: [s for s in candidates if s.table == table and _kind(s) == kind] for kind in _SHARES}
    kinds = {kind: found for kind, found in kinds.items() if found}
    seed = rng.choice(kinds[rng.choices(list(kinds), [_SHARES[kind] for kind in kinds])[0]])
    return Case(*_changed(seed, rng), rng.choice(sorted(OPERATIONS)), number)


def _changed(seed: Seed, rng: random.Random) -> tuple[Seed, bytes | None]:
    """Mostly the file with other content; else a file that is missing, one of the same kind in its place, or a copy of another name."""
    chance, data = rng.random(), seed.data
    if chance < 0.05:
        return seed, None
    if chance < 0.1:
        return seed, rng.choice([s for s in every_file() if s.path.endswith(seed.path[-5:])]).data
    if chance < 0.15:
        folder, _, name = seed.path.rpartition("/")
        return Seed(seed.table, f"{folder}/{rng.choice(_NAMES)}.{name.rpartition('.')[2]}"), data
    for _ in range(rng.choice((1, 1, 2))):
        data = files.mutate(seed.path, data, rng)
    return seed, data


_NAMES = (
    *(
        "0",
        "2",
        "3",
        "99",
        "00002",
        "9223372036854775807",
        "9223372036854775808",
        "d9223372036854775809",
        "-1",
        "²",
        "x",
        "..%2Fx",
        "%00",
        "a b",
    ),
    *("18446744073709551615", "18446744073709551614", "18446744073709551607", "18446744073709551600", "9223372036854775808", "1" * 200),
)


def _kind(seed: Seed) -> str:
    folder = seed.path.partition("/")[0]
    if seed.path.endswith(".manifest"):
        return "latest" if seed in latest_manifests() else "manifest"
    return folder if folder in _SHARES else "refs"


def kept_cases() -> dict[str, Case]:
    """The cases that were found: NAME.json says which file of which table NAME.bin stands for, and what was done with it."""
    cases = {}
    for about in sorted(KEPT.glob("*.json")):
        entry = json.loads(about.read_text())
        data = None if entry.get("missing") else about.with_suffix(".bin").read_bytes()
        cases[about.stem] = Case(Seed(entry["table"], entry["path"]), data, entry.get("operation", ""), entry.get("number", 0))
    return cases


def keep(name: str, case: Case, why: str) -> None:
    """Write a finding to `FOUND`, in the form of tests/hostile."""
    FOUND.mkdir(exist_ok=True)
    about: dict[str, object] = {"table": case.seed.table, "path": case.seed.path}
    if case.operation:
        about |= {"operation": case.operation, "number": case.number}
    if case.data is None:
        about["missing"] = True
    else:
        (FOUND / f"{name}.bin").write_bytes(case.data)
    (FOUND / f"{name}.json").write_text(json.dumps(about | {"why": why}, indent=1) + "\n")
