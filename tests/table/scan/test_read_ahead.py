"""Read-ahead keeps the batches and their order, and leaves no thread behind."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.table.scan.read_ahead import MAX_BATCHES, MAX_BYTES, prefetch


class Source:
    """Returns batches of one number each, records the requests, and fails after `fails_after` batches."""

    def __init__(self, count: int, fails_after: int | None = None, rows: int = 1) -> None:
        self.count, self.fails_after, self.rows = count, fails_after, rows
        self.made = 0
        self.closed = False

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        try:
            for i in range(self.count):
                if i == self.fails_after:
                    raise ValueError(f"no batch {i}")
                self.made += 1
                yield pa.record_batch({"x": pa.repeat(i, self.rows)})
        finally:
            self.closed = True


def threads() -> int:
    return sum(t.name.startswith("lance_spark-ahead") for t in threading.enumerate())


@given(st.integers(0, 30))
def test_all_batches_come_in_order(count: int) -> None:
    source = Source(count)
    assert [b["x"][0].as_py() for b in prefetch(source.batches())] == list(range(count))
    assert source.closed
    assert threads() == 0


@given(st.integers(0, 20))
def test_an_error_comes_after_the_batches_before_it(fails_after: int) -> None:
    batches = prefetch(Source(30, fails_after).batches())
    assert [next(batches)["x"][0].as_py() for _ in range(fails_after)] == list(range(fails_after))
    with pytest.raises(ValueError, match=f"no batch {fails_after}"):
        next(batches)
    assert threads() == 0


def test_nothing_is_read_before_the_first_request() -> None:
    source = Source(3)
    batches = prefetch(source.batches())
    assert (source.made, threads()) == (0, 0)
    batches.close()
    assert (source.made, threads()) == (0, 0)


def test_closing_early_closes_the_source_and_ends_the_thread() -> None:
    source = Source(1000)
    batches = prefetch(source.batches())
    next(batches)
    next(batches)
    batches.close()
    assert source.closed
    assert source.made <= 2 + MAX_BATCHES
    assert threads() == 0


def test_large_batches_wait_one_at_a_time() -> None:
    source = Source(1000, rows=MAX_BYTES // 8)
    batches = prefetch(source.batches())
    next(batches)
    batches.close()
    assert source.made <= 2
