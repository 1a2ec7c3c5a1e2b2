"""Faults that are put into the code, one at a time: do the tests find them? `make mutants MUTANTS="--count 200"`.

Each fault is tried with the tests of its area that `make test` runs, those of its file first, and if these find nothing, with the slow
ones. What only the slow tests find is a gap of `make test`: the exit code is 1. The sample is the same each time for a seed.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
AREAS = {
    "conflicts": (["table/commit/conflicts.py"], ["tests/table/commit/test_conflicts.py", "tests/table/commit/test_every_conflict.py"]),
    "commit": (["table/commit", "table/build"], ["tests/table/commit", "tests/table/build"]),
    "scan": (["table/scan"], ["tests/table/scan", "tests/test_dataset.py"]),
    "index": (["index", "table/indexes"], ["tests/index", "tests/table/indexes"]),
    "cleanup": (["table/maintenance", "table/versions"], ["tests/table/maintenance", "tests/table/versions"]),
    "doors": (["dataset.py", "operations.py"], ["tests/test_dataset.py", "tests/test_wrong_arguments.py"]),
    "verbs": (["lance_table.py", "verbs"], ["tests/verbs"]),
}
"""Files and folders of the package, and the tests of them."""
COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in", ast.NotIn: "in"}
PATIENCE = 4
"""A run of tests that takes so many times as long as without a fault has found it: the code hangs."""


@dataclass(frozen=True)
class Mutant:
    """A file of the package with one expression replaced."""

    area: str
    file: Path
    line: int
    before: str
    after: str
    source: str


def mutants_of(area: str, file: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    source = file.read_text()
    starts = [0]
    for text in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(text))
    for node in ast.walk(ast.parse(source)):
        before = ast.get_source_segment(source, node) if isinstance(node, ast.expr) else None
        after = None if before is None else replacement(node)
        if before is None or after is None:
            continue
        assert isinstance(node, ast.expr)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first, last = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        changed = source.encode()[:first] + f"({after})".encode() + source.encode()[last:]
        yield Mutant(area, file.relative_to(ROOT), node.lineno, before, after, changed.decode())


def replacement(node: ast.AST) -> str | None:
    """The source of a wrong expression in place of this one, if it is of a kind that is replaced."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        return f"{ast.unparse(node.left)} {COMPARISONS[type(node.ops[0])]} {ast.unparse(node.comparators[0])}"
    if isinstance(node, ast.BoolOp):
        other = " or " if isinstance(node.op, ast.And) else " and "
        return other.join(f"({ast.unparse(value)})" for value in node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ast.unparse(node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sign = "-" if isinstance(node.op, ast.Add) else "+"
        return f"({ast.unparse(node.left)}) {sign} ({ast.unparse(node.right)})"
    if isinstance(node, ast.IfExp):
        return f"{ast.unparse(node.orelse)} if {ast.unparse(node.test)} else {ast.unparse(node.body)}"
    return None


def sample(areas: list[str], count: int, seed: int) -> list[Mutant]:
    """As many mutants of each area, in an order in which the areas take turns."""
    chance, by_area = random.Random(seed), []
    for area in areas:
        places = [ROOT / "lance_spark" / place for place in AREAS[area][0]]
        files = sorted(file for place in places for file in ([place] if place.suffix else place.rglob("*.py")))
        mutants = [mutant for file in files for mutant in mutants_of(area, file)]
        by_area.append(chance.sample(mutants, min(-(-count // len(areas)), len(mutants))))
    turns = itertools.zip_longest(*by_area)
    return [mutant for turn in turns for mutant in turn if mutant is not None][:count]


@dataclass
class Tests:
    """The tests of an area, in a copy of the project."""

    place: Path
    area: str
    marks: str
    seconds: float | None = None

    def time(self) -> None:
        """Run them without a fault, which tells how long they take."""
        begun = time.monotonic()
        if self._fail([], None):
            sys.exit(f"the tests of {self.area} ({self.marks}) fail without a fault")
        self.seconds = time.monotonic() - begun

    def find(self, mutant: Mutant) -> bool:
        """Whether one of them fails with this fault."""
        if self.seconds is None:
            self.time()
            assert self.seconds is not None
        file = self.place / mutant.file
        original = file.read_text()
        file.write_text(mutant.source)
        try:
            return self._fail(self._nearest(mutant), 60 + PATIENCE * self.seconds)
        except subprocess.TimeoutExpired:
            return True
        finally:
            file.write_text(original)

    def _nearest(self, mutant: Mutant) -> list[str]:
        """The tests of the file with the fault, which find most faults soon."""
        mirrored = Path("tests", *mutant.file.parent.parts[1:], f"test_{mutant.file.stem}.py")
        inside = any(mirrored.is_relative_to(tests) for tests in AREAS[self.area][1])
        return [str(mirrored)] if inside and (self.place / mirrored).exists() else []

    def _fail(self, first: list[str], seconds: float | None) -> bool:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", self.marks, *first, *AREAS[self.area][1]]
        environment = {**os.environ, "PYTHONPATH": str(self.place)}
        quiet = subprocess.DEVNULL
        done = subprocess.run(command, cwd=self.place, env=environment, stdout=quiet, stderr=quiet, timeout=seconds)
        return done.returncode not in (0, 5)  # 5: no test has these marks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--area", choices=AREAS, action="append")
    parser.add_argument("--minutes", type=float, default=600, help="begin no mutant after this time")
    given = parser.parse_args()
    begun, results = time.monotonic(), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "copy"
        shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(".git", ".venv*", "site", "dist", ".mypy_cache"))
        always, slow = ({area: Tests(place, area, marks) for area in AREAS} for marks in ("not slow", "slow"))
        for mutant in sample(given.area or list(AREAS), given.count, given.seed):
            if time.monotonic() - begun > 60 * given.minutes:
                break
            if always[mutant.area].find(mutant):
                result = "found"
            elif slow[mutant.area].find(mutant):
                result = "found by slow tests only"
            else:
                result = "not found"
            results[result] += 1
            print(f"{result}: {mutant.file}:{mutant.line}: {mutant.before!r} -> {mutant.after!r}", flush=True)
    print(dict(results))
    return int(results["found by slow tests only"] > 0)


if __name__ == "__main__":
    sys.exit(main())
