"""The time that each thread waits for stores."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator


class _Clock(threading.local):
    seconds = 0.0


_CLOCK = _Clock()


def waited() -> float:
    """The seconds that this thread has waited for stores so far."""
    return _CLOCK.seconds


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Count the time of the block as waiting."""
    start = time.perf_counter()
    try:
        yield
    finally:
        _CLOCK.seconds += time.perf_counter() - start


@contextlib.contextmanager
def working() -> Iterator[None]:
    """Do not count the time of the block, which is within a block of `waiting`."""
    start = time.perf_counter()
    try:
        yield
    finally:
        _CLOCK.seconds -= time.perf_counter() - start
