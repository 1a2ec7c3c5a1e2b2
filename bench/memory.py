"""The memory and processor time of a process and all that it has started."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

INTERVAL_S = 0.05


class Peak:
    """Within `with Peak(pid) as peak`, `peak.bytes` is the most memory that the process and its descendants had at once.

    Pages that several of them share count once: it is the sum of their proportional shares, as Linux tells them. With `each`, which finds
    some of the processes, it is the most memory that one of these had.
    """

    def __init__(self, pid: int, each: Callable[[int], list[int]] | None = None) -> None:
        self.bytes = 0
        self._pid, self._each = pid, each
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.is_set():
            self.bytes = max(self.bytes, self._now())
            self._done.wait(INTERVAL_S)

    def _now(self) -> int:
        if self._each is not None:
            return max(map(_share, self._each(self._pid)), default=0)
        return sum(map(_share, tree(self._pid)))


def workers(pid: int) -> list[int]:
    """The Python processes that a process has started, directly or not."""
    return [one for one in tree(pid)[1:] if _name(one).startswith("python")]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def tree(pid: int) -> list[int]:
    """The process and its descendants."""
    found = [pid]
    for one in found:
        try:
            tasks = [*Path(f"/proc/{one}/task").iterdir()]
            found += [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except OSError:
            continue  # it has ended
    return found


def _share(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def processor_seconds(pid: int) -> float:
    """How long processors have worked for the process and its descendants, those that have ended included."""
    # What a process that ends had worked moves to its parent: both are read only while none ends.
    while True:
        processes = _descendants(pid)
        ticks = sum(map(_ticks, processes))
        if _descendants(pid) == processes:
            return ticks / os.sysconf("SC_CLK_TCK")


def _descendants(pid: int) -> list[int]:
    """The same as `tree`, from the parents of all processes: Linux leaves children out of its lists while others of them end."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            children.setdefault(int(status.read_text().rpartition(")")[2].split()[1]), []).append(int(status.parent.name))
        except OSError:
            continue  # it has ended
    found = [pid]
    for one in found:
        found += sorted(children.get(one, ()))
    return found


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))
