"""Namespaces as others write them: Daft's, one in the form of the draft, and one with tables by pylance in the merged form."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark.namespace.partitioned.namespace import PartitionedNamespace

KEY = {"lance-schema:unenforced-primary-key:position": "0"}
BASE = [
    pa.field("object_id", pa.string(), False, KEY),
    pa.field("object_type", pa.string(), False),
    pa.field("location", pa.string()),
    pa.field("metadata", pa.string()),
    pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
]
PINS = [pa.field("read_version", pa.uint64()), pa.field("read_branch", pa.string()), pa.field("read_tag", pa.string())]


def manifest(root: Path, rows: list[dict[str, object]], fields: list[pa.Field], metadata: dict[str, str] | None = None) -> None:
    """Write `__manifest` with pylance."""
    schema = pa.schema([*BASE, *fields], metadata=metadata)
    lance.write_dataset(pa.Table.from_pylist(rows, schema=schema), str(root / "__manifest"), data_storage_version="2.2")


def column(name: str, kind: str, number: int) -> dict[str, object]:
    return {"name": name, "nullable": True, "type": {"type": kind}, "metadata": {"lance:field_id": str(number)}}


@pytest.fixture
def daft(tmp_path: Path) -> PartitionedNamespace:
    """The layout of Daft: properties in the Arrow schema's metadata, and tables without the partition columns."""
    rows: list[dict[str, object]] = [{"object_id": "v1", "object_type": "namespace"}]
    for i, country in enumerate(["US", "DE", None]):
        name = f"aaaaaaaaaaaaaaa{i}"
        location = f"{i:08x}_v1${name}$dataset"
        table = pa.table({"id": pa.array([2 * i, 2 * i + 1], pa.int64()), "ts": pa.array([i, None], pa.timestamp("us", "UTC"))})
        lance.write_dataset(table, str(tmp_path / location))
        rows.append({"object_id": f"v1${name}", "object_type": "namespace", "partition_field_country": country})
        values = {"location": location, "read_version": 1, "partition_field_country": country}
        rows.append({"object_id": f"v1${name}$dataset", "object_type": "table", **values})
    field = {"field_id": "country", "source_ids": [2], "transform": {"type": "identity"}, "result_type": {"type": "utf8"}}
    fields = [column("id", "int64", 0), column("ts", "timestamp[us,tz=UTC]", 1), column("country", "utf8", 2)]
    properties = {"partition_spec_v1": json.dumps({"id": 1, "fields": [field]}), "schema": json.dumps({"fields": fields})}
    manifest(tmp_path, rows, [*PINS, pa.field("partition_field_country", pa.string())], properties)
    return PartitionedNamespace.open(tmp_path)


@pytest.fixture
def draft(tmp_path: Path) -> PartitionedNamespace:
    """The example of the draft's appendix: two specs, columns named like their fields, no pinned versions."""
    v1 = [{"field_id": 1, "name": "event_date", "source_id": 1, "expression": "col", "result_type": {"type": "date32"}}]
    v2 = [
        {"field_id": 2, "name": "event_year", "source_id": 1, "expression": "date_part('year', col)", "result_type": {"type": "int32"}},
        {"field_id": 3, "name": "country", "source_id": 2, "expression": "col", "result_type": {"type": "utf8"}},
    ]
    fields = [column("id", "int64", 0), column("event_date", "date32", 1), column("country", "utf8", 2)]
    days = [20432, 20433, 20434]  # from 2025-12-10 on
    rows: list[dict[str, object]] = []
    partitions: list[tuple[str, dict[str, object]]] = [
        ("v1$k7m2n9p4q8r5s3t6$dataset", {"event_date": days[0]}),
        ("v1$w1x2y3z4a5b6c7d8$dataset", {"event_date": days[1]}),
        ("v2$e9f0g1h2i3j4k5l6$m7n8o9p0q1r2s3t4$dataset", {"event_year": 2025, "country": "US"}),
    ]
    for i, (object_id, values) in enumerate(partitions):
        country = ["DE", "US", "US"][i]
        table = pa.table({"id": pa.array([i], pa.int64()), "event_date": pa.array([days[i]], pa.date32()), "country": [country]})
        lance.write_dataset(table, str(tmp_path / f"{i:08x}_{object_id}"))
        rows.append({"object_id": object_id, "object_type": "table", "metadata": "{}", "location": f"{i:08x}_{object_id}", **values})
    partition = [pa.field("event_date", pa.date32()), pa.field("event_year", pa.int32()), pa.field("country", pa.string())]
    manifest(tmp_path, rows, partition)
    properties = {"partition_spec_v1": json.dumps(v1), "partition_spec_v2": json.dumps(v2), "schema": json.dumps({"fields": fields})}
    lance.dataset(str(tmp_path / "__manifest")).update_metadata(properties)
    return PartitionedNamespace.open(tmp_path)


