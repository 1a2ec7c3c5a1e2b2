"""Cases: a changed file of a table, and what is done with it. Each is made of its number alone, or was found before and kept."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

from fuzz import files
from fuzz.operations import OPERATIONS
from fuzz.seeds import ROOT, Seed, every_file, seeds

FOUND = ROOT / "fuzz" / "found"
KEPT = ROOT / "tests" / "hostile"
_WEIGHTS = {".lance": 1, ".manifest": 6, ".txn": 3, ".json": 3, ".arrow": 3, ".bin": 3}


@dataclass(frozen=True)
class Case:
    """`data` in the place of a file of a table. It is scanned, or `operation` is done to it, which makes its choices by `number`."""

    seed: Seed
    data: bytes
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
    seed = rng.choices(candidates, [_WEIGHTS.get(Path(s.path).suffix, 1) for s in candidates])[0]
    operation = rng.choice(sorted(OPERATIONS))
    return Case(seed, files.mutate(seed.path, seed.data, rng), operation, number)


def kept_cases() -> dict[str, Case]:
    """The cases that were found: NAME.json says which file of which table NAME.bin stands for, and what was done with it."""
    cases = {}
    for about in sorted(KEPT.glob("*.json")):
        entry = json.loads(about.read_text())
        data = about.with_suffix(".bin").read_bytes()
        cases[about.stem] = Case(Seed(entry["table"], entry["path"]), data, entry.get("operation", ""), entry.get("number", 0))
    return cases


def keep(name: str, case: Case, why: str) -> None:
    """Write a finding to `FOUND`, in the form of tests/hostile."""
    FOUND.mkdir(exist_ok=True)
    about: dict[str, object] = {"table": case.seed.table, "path": case.seed.path}
    if case.operation:
        about |= {"operation": case.operation, "number": case.number}
    (FOUND / f"{name}.bin").write_bytes(case.data)
    (FOUND / f"{name}.json").write_text(json.dumps(about | {"why": why}, indent=1) + "\n")
