"""Field messages <-> schema tree."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark._proto import file_pb2 as pb
from lance_spark.errors import CorruptFileError
from lance_spark.schema.field_messages import parse_fields, serialise_fields
from lance_spark.schema.schema import Schema, from_arrow

pytestmark = [
    pytest.mark.spec("table.md", "Schema & Fields"),
    pytest.mark.spec("format-document.md", "Fields"),
    pytest.mark.spec("schema.md", "Schema Message"),
]

SCHEMA = from_arrow(
    pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"k": "v"}),
            pa.field("s", pa.struct([("a", pa.list_(pa.struct([("x", pa.string())]))), ("b", pa.map_(pa.string(), pa.int8()))])),
        ],
        metadata={"m": "n"},
    )
)


def metadata(schema: Schema) -> dict[str, bytes]:
    return {k.decode(): v for k, v in schema.metadata.items()}


def test_a_schema_survives_being_written_and_parsed() -> None:
    assert parse_fields(serialise_fields(SCHEMA), metadata(SCHEMA)) == SCHEMA


def test_parents_are_found_by_id_in_any_order() -> None:
    messages = list(serialise_fields(SCHEMA))
    random.Random(3).shuffle(messages)
    parsed = parse_fields(messages, metadata(SCHEMA))
    assert {f.id: {c.id for c in f.children} for f in parsed.walk()} == {f.id: {c.id for c in f.children} for f in SCHEMA.walk()}


def test_unknown_parts_of_a_message_are_written_back() -> None:
    (message, *_) = serialise_fields(SCHEMA)
    message.unenforced_primary_key = True
    message.encoding = pb.DICTIONARY
    message.dictionary.offset, message.dictionary.length = 7, 8
    message.MergeFromString(b"\xc2\x3e\x03new")  # field 1000, which no version has yet
    parsed = parse_fields([message], {})
    assert parsed.fields[0].dictionary == (7, 8)
    assert serialise_fields(parsed) == [message]


def test_a_field_without_an_id_is_left_out() -> None:
    message = pb.Field(name="b", id=0, parent_id=-1, logical_type="struct")
    messages = [message, pb.Field(name="kind", id=-1, parent_id=-1, logical_type="uint8")]
    assert [f.name for f in parse_fields(messages, {}).walk()] == ["b"]


@pytest.mark.parametrize(
    "parents",
    [pytest.param({0: 1, 1: 0}, id="cycle"), pytest.param({0: 0}, id="own parent"), pytest.param({0: 5}, id="no such parent")],
)
def test_orphaned_fields_are_refused(parents: dict[int, int]) -> None:
    with pytest.raises(CorruptFileError, match="parent"):
        parse_fields([pb.Field(name="x", id=i, parent_id=p, logical_type="struct") for i, p in parents.items()], {})


def test_an_id_that_occurs_twice_is_refused() -> None:
    with pytest.raises(CorruptFileError, match=r"field id 3 of .* is duplicated"):
        parse_fields([pb.Field(name=n, id=3, parent_id=-1, logical_type="int8") for n in "ab"], {})


def test_a_chain_of_fields_too_deep_for_the_stack_is_refused() -> None:
    with pytest.raises(CorruptFileError, match="deep"):
        parse_fields([pb.Field(name="x", id=i, parent_id=i - 1, logical_type="struct") for i in range(5000)], {})


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_pylance_sees_the_schema_that_it_would_have_written(tmp_path: Path, version: str) -> None:
    table = pa.table(
        {
            "i": [1],
            "f": pa.array([1.5], pa.float16()),
            "s": ["a"],
            "large": pa.array(["a"], pa.large_string()),
            "b": [b"a"],
            "dict": pa.array(["a"]).dictionary_encode(),
            "nested": pa.array([{"x": 1, "y": ["a"], "z": [{"w": True}]}]),
            "vector": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
            "fixed": pa.array([b"ab"], pa.binary(2)),
            "date": pa.array([0], pa.date32()),
            "time": pa.array([0], pa.timestamp("us", "UTC")),
            "dec": pa.array([1]).cast(pa.decimal128(20)),
            "null": pa.nulls(1),
            "json": pa.array(["{}"], pa.json_()),
        }
    )
    if version == "2.2":
        table = table.append_column("map", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())))
    lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version=version)
    Dataset.write(str(tmp_path / "ours"), table, data_storage_version=version)
    Dataset.write(str(tmp_path / "ours"), table, "append")
    theirs, ours = (lance.dataset(str(tmp_path / name)) for name in ("theirs", "ours"))
    assert ours.lance_schema == theirs.lance_schema
    merged, schema = ours.get_fragments()[0].merge_columns(lambda batch: pa.record_batch({"new": batch["i"]}), ["i"])
    again = ours.get_fragments()[1].merge_columns(lambda batch: pa.record_batch({"new": batch["i"]}), ["i"])[0]
    lance.LanceDataset.commit(str(tmp_path / "ours"), lance.LanceOperation.Merge([merged, again], schema), read_version=ours.version)
    assert Dataset.open(str(tmp_path / "ours")).scan(columns=["new"]).to_table()["new"].to_pylist() == [1, 1]
