"""Which worker of pytest-xdist runs which files, and which part of the slow tests has which of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

LONG = 40
"""A file with more slow tests than this is in all parts of the slow tests."""
INSTALLING = ("test_wheel.py",)
"""Files whose tests take a minute each, since they install environments: they are begun with, and are in all parts, too."""


def by_spark(items: list[pytest.Item]) -> list[pytest.Item]:
    """The files that use the session of Spark first, each in one piece; files with few tests in the middle; those that install last."""
    tests = Counter(item.path for item in items)
    with_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}

    def place(item: pytest.Item) -> tuple[int, int, str]:
        if item.path.name in INSTALLING:
            return 2, 0, str(item.path)  # the second worker begins with it
        if item.path in with_spark:
            return 0, -tests[item.path], str(item.path)
        return 1, tests[item.path], str(item.path)

    return sorted(items, key=place)


def part_of(slow: Sequence[pytest.Item], part: int, parts: int) -> list[pytest.Item]:
    """One of the parts of the slow tests, which together have all of them.

    A test often makes what the next ones of its file use, too. So a file is in one part, the files by turns, and
    of a long file each part has tests in a row.
    """
    chosen: list[pytest.Item] = []
    short = 0
    for _, tests in groupby(slow, key=lambda item: item.path):
        of_file = list(tests)
        number = len(of_file)
        if number > LONG or of_file[0].path.name in INSTALLING:
            chosen += of_file[number * (part - 1) // parts : number * part // parts]
            continue
        if short % parts == part - 1:
            chosen += of_file
        short += 1
    return chosen


class SparkInOneWorker(LoadFileScheduling):  # type: ignore[misc]
    """The first worker takes files from the start, where those with Spark are, the others from the end.

    So one worker starts a session, whose classes are loaded and compiled once. Another one starts its own only
    if no other files are left.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # the items are in order

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node is not self.nodes[0]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
