"""Specs and schemas as JSON: the merged form is written; that form, the draft's and Daft's are read."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError, InvalidOptionError
from lance_spark.namespace.partitioned.json_arrow import schema_from_json, schema_to_json, type_from_json, type_to_json
from lance_spark.namespace.partitioned.spec import FIELD_ID, new_spec, specs_of
from lance_spark.namespace.partitioned.transforms import XXHASH64, Transform

pytestmark = [
    pytest.mark.spec("partitioned-namespace.md", "Metadata Definition"),
    pytest.mark.spec("partitioned-namespace.md", "Partitioning"),
]

TYPES = [
    pa.null(), pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.string(), pa.large_string(), pa.binary(3), pa.date32(),
    pa.date64(), pa.time32("s"), pa.time64("ns"), pa.timestamp("us"), pa.timestamp("ns", "America/New_York"), pa.duration("ms"),
    pa.decimal128(10, 2), pa.decimal256(50, -3), pa.list_(pa.int32()), pa.list_(pa.float32(), 4), pa.large_list(pa.string()),
    pa.struct([pa.field("a", pa.int32(), False)]), pa.map_(pa.string(), pa.int32()),
]  # fmt: skip
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), False, {FIELD_ID: b"0"}),
        pa.field("ts", pa.timestamp("us", "UTC"), metadata={FIELD_ID: b"1"}),
        pa.field("country", pa.string(), metadata={FIELD_ID: b"2"}),
    ]
)


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_types_come_back_from_json(t: pa.DataType) -> None:
    assert type_from_json(json.loads(json.dumps(type_to_json(t, "x")))) == t


def test_schemas_come_back_from_json_with_metadata() -> None:
    assert schema_from_json(json.loads(json.dumps(schema_to_json(SCHEMA)))).equals(SCHEMA, check_metadata=True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"type": "decimal128", "length": 10002}, pa.decimal128(10, 2)),
        ({"type": "timestamp"}, pa.timestamp("us")),
        ({"type": "timestamp[us,tz=UTC]"}, pa.timestamp("us", "UTC")),
        ({"type": "boolean"}, pa.bool_()),
    ],
)
def test_types_of_other_writers_are_read(value: dict[str, Any], expected: pa.DataType) -> None:
    assert type_from_json(value) == expected


@pytest.mark.parametrize("value", [None, [], {}, {"fields": 3}, {"fields": [{"name": "a", "type": {"type": "nope"}}]}, {"fields": [{}]}])
def test_other_json_is_no_schema(value: object) -> None:
    with pytest.raises(CorruptFileError):
        schema_from_json(value)


def test_the_merged_form_is_written_and_read() -> None:
    spec = new_spec(1, [("year", "ts"), ("bucket", "id", 16), "country"], SCHEMA)
    value = json.loads(spec.to_json())
    assert value["id"] == 1
    assert value["fields"][1] == {
        "field_id": "id_bucket",
        "source_ids": [0],
        "transform": {"type": "bucket", "num_buckets": 16},
        "result_type": {"type": "int32"},
    }
    assert specs_of({"partition_spec_v1": spec.to_json(), "schema": "..."}, "here") == {1: spec}


def test_a_field_with_the_rule_of_an_older_one_keeps_its_id() -> None:
    first = new_spec(1, [("year", "ts"), "country"], SCHEMA)
    second = new_spec(2, ["country", ("month", "ts"), ("truncate", "country", 2)], SCHEMA, {1: first})
    assert second.fields[0] == first.fields[1]
    assert len({f.field_id for f in (*first.fields, *second.fields)}) == 4


def test_the_draft_is_read() -> None:
    draft = [
        {"field_id": 2, "name": "event_year", "source_id": 1, "expression": "date_part('year', col)", "result_type": {"type": "int32"}},
        {"field_id": 3, "name": "b", "source_id": 0, "expression": "abs(hash(col)) % 4", "result_type": {"type": "int64"}},
    ]
    (spec,) = specs_of({"partition_spec_v3": json.dumps(draft)}, "here").values()
    assert spec.namespace == "v3"
    assert (spec.fields[0].column, spec.fields[0].transform) == ("event_year", Transform("year"))
    assert spec.fields[1].transform == Transform("bucket", 4, XXHASH64)


@pytest.mark.parametrize(
    "text",
    ["", "3", "{}", '{"id": 2, "fields": []}', '{"id": 1, "fields": [{"field_id": "a"}]}', '[{"field_id": 1}]', "[" * 10_000,
     '{"id": 1, "fields": [{"field_id": "a", "source_ids": [1], "result_type": {"type": "int32"}}]}'],
)  # fmt: skip
def test_other_json_is_no_spec(text: str) -> None:
    with pytest.raises(CorruptFileError, match="here"):
        specs_of({"partition_spec_v1": text}, "here")


@pytest.mark.parametrize("fields", [["nope"], [("year", "country")], [("bucket", "id")], ["country", "country"], [("a", "b", 3, 4)], [3]])
def test_invalid_definitions_are_refused(fields: list[Any]) -> None:
    with pytest.raises(InvalidOptionError):
        new_spec(1, fields, SCHEMA)


def test_deprecated_columns_are_not_for_new_partition_fields() -> None:
    schema = pa.schema([pa.field("a", pa.int32(), metadata={"lance:field_id": "0", "lance:deprecated": "true"})])
    with pytest.raises(InvalidOptionError, match="deprecated"):
        new_spec(1, ["a"], schema)
