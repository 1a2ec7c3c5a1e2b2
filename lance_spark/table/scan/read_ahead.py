"""Reading ahead: a thread fetches and decodes the next batches while whoever asked for them deals with the last one.

Both sides spend their time in calls that let other threads run: reads, decoding kernels, Arrow, and writing to Spark's socket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

MAX_BATCHES = 8
MAX_BYTES = 32 << 20


def prefetch(batches: Generator[pa.RecordBatch, None, None]) -> Generator[pa.RecordBatch, None, None]:
    """The same batches, with up to `MAX_BATCHES` read in advance, and about `MAX_BYTES` bytes, but at least one.

    Nothing is read before the first is asked for. What `batches` raises is raised in its place. The thread ends and `batches` is closed
    when this generator ends or is closed, so that a process which forks between two scans has none of them.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="lance_spark-ahead")
    waiting: deque[Future[pa.RecordBatch | None]] = deque([pool.submit(next, batches, None)])
    try:
        while (batch := waiting.popleft().result()) is not None:
            # Batches are much alike, so that the size of the last one says how many may wait.
            room = max(1, min(MAX_BATCHES, MAX_BYTES // max(batch.nbytes, 1)))
            while len(waiting) < room:
                waiting.append(pool.submit(next, batches, None))
            yield batch
    finally:
        pool.shutdown(cancel_futures=True)
        batches.close()
