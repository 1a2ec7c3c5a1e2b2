"""Pruning, against brute force: a partition with a matching row is never left out, and no more are kept than the transform permits."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark.namespace.partitioned.pruning import may_match
from lance_spark.namespace.partitioned.spec import FIELD_ID, PartitionField, PartitionSpec
from lance_spark.namespace.partitioned.transforms import Transform
from lance_spark.predicate import evaluate, parse
from lance_spark.schema.schema import from_arrow

pytestmark = pytest.mark.spec("partitioned-namespace.md", "Partition Pruning")

RANDOM = random.Random(7)


def moments(zone: str | None) -> pa.Array:
    start = datetime(1969, 12, 30, tzinfo=UTC)
    near = [start + timedelta(hours=RANDOM.randrange(24 * 4), minutes=RANDOM.randrange(60)) for _ in range(60)]
    years = [RANDOM.choice([1583, 1900, 1970, 2023, 2024]) for _ in range(60)]
    far = [datetime(year, RANDOM.randrange(1, 13), RANDOM.randrange(1, 29), tzinfo=UTC) for year in years]
    clocks = [datetime(2023, 11, 5, 4, tzinfo=UTC) + timedelta(minutes=10 * i) for i in range(30)]
    if zone is None:
        return pa.array([None, *(m.replace(tzinfo=None) for m in near + far + clocks)], pa.timestamp("us"))
    return pa.array([None, *near, *far, *clocks], pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))


SOURCES: dict[str, pa.Array] = {
    "int": pa.array([None, *range(-25, 26), 2**31 - 1, -(2**31)], pa.int32()),
    "long": pa.array([None, *range(-25, 26), 2**63 - 1, -(2**63)], pa.int64()),
    "string": pa.array([None, "", "a", "ab", "abc", "abd", "b", "é", "éa", "漢字", "漢字x", "🙂", "%", "a%b", "zz"]),
    "date": pa.array(
        [None, date(1969, 12, 31), date(1970, 1, 1), date(2023, 2, 28), date(2023, 3, 1), date(2024, 2, 29), date(1583, 1, 1)]
    ),
    "moment": moments(None),
    "utc": moments("UTC"),
    "new_york": moments("America/New_York"),
    "decimal": pa.array([None, *(Decimal(i) / 4 for i in range(-90, 90, 7))], pa.decimal128(10, 2)),
    "double": pa.array([None, float("nan"), 0.0, -0.0, 1.5, -1.5, float("inf")]),
    "bool": pa.array([None, True, False]),
}
TRANSFORMS: dict[str, list[tuple[str, int | None]]] = {
    "int": [("identity", None), ("truncate", 10)],
    "long": [("identity", None), ("truncate", 7), ("bucket", 5)],
    "string": [("identity", None), ("truncate", 2), ("bucket", 3)],
    "date": [("identity", None), ("year", None), ("month", None), ("day", None)],
    "moment": [("identity", None), ("year", None), ("month", None), ("day", None), ("hour", None)],
    "utc": [("year", None), ("month", None), ("day", None), ("hour", None)],
    "new_york": [("identity", None), ("year", None), ("month", None), ("day", None), ("hour", None)],
    "decimal": [("identity", None), ("truncate", 3)],
    "double": [("identity", None)],
    "bool": [("identity", None)],
}
CELLS = [(source, *transform) for source, transforms in TRANSFORMS.items() for transform in transforms]


def literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP{'' if value.tzinfo else '_NTZ'} '{value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, float):
        return f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)


def conditions(values: pa.Array) -> list[str]:
    known = [literal(v) for v in values.drop_null().to_pylist()]
    found = ["x IS NULL", "x IS NOT NULL", "x IS NULL OR x IS NOT NULL", "NOT (x IS NULL)"]
    for _ in range(14):
        a, b, c = (RANDOM.choice(known) for _ in range(3))
        op = RANDOM.choice(["=", "<>", "<", "<=", ">", ">=", "<=>"])
        found += [f"x {op} {a}", f"{a} {op} x", f"x IN ({a}, {b})", f"NOT (x {op} {a})", f"x BETWEEN {a} AND {b}", f"x > {a} AND x < {b}"]
        found += [f"x = {a} OR x {op} {b}", f"x NOT IN ({a}, {c})", f"(x >= {a} AND x <= {b}) OR x = {c}", f"x IN ({a}, NULL)"]
    if pa.types.is_string(values.type):
        found += ["x LIKE 'a%'", "x LIKE 'abc%'", "x LIKE 'a\\\\%%'", "x LIKE '漢%'", "x LIKE '_b%'", "x LIKE 'ab'", "startswith(x, 'ab')"]
        found += ["x RLIKE 'b'", "x RLIKE '^ab'", "x RLIKE 'a|b'"]
    return found


def namespace(values: pa.Array, kind: str, parameter: int | None) -> tuple[pa.Schema, PartitionSpec, pa.Table, pa.Array]:
    transform = Transform(kind, parameter)
    schema = pa.schema([pa.field("x", values.type, metadata={FIELD_ID: b"0"}), pa.field("y", pa.int64(), metadata={FIELD_ID: b"1"})])
    field = PartitionField("x", "partition_field_x", ("0",), transform, transform.result_type(values.type))
    results = transform.apply(values)
    distinct = pc.unique(results)
    return schema, PartitionSpec(1, (field,)), pa.table({field.column: distinct}), results


@pytest.mark.matrix
@pytest.mark.parametrize(("source", "kind", "parameter"), CELLS, ids=lambda v: str(v))
def test_a_partition_with_a_row_that_matches_is_kept(source: str, kind: str, parameter: int | None) -> None:
    values = SOURCES[source]
    schema, spec, rows, results = namespace(values, kind, parameter)
    batch = pa.record_batch({"x": values})
    codes = pc.index_in(results, value_set=rows[0].combine_chunks(), skip_nulls=False).to_numpy()
    for sql in conditions(values):
        predicate = parse(sql, from_arrow(schema))
        matching = pc.fill_null(evaluate(predicate, batch), False).to_numpy(zero_copy_only=False)
        kept = may_match(predicate, spec, schema, rows)
        lost = set(codes[matching].tolist()) - set(np.flatnonzero(kept).tolist())
        assert not lost, f"{sql}: left out {[rows[0][i] for i in lost]}"
        if kind == "identity" and source != "double":
            assert set(np.flatnonzero(kept).tolist()) == set(codes[matching].tolist()), sql


Permits = Callable[[Any], bool]
EXACT = [
    ("int", "truncate", 10, "x = -7", lambda p: p == 0),
    ("int", "truncate", 10, "x < -10", lambda p: p is not None and p <= -10),
    ("int", "truncate", 10, "x >= 12", lambda p: p is not None and p >= 10),
    ("int", "truncate", 10, "x BETWEEN 3 AND 14", lambda p: p in (0, 10)),
    ("int", "truncate", 10, "x IS NULL", lambda p: p is None),
    ("long", "bucket", 5, "x IN (1, 2)", lambda p: p in Transform("bucket", 5).apply(pa.array([1, 2], pa.int64())).to_pylist()),
    ("long", "bucket", 5, "x > 3", lambda p: p is not None),
    ("long", "bucket", 5, "x IS NULL", lambda p: p is None),
    ("string", "truncate", 2, "x = 'abc'", lambda p: p == "ab"),
    ("string", "truncate", 2, "x < 'ab'", lambda p: p is not None and p <= "ab"),
    ("string", "truncate", 2, "x LIKE 'abc%'", lambda p: p == "ab"),
    ("string", "truncate", 2, "x LIKE '漢%'", lambda p: p is not None and p.startswith("漢")),
    ("utc", "year", None, "x >= TIMESTAMP '2023-01-01'", lambda p: p is not None and p >= 2023),
    ("utc", "year", None, "x < TIMESTAMP '2023-01-01'", lambda p: p is not None and p <= 2022),
    ("new_york", "year", None, "x >= TIMESTAMP '2023-01-01T05:00:00Z'", lambda p: p is not None and p >= 2023),
    ("new_york", "year", None, "x >= TIMESTAMP '2023-01-01T04:59:59Z'", lambda p: p is not None and p >= 2022),
    ("utc", "month", None, "x > TIMESTAMP '2023-01-01'", lambda p: p is not None),
    ("utc", "month", None, "x BETWEEN TIMESTAMP '2023-02-01' AND TIMESTAMP '2023-03-31'", lambda p: p in (2, 3)),
    ("date", "day", None, "x BETWEEN DATE '2023-02-28' AND DATE '2023-03-01'", lambda p: p in (28, 1)),
    ("new_york", "hour", None, "x >= TIMESTAMP '2023-11-05T05:30:00Z' AND x < TIMESTAMP '2023-11-05T06:30:00Z'", lambda p: p == 1),
    ("date", "year", None, "x = DATE '2024-02-29'", lambda p: p == 2024),
    ("date", "month", None, "x = DATE '2024-02-29' OR x IS NULL", lambda p: p in (2, None)),
]


@pytest.mark.parametrize(("source", "kind", "parameter", "sql", "permits"), EXACT, ids=lambda v: v if isinstance(v, str) else "")
def test_no_more_partitions_are_kept_than_the_transform_permits(
    source: str, kind: str, parameter: int | None, sql: str, permits: Permits
) -> None:
    schema, spec, rows, _ = namespace(SOURCES[source], kind, parameter)
    kept = may_match(parse(sql, from_arrow(schema)), spec, schema, rows)
    values = rows[0].to_pylist()
    assert {v for v, k in zip(values, kept) if k} == {v for v in values if permits(v)}


def test_conditions_on_other_columns_and_unknown_expressions_keep_every_partition() -> None:
    schema, spec, rows, _ = namespace(SOURCES["int"], "identity", None)
    assert may_match(parse("y = 3", from_arrow(schema)), spec, schema, rows).all()
    assert may_match(parse("x + y = 3", from_arrow(schema)), spec, schema, rows).all()
    unknown = PartitionSpec(1, (PartitionField("x", "partition_field_x", ("0",), None, pa.int32(), "upper(col0)"),))
    assert may_match(parse("x = 3", from_arrow(schema)), unknown, schema, rows).all()


def test_parts_of_a_condition_prune_by_several_fields() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), metadata={FIELD_ID: b"0"}), pa.field("b", pa.string(), metadata={FIELD_ID: b"1"})])
    fields = (
        PartitionField("a", "pa", ("0",), Transform("truncate", 10), pa.int64()),
        PartitionField("b", "pb", ("1",), Transform("identity"), pa.string()),
    )
    rows = pa.table({"pa": [0, 0, 10, 10, None], "pb": ["x", "y", "x", "y", "x"]})
    predicate = parse("a = 13 AND (b = 'x' OR a < 3)", from_arrow(schema))
    assert may_match(predicate, PartitionSpec(1, fields), schema, rows).tolist() == [False, False, True, False, False]
