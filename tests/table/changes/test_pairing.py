"""Rows of a table and a source are paired by keys as by a join of all keys, though only rows with equal hashes are joined."""

from __future__ import annotations

import decimal
import pickle
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.arrow.equal_keys import equal_keys
from lance_spark.schema.schema import from_arrow
from lance_spark.table.changes.merge import pairing
from lance_spark.table.changes.merge.pairing import ByKeys

FLOATS = [0.0, -0.0, float("nan"), 1.5, -1.5, float("inf")]
VALUES: dict[str, tuple[pa.DataType, Callable[[int], object]]] = {
    "integers": (pa.int32(), lambda i: i - 3),
    "floats": (pa.float64(), lambda i: FLOATS[i % len(FLOATS)]),
    "texts": (pa.string(), lambda i: "x" * i),
    "bytes": (pa.large_binary(), lambda i: bytes([i])),
    "decimals": (pa.decimal128(30, 2), lambda i: decimal.Decimal(i * 10**20)),
    "times": (pa.timestamp("us", "UTC"), lambda i: i),
    "days": (pa.date32(), lambda i: i),
    "truths": (pa.bool_(), lambda i: bool(i % 2)),
    "numbers without a sign": (pa.uint64(), lambda i: 2**64 - 1 - i),
    "lists": (pa.list_(pa.int64()), lambda i: [i, None]),
}


def table(kinds: list[str], rng: np.random.Generator, rows: int) -> pa.Table:
    """Rows with few distinct keys, and nulls."""
    return pa.table(
        {
            kind: pa.array([None if i == 7 else make(i) for i in rng.integers(0, 12, rows).tolist()], t)
            for kind, (t, make) in ((kind, VALUES[kind]) for kind in kinds)
        }
    )


@pytest.mark.parametrize("kinds", [*([kind] for kind in VALUES), ["integers", "texts"], ["floats", "lists"]], ids=", ".join)
def test_pairs_are_those_of_a_join_of_all_keys(kinds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "_SCAN_ROWS", 16)
    rng = np.random.default_rng(5)
    source, rows = table(kinds, rng, 40), table(kinds, rng, 75)
    by_keys = pickle.loads(pickle.dumps(ByKeys(source, tuple(kinds), from_arrow(source.schema))))
    expected = zip(*(numbers.tolist() for numbers in equal_keys(source, rows, kinds)))
    (batch,) = rows.combine_chunks().to_batches()
    found = [pair for target, own in by_keys.pairs(batch) for pair in zip(own.tolist(), target.tolist())]
    assert sorted(found) == sorted(expected)
    assert found


def test_keys_that_no_row_of_the_table_has_pair_nothing() -> None:
    source = pa.table({"a": pa.array([1, 2, None])})
    by_keys = ByKeys(source, ("a",), from_arrow(source.schema))
    assert list(by_keys.pairs(pa.record_batch({"a": pa.array([3, None])}))) == []
