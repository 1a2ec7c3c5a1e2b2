"""Random namespaces against one plain table with the same rows, and no more tables opened than the partition values permit."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_spark import Dataset
from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
from lance_spark.namespace.partitioned.spec import FieldDefinition

SCHEMA = pa.schema(
    [
        pa.field("i", pa.int32()),
        pa.field("n", pa.int64()),
        pa.field("s", pa.string()),
        pa.field("d", pa.date32()),
        pa.field("t", pa.timestamp("us", "America/New_York")),
        pa.field("l", pa.timestamp("us")),
        pa.field("x", pa.float64()),
        pa.field("m", pa.decimal128(9, 2)),
    ]
)
FIELDS: list[FieldDefinition] = [
    "i", "s", "d", "x", "m", "l", ("bucket", "n", 3), ("bucket", "s", 4), ("truncate", "i", 5), ("truncate", "s", 1), ("truncate", "m", 2),
    ("year", "d"), ("month", "d"), ("day", "d"), ("year", "t"), ("month", "t"), ("hour", "t"), ("year", "l"), ("day", "l"), ("hour", "l"),
]  # fmt: skip
TEXTS = ["", "a", "ab", "é", "漢字", "🙂", "Z", "a%"]


def value(chance: random.Random, t: pa.DataType) -> Any:
    if chance.random() < 0.15:
        return None
    moment = (
        datetime(1969, 12, 31, 22, tzinfo=UTC)
        + timedelta(hours=chance.randrange(9))
        + timedelta(days=chance.choice([0, 0, 30, 400, -40_000]))
    )
    if pa.types.is_string(t):
        return chance.choice(TEXTS)
    if pa.types.is_date(t):
        return date(1970, 1, 1) + timedelta(days=chance.choice([-1, 0, 31, 366, -30_000]))
    if pa.types.is_timestamp(t):
        return moment if t.tz else moment.replace(tzinfo=None)
    if pa.types.is_floating(t):
        return chance.choice([float("nan"), 0.0, -0.0, 1.5, -2.5])
    if pa.types.is_decimal(t):
        return Decimal(chance.randrange(-40, 40)) / 4
    return chance.randrange(-12, 12)


def literal(chance: random.Random, f: pa.Field) -> str:
    while (v := value(chance, f.type)) is None:
        pass
    if isinstance(v, str):
        return f"'{v}'"
    if isinstance(v, datetime):
        return f"TIMESTAMP '{v.isoformat()}'" if v.tzinfo else f"TIMESTAMP_NTZ '{v.isoformat()}'"
    if isinstance(v, date):
        return f"DATE '{v.isoformat()}'"
    return f"CAST('{v}' AS DOUBLE)" if isinstance(v, float) else str(v)


def condition(chance: random.Random, depth: int = 2) -> str:
    if depth and chance.random() < 0.6:
        word = chance.choice(["AND", "AND", "OR"])
        inner = f"({condition(chance, depth - 1)} {word} {condition(chance, depth - 1)})"
        return f"NOT {inner}" if chance.random() < 0.15 else inner
    f = SCHEMA.field(chance.randrange(len(SCHEMA)))
    kind = chance.random()
    if kind < 0.2:
        return f"{f.name} IS {'NOT ' if kind < 0.1 else ''}NULL"
    if kind < 0.35:
        return f"{f.name} IN ({literal(chance, f)}, {literal(chance, f)})"
    if kind < 0.5:
        return f"{f.name} BETWEEN {literal(chance, f)} AND {literal(chance, f)}"
    if kind < 0.6:
        return f"s LIKE '{chance.choice(['a', 'é', '漢'])}%'"
    return f"{f.name} {chance.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {literal(chance, f)}"


def normal(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


EXAMPLES = 4 if settings.get_current_profile_name() == "default" else 100


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_a_namespace_is_the_table_with_the_same_rows(seed: int, tmp_path_factory: Any) -> None:
    chance = random.Random(seed)
    place: Path = tmp_path_factory.mktemp("differential")
    data = [pa.table([[value(chance, f.type) for _ in range(12)] for f in SCHEMA], schema=SCHEMA) for _ in range(2)]
    namespace = PartitionedNamespace.create(place / "n", SCHEMA, chance.sample(FIELDS, chance.randrange(0, 3)))
    namespace = namespace.write(data[0])
    if chance.random() < 0.4:
        namespace = namespace.add_spec(["s", *chance.sample([f for f in FIELDS if f != "s"], 1)])
    namespace = namespace.write(data[1])
    table = Dataset.write(place / "t", pa.concat_tables(data))
    assert normal(namespace.scan().to_table()) == normal(table.scan().to_table())
    for _ in range(8):
        filter = condition(chance)
        found = namespace.scan(filter=filter).to_table()
        assert normal(found) == normal(table.scan(filter=filter).to_table()), filter
        assert namespace.count_rows(filter) == found.num_rows
        kept, total = namespace.scan(filter=filter).partitions
        assert kept <= total == namespace.partitions().num_rows