def ids(namespace: PartitionedNamespace, filter: str | None = None) -> list[int]:
    return sorted(namespace.scan(columns=["id"], filter=filter).to_table()["id"].to_pylist())


def test_a_namespace_of_daft_is_read_with_its_partition_columns(daft: PartitionedNamespace) -> None:
    assert daft.schema.names == ["id", "ts", "country"]
    found = daft.scan(columns=["country", "id"]).to_table().to_pylist()
    assert [(r["country"], r["id"]) for r in found] == [("US", 0), ("US", 1), ("DE", 2), ("DE", 3), (None, 4), (None, 5)]
    assert ids(daft, "country = 'DE' AND id > 2") == [3]
    assert daft.scan(filter="country IS NULL").partitions == (1, 3)
    assert daft.count_rows("ts IS NULL") == 3


def test_a_namespace_of_daft_is_written_in_its_layout(daft: PartitionedNamespace) -> None:
    more = pa.table({"id": pa.array([10, 11], pa.int64()), "country": ["DE", "FR"]})
    later = daft.write(more)
    assert ids(later) == [0, 1, 2, 3, 4, 5, 10, 11]
    assert ids(later, "country = 'DE'") == [2, 3, 10]
    assert later.partitions().num_rows == 4
    assert {row["read_version"] for row in later.partitions().to_pylist()} == {1, 2}


def test_a_namespace_in_the_form_of_the_draft_is_read_by_both_specs(draft: PartitionedNamespace) -> None:
    assert ids(draft) == [0, 1, 2]
    assert draft.scan(filter="event_date = DATE '2025-12-10'").partitions == (2, 3)
    assert ids(draft, "event_date = DATE '2025-12-10'") == [0]
    assert draft.scan(filter="event_date >= DATE '2026-01-01'").partitions == (0, 3)
    assert draft.scan(filter="country = 'DE'").partitions == (2, 3)


def test_a_new_spec_of_the_draft_s_namespace_prunes_by_columns_that_are_there(draft: PartitionedNamespace) -> None:
    later = draft.add_spec(["country", ("bucket", "id", 4)])
    later = later.write(pa.table({"id": [8, 9], "event_date": [date(2026, 1, 1)] * 2, "country": ["FR", "IT"]}))
    later = PartitionedNamespace.open(later.uri)
    assert later.scan(filter="country = 'IT'").partitions == (3, 5)
    assert ids(later, "country = 'IT'") == [9]
    assert ids(later) == [0, 1, 2, 8, 9]
    partitions = later.partitions()
    assert partitions["country"].to_pylist().count("IT") == 1, partitions.schema


def test_the_draft_s_tables_are_read_at_their_latest_versions(draft: PartitionedNamespace) -> None:
    location = draft.partitions()["location"][0].as_py()
    table = pa.table({"id": pa.array([7], pa.int64()), "event_date": pa.array([20432], pa.date32()), "country": ["FR"]})
    lance.write_dataset(table, f"{draft.uri}/{location}", mode="append")
    assert ids(draft) == [0, 1, 2, 7]


def test_time_zones_that_a_schema_leaves_out_are_those_of_the_tables(tmp_path: Path) -> None:
    moments = pa.array([0, 20 * 3_600_000_000], pa.timestamp("us", "America/New_York"))
    field = {"field_id": "y", "source_ids": [0], "transform": {"type": "year"}, "result_type": {"type": "int32"}}
    rows: list[dict[str, object]] = []
    for i, year in enumerate([1969, 1970]):
        location = f"{i:08x}_v1$a{i}$dataset"
        lance.write_dataset(pa.table({"id": [i], "t": moments.slice(i, 1)}), str(tmp_path / location))
        values = {"location": location, "read_version": 1, "partition_field_y": year}
        rows.append({"object_id": f"v1$a{i}$dataset", "object_type": "table", **values})
    properties = {
        "partition_spec_v1": json.dumps({"id": 1, "fields": [field]}),
        "schema": json.dumps({"fields": [column("t", "timestamp", 0), column("id", "int64", 1)]}),
    }
    manifest(tmp_path, rows, [*PINS, pa.field("partition_field_y", pa.int32())], properties)
    namespace = PartitionedNamespace.open(tmp_path)
    assert namespace.schema.field("t").type == moments.type
    assert ids(namespace, "t = TIMESTAMP '1970-01-01T00:00:00Z'") == [0]
    assert namespace.scan(filter="t = TIMESTAMP '1970-01-01T00:00:00Z'").partitions == (1, 2)
