"""python -m fuzz.run: read the cases that were ever found, and then seeded mutations.

Each case is made of its number alone. Findings are printed and kept in fuzz/found; exit status 1 says that there are some. The
number of the case at hand stands in fuzz/found/at, for when the process does not survive.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import sys
import time
import traceback
from collections import Counter

from fuzz import files
from fuzz.read import SECONDS, limit_memory, limited, prepare, read
from fuzz.seeds import ROOT, Seed, seeds

FOUND = ROOT / "fuzz" / "found"
CASES = ROOT / "tests" / "hostile"


def case(number: int) -> tuple[Seed, bytes]:
    """The seed and the mutated bytes of case `number`."""
    rng = random.Random(number)
    # All seeds in turn, those of data files three times as often as others.
    weighted = [s for s in seeds() for _ in range(3 if s.path.endswith(".lance") else 1)]
    seed = weighted[rng.randrange(len(weighted))]
    return seed, files.mutate(seed.path, seed.data, rng)


def found_cases() -> dict[str, tuple[Seed, bytes]]:
    """The cases that were found: NAME.json says which file of which table NAME.bin stands for."""
    cases = {}
    for about in sorted(CASES.glob("*.json")):
        entry = json.loads(about.read_text())
        cases[about.stem] = Seed(entry["table"], entry["path"]), about.with_suffix(".bin").read_bytes()
    return cases


def keep(name: str, seed: Seed, data: bytes, why: str) -> None:
    """Write a finding to `FOUND`, in the form of tests/hostile."""
    FOUND.mkdir(exist_ok=True)
    (FOUND / f"{name}.bin").write_bytes(data)
    (FOUND / f"{name}.json").write_text(json.dumps({"table": seed.table, "path": seed.path, "why": why}, indent=1) + "\n")


def check(name: str, seed: Seed, data: bytes) -> str:
    """What comes of reading: "read", "refused" or "found", which is printed and kept."""
    faulthandler.dump_traceback_later(3 * SECONDS, exit=True)
    try:
        rows = limited(seed, data)
    except Exception as e:  # noqa: BLE001 - whatever it is, it is what we are looking for
        last = traceback.extract_tb(e.__traceback__)[-1]
        why = f"{type(e).__name__}: {e}"
        print(f"{name}: {seed.table} {seed.path}: {why} at {last.filename}:{last.lineno}\n{traceback.format_exc()}", flush=True)
        keep(name, seed, data, why)
        return "found"
    finally:
        faulthandler.cancel_dump_traceback_later()
    return "refused" if rows is None else "read"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.run", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60, help="begin no case after so long")
    arguments = parser.parse_args()
    prepare()
    known = found_cases()
    used = {s.table: s for s in (seeds() if arguments.count else (seed for seed, _ in known.values()))}
    for seed in used.values():
        read(seed, seed.data)  # compiles the kernels, so that no case takes the time and memory of that
    limit_memory()
    start, results = time.monotonic(), Counter[str]()
    for name, (seed, data) in known.items():
        results[check(name, seed, data)] += 1
    FOUND.mkdir(exist_ok=True)
    for number in range(arguments.first, arguments.first + arguments.count):
        if time.monotonic() - start > arguments.seconds:
            break
        (FOUND / "at").write_text(str(number))
        results[check(f"case{number}", *case(number))] += 1
    print(f"{results.total()} cases in {time.monotonic() - start:.0f} s: {dict(results)}")
    return 1 if results["found"] else 0


if __name__ == "__main__":
    sys.exit(main())
