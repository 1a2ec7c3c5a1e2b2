"""Partial aggregates of batches: combined as Spark does it, they are the aggregates of all rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.predicate.tree import Column
from lance_spark.spark.aggregation import partial as module
from lance_spark.spark.aggregation.expression import Arithmetic
from lance_spark.spark.aggregation.partial import Aggregate, Aggregation, partial

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("d", pa.decimal128(4, 2))])
K, N, D = (Column((f.name,), f.type) for f in SCHEMA)
AGGREGATES = {
    Aggregate("count"): pa.int64(),
    Aggregate("count", N): pa.int64(),
    Aggregate("min", D): pa.decimal128(4, 2),
    Aggregate("max", K): pa.string(),
    Aggregate("sum", N): pa.int64(),
    Aggregate("sum", D): pa.decimal128(4, 2),
    Aggregate("sum", Arithmetic("*", D, D)): pa.decimal128(9, 4),
}
ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["", "a", "b", "é"]),
        st.none() | st.integers(-9, 9) | st.sampled_from([2**63 - 1, -(2**63)]),
        st.none() | st.integers(-9999, 9999).map(lambda n: Decimal(n) / 100),
    ),
    max_size=40,
)


def aggregation(keys: tuple[Column, ...], aggregates: dict[Aggregate, pa.DataType]) -> Aggregation:
    result = [("k", key.type) for key in keys] + [(f"a{i}", t) for i, t in enumerate(aggregates.values())]
    return Aggregation(keys, tuple(aggregates), pa.schema(result))


def batches(rows: list[tuple[Any, ...]], size: int) -> list[pa.RecordBatch]:
    cut = [rows[at : at + size] for at in range(0, len(rows), size)]
    return [pa.record_batch([pa.array(c, f.type) for c, f in zip(zip(*part), SCHEMA)], schema=SCHEMA) for part in cut]


def noted(source: list[pa.RecordBatch], taken: list[int]) -> Iterator[pa.RecordBatch]:
    """The batches, of which `taken` gets the numbers as soon as they are asked for."""
    for i, batch in enumerate(source):
        taken.append(i)
        yield batch


def combine(function: str, values: Iterable[Any]) -> Any:
    """What Spark makes of partial results, or of the values themselves."""
    there = [v for v in values if v is not None]
    if not there:
        return None
    functions: dict[str, Callable[[list[Any]], Any]] = {"count": sum, "sum": sum, "min": min, "max": max}
    return functions[function](there)


def combined(wanted: Aggregation, found: list[pa.RecordBatch]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for batch in found:
        assert batch.schema == wanted.result
        batch.validate(full=True)
        for row in zip(*batch.to_pydict().values()):
            groups[row[: len(wanted.keys)]].append(row[len(wanted.keys) :])
    return {key: [combine(a.function, v) for a, v in zip(wanted.aggregates, zip(*rows))] for key, rows in groups.items()}


def expected(rows: list[tuple[Any, ...]], keys: int) -> dict[Any, list[Any]]:
    groups: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        groups[row[:keys]].append(row)
    if not keys and not rows:
        return {(): [0, 0, None, None, None, None, None]}
    out = {}
    for key, members in groups.items():
        k, n, d = zip(*members)
        squares = [None if v is None else v * v for v in d]
        sums = [combine("sum", values) for values in (n, d, squares)]
        out[key] = [len(k), sum(v is not None for v in n), combine("min", d), combine("max", k), *sums]
    return out


@pytest.fixture(scope="module", params=[(1, 1, 64), (4, 8, 1 << 20), (1 << 20, 4096, 1 << 20)], ids=str)
def sizes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sizes of chunks, so small that every path is taken."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(("CHUNK_ROWS", "_SMALL_CHUNK", "MAX_GROUP_BYTES"), request.param):
            patch.setattr(module, name, value)
        yield


@pytest.mark.usefixtures("sizes")
@given(rows=ROWS, size=st.integers(1, 9), keys=st.integers(0, 1))
def test_combined_results_are_those_of_all_rows(rows: list[tuple[Any, ...]], size: int, keys: int) -> None:
    wanted = aggregation((K,) if keys else (), AGGREGATES)
    found = list(partial(wanted, batches(rows, size)))
    assert combined(wanted, found) == expected(rows, keys)


def test_few_groups_are_one_row_each() -> None:
    rows = [("ab"[i % 2], i % 10, Decimal("0.01")) for i in range(2000)]
    found = list(partial(aggregation((K,), {Aggregate("sum", N): pa.int64()}), batches(rows, 100)))
    assert pa.Table.from_batches(found).sort_by("k").to_pydict() == {"k": ["a", "b"], "a0": [4000, 5000]}


def test_nearly_unique_keys_are_returned_as_they_are_read() -> None:
    rows = [(str(i), i, None) for i in range(20_000)]
    taken: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_ROWS", 5000)
        found = partial(
            aggregation((K,), {Aggregate("count"): pa.int64(), Aggregate("max", N): pa.int64()}), noted(batches(rows, 5000), taken)
        )
        assert next(found).num_rows == 5000
        assert taken == [0]
        assert sum(batch.num_rows for batch in found) == 15_000


def test_chunks_of_nearly_unique_keys_are_not_grouped() -> None:
    rows = [(str(i * (i < 39_990)), i, None) for i in range(40_000)]
    found = list(partial(aggregation((K,), {Aggregate("count"): pa.int64()}), batches(rows, 5000)))
    assert sum(batch.num_rows for batch in found) == 40_000


def test_memory_is_bounded_by_returning_groups() -> None:
    rows = [(str(i % 1000), i, None) for i in range(30_000)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_ROWS", 5000)
        patch.setattr(module, "MAX_GROUP_BYTES", 2500)
        found = list(partial(aggregation((K,), {Aggregate("count"): pa.int64()}), batches(rows, 1000)))
    assert [batch.num_rows for batch in found] == [1000, 1000, 1000]


def test_keys_that_chunks_have_in_common_are_one_group() -> None:
    """Each chunk has half as many groups as rows, all chunks together a tenth."""
    rows = [(str(i * 7919 % 8000), i, None) for i in range(80_000)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_ROWS", 16_000)
        patch.setattr(module, "MAX_GROUP_BYTES", 1 << 20)
        found = list(partial(aggregation((K,), {Aggregate("sum", N): pa.int64()}), batches(rows, 4000)))
    assert sum(batch.num_rows for batch in found) == 8000


def test_groups_that_no_other_chunk_has_are_returned_early() -> None:
    rows = [(str(i // 5), i, None) for i in range(30_000)]
    taken: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_ROWS", 5000)
        found = partial(aggregation((K,), {Aggregate("count"): pa.int64()}), noted(batches(rows, 5000), taken))
        assert next(found).num_rows == 2000
        assert taken == [0, 1]
        assert next(found).num_rows == 1000
        assert taken == [0, 1, 2]
        assert sum(batch.num_rows for batch in found) == 3000


def test_sums_of_longs_that_could_overflow_are_left_to_spark_in_the_order_of_the_rows() -> None:
    numbers = [5, 6, 2**63 - 1, 7, -(2**63), 1]
    wanted = aggregation((), {Aggregate("sum", N): pa.int64()})
    found = list(partial(wanted, batches([(None, n, None) for n in numbers], 3)))
    assert [n for batch in found for n in batch.column(0).to_pylist()] == numbers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_ROWS", 2)
        found = list(partial(wanted, batches([(None, n, None) for n in numbers], 2)))
    assert [n for batch in found for n in batch.column(0).to_pylist()] == [11, 2**63 - 1, 7, -(2**63), 1]


def test_partial_sums_of_decimals_have_no_more_digits_than_the_values() -> None:
    """Spark casts them to the type of the values, which would fail or give null."""
    rows = [(None, None, Decimal("12.34"))] * 20_000
    found = list(partial(aggregation((), {Aggregate("sum", D): pa.decimal128(4, 2)}), batches(rows, 4000)))
    sums = [n for batch in found for n in batch.column(0).to_pylist()]
    assert max(sums) <= Decimal("99.99")
    assert sum(sums) == Decimal("12.34") * 20_000


def test_nested_values_are_counted() -> None:
    batch = pa.record_batch({"s": pa.array([{"x": 1}, None, {"x": None}])})
    wanted = aggregation((), {Aggregate("count", Column(("s",), batch.schema.field("s").type)): pa.int64()})
    assert [b.to_pydict() for b in partial(wanted, [batch])] == [{"a0": [2]}]


def test_groups_without_functions_are_the_keys() -> None:
    wanted = aggregation((K,), {})
    assert [b.to_pydict() for b in partial(wanted, batches([("a", 1, None), (None, 2, None), ("a", 3, None)], 3))] == [{"k": ["a", None]}]
    assert list(partial(wanted, [])) == []
