"""Contestants in processes of their own, which take turns: for each work, each of them does it once, and then the next work comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.lakes.contestants import LAKES
from bench.lakes.works import WORKS, Round, Source, Work
from bench.memory import Peak, processor_seconds

_MARK = "answer: "


@dataclass
class Measured:
    """What a contestant needed for a work: seconds and processor seconds of every round, bytes of new files and bytes read, memory."""

    seconds: list[float] = field(default_factory=list)
    processors: list[float] = field(default_factory=list)
    written: int | None = None
    read: int | None = None
    memory: int = 0


Results = dict[str, dict[str, Measured]]
"""What each contestant needed for each work."""


@dataclass(frozen=True)
class Part:
    """The results of a part: how many rounds counted, and how many tasks wanted to run at its end, on average of 15 minutes."""

    rounds: int
    load: float
    results: Results


def read_part(path: Path) -> Part:
    """The results that were kept in a file."""
    kept = json.loads(path.read_text())
    results = {work: {who: Measured(**m) for who, m in found.items()} for work, found in kept.pop("results").items()}
    return Part(**kept, results=results)


def serve(contestant: str, root: Path, memory: str, source: Source) -> None:
    """The process of a contestant: the number of a work and of a round come in, seconds and answers go out."""
    lake = LAKES[contestant](root, memory)
    print(_MARK, flush=True)
    for line in sys.stdin:
        index, number = map(int, line.split())
        work, at = WORKS[index], Round(lake, source, number)
        if work.prepare is not None:
            work.prepare(at)
        print(_MARK, flush=True)
        sys.stdin.readline()
        start = time.perf_counter()
        answer = work.run(at)
        seconds = time.perf_counter() - start
        print(_MARK + json.dumps({"seconds": seconds, "answer": answer}), flush=True)
        sys.stdin.readline()
        print(_MARK + json.dumps({"read": None if work.read is None else lake.bytes_read(work.read(at))}), flush=True)


class Contestant:
    """The process of a contestant, seen from the one that measures."""

    def __init__(self, name: str, root: Path, memory: str, source: Source) -> None:
        self.name, self.root = name, root
        command = [sys.executable, "-m", "bench.lakes", "--serve", name, str(root), memory, json.dumps(asdict(source))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._out, self._in = self._process.stdin, self._process.stdout
        self._answer()
        self.results: dict[str, Measured] = {}

    def _answer(self) -> Any:
        for line in self._in:
            if line.startswith(_MARK):
                return json.loads(line.removeprefix(_MARK).strip() or "null")
        raise SystemExit(f"the process of {self.name} has ended")

    def _ask(self, line: str) -> Any:
        self._out.write(line + "\n")
        self._out.flush()
        return self._answer()

    def run(self, work: Work, number: int, counts: bool) -> list[str] | None:
        """Do a work once and return its answer. A round that does not count measures memory, which takes time."""
        self._ask(f"{WORKS.index(work)} {number}")
        result = self.results.setdefault(work.name, Measured())
        files = _files(self.root) if work.written else {}
        before = processor_seconds(self._process.pid)
        if counts:
            found = self._ask("go")
            result.seconds.append(found["seconds"])
            result.processors.append(processor_seconds(self._process.pid) - before)
        else:
            with Peak(self._process.pid) as peak:
                found = self._ask("go")
            result.memory = peak.bytes
        if work.written:
            result.written = sum(size for file, size in _files(self.root).items() if file not in files)
        result.read = self._ask("read")["read"]
        answer: list[str] | None = found["answer"]
        return answer

    def stop(self) -> None:
        """End the process."""
        self._out.close()
        self._process.wait()
        self._in.close()


def _files(root: Path) -> dict[str, int]:
    """The sizes of all files below a folder. A file that is written anew has another number."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            status = os.stat(path := os.path.join(folder, name))
            found[f"{path} {status.st_ino}"] = status.st_size
    return found


def compared(work: Work, answers: dict[str, list[str] | None]) -> None:
    """Stop if the contestants do not agree."""
    if len({json.dumps(answer) for answer in answers.values()}) > 1:
        raise SystemExit("\n".join([f"{work.name}: the answers differ", *(f"{who}: {answer}" for who, answer in answers.items())]))


def measure(contestants: list[Contestant], works: Sequence[Work], rounds: int) -> Iterator[int]:
    """The works in all rounds, after one that does not count; then those that are done once. Yields how many rounds count so far."""
    for number in range(rounds + 1):
        for work in works:
            if not work.last:
                _turn(contestants, work, number, number > 0)
        print(f"round {number} of {rounds}", flush=True)
        if number:
            yield number
    for work in works:
        if work.last:
            _turn(contestants, work, 0, True)
    yield rounds


def _turn(contestants: list[Contestant], work: Work, number: int, counts: bool) -> None:
    able = [c for c in contestants if not work.changes or LAKES[c.name].changes]
    compared(work, {c.name: c.run(work, number, counts) for c in able[number % len(able) :] + able[: number % len(able)]})
