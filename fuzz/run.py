"""python -m fuzz.run: the cases that were ever found, and then seeded mutations, which are scanned or operated on (--operations).

Findings are printed and kept in fuzz/found; exit status 1 says that there are some. The name of the case at hand stands in
fuzz/found/at, for when the process does not survive.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
import traceback
from collections import Counter

from fuzz.cases import FOUND, Case, keep, kept_cases, operation_case, scan_case
from fuzz.operate import ORACLE, operate
from fuzz.operations import OPERATIONS
from fuzz.read import SECONDS, limit_memory, limited, prepare, read
from fuzz.seeds import every_file, seeds


def outcome(case: Case) -> str:
    """What comes of a case: "read", "done" or "refused". Whatever is raised is a finding."""
    if case.operation:
        return operate(case.seed.table, {case.seed.path: case.data}, case.operation, case.number)
    return "refused" if read(case.seed, case.data) is None else "read"


def check(name: str, case: Case) -> str:
    """`outcome`, or "found" for a finding, which is printed and kept."""
    faulthandler.dump_traceback_later(6 * SECONDS, exit=True)
    try:
        return limited(lambda: outcome(case))
    except Exception as e:  # noqa: BLE001 - whatever it is, it is what we are looking for
        last = traceback.extract_tb(e.__traceback__)[-1]
        why = f"{type(e).__name__}: {e}"
        print(f"{name}: {case.operation} {case.seed.table} {case.seed.path}: {why} at {last.filename}:{last.lineno}", flush=True)
        print(traceback.format_exc(), flush=True)
        keep(name, case, why)
        return "found"
    finally:
        faulthandler.cancel_dump_traceback_later()


def warm_up(operations: bool, known: dict[str, Case]) -> None:
    """Compile the kernels, so that no case takes the time and memory of that."""
    used = {c.seed.table: c for c in known.values()}
    for seed in every_file() if operations else seeds():
        used.setdefault(seed.table, Case(seed, seed.data))
    for case in used.values():
        read(case.seed, case.seed.data)
    if operations:
        for name in sorted(OPERATIONS):
            seed = next(s for s in every_file() if "/history_2.2" in s.table)
            operate(seed.table, {}, name, 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.run", description=__doc__)
    parser.add_argument("--operations", action="store_true", help="do something with each table, instead of scanning it")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, default=300)
    arguments = parser.parse_args()
    prepare()
    known, make = kept_cases(), operation_case if arguments.operations else scan_case
    warm_up(arguments.operations, known)
    limit_memory()
    start, results = time.monotonic(), Counter[str]()
    FOUND.mkdir(exist_ok=True)
    numbers = range(arguments.first, arguments.first + arguments.count)
    for name in [*known, *(f"{make.__name__}{number}" for number in numbers)]:
        (FOUND / "at").write_text(name)
        results[check(name, known[name] if name in known else make(int(name.removeprefix(make.__name__))))] += 1
    ORACLE.close()
    print(f"{results.total()} cases in {time.monotonic() - start:.0f} s: {dict(results)}")
    return 1 if results["found"] else 0


if __name__ == "__main__":
    sys.exit(main())
