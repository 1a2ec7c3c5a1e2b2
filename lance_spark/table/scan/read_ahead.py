"""Reading ahead: a thread fetches and decodes the next batches while the consumer processes the last one.

Both spend their time in calls that release the GIL: reads, decoding kernels, Arrow, and writing to Spark's socket.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

MAX_BATCHES = 8
MAX_BYTES = 32 << 20
"""Batches that wait in memory while the consumer handles one."""


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)


def prefetch(batches: Generator[T, None, None], max_bytes: int = MAX_BYTES) -> Generator[T, None, None]:
    """The same batches, read ahead by at most `MAX_BATCHES` batches and about `max_bytes` bytes, but at least one batch.

    Nothing is read before the first batch is requested. Errors of `batches` are raised in order. The thread ends and `batches` is closed
    when this generator ends or is closed, so that no thread is alive if the process forks between two scans.
    """
    is_exiting = sys.is_finalizing  # at the exit of Python, the names of modules may be gone
    pool = ThreadPoolExecutor(1, thread_name_prefix="lance_spark-ahead")
    waiting: deque[Future[T | None]] = deque([pool.submit(next, batches, None)])
    try:
        while (batch := waiting.popleft().result()) is not None:
            # Batches are of similar size, so the size of the last one decides how many may wait.
            room = max(1, min(MAX_BATCHES, max_bytes // max(batch.nbytes, 1)))
            while len(waiting) < room:
                waiting.append(pool.submit(next, batches, None))
            yield batch
    finally:
        if not is_exiting():
            pool.shutdown(cancel_futures=True)
        batches.close()
