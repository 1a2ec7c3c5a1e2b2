"""Namespaces in the form of the document: specs as lists of named fields, buckets of XXH64, and expressions."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark import PartitionedNamespace
from lance_spark.errors import InvalidOptionError
from lance_spark.namespace.partitioned.expressions import CustomExpression
from lance_spark.namespace.partitioned.transforms import XXHASH64, Transform
from tests.namespace.partitioned.made import plain

DATE, COUNTRY = ["2025-12-10", "2025-12-11", "2024-01-01"], ["US", "DE", None]
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("event_date", pa.date32()), ("country", pa.string())])
ROWS = [(i, date.fromisoformat(DATE[i % 3]), COUNTRY[i % 2]) for i in range(6)]
V1 = [{"field_id": 1, "name": "event_date", "source_id": 1, "expression": "col", "result_type": {"type": "date32"}}]
V2 = [
    {"field_id": 2, "name": "event_year", "source_id": 1, "expression": "date_part('year', col)", "result_type": {"type": "int32"}},
    {"field_id": 3, "name": "country", "source_id": 2, "expression": "col", "result_type": {"type": "utf8"}},
]
YEAR = {"name": "event_year", "column": "event_date", "transform": "year"}


def rows(which: range) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, ROWS[i])) for i in which], SCHEMA)


def properties(root: Path) -> dict[str, Any]:
    found = lance.dataset(root / "__manifest").metadata
    return {key: json.loads(value) for key, value in found.items() if key == "schema" or key.startswith("partition_spec_")}


@pytest.fixture
def made(tmp_path: Path) -> PartitionedNamespace:
    """The example of appendix A: rows under both specs."""
    first = lance_spark.create_partitioned_namespace(tmp_path / "ns", SCHEMA, ["event_date"], form="document")
    return first.write(rows(range(3))).add_spec([YEAR, "country"]).write(rows(range(3, 6)))


@pytest.mark.spec("partitioned-namespace.md", "Metadata Definition")
@pytest.mark.spec("partitioned-namespace.md", "Partitioning")
def test_the_example_of_the_document_is_written_to_the_letter(made: PartitionedNamespace) -> None:
    written = properties(Path(made.uri))
    assert (written["partition_spec_v1"], written["partition_spec_v2"]) == (V1, V2)
    assert [f["metadata"] for f in written["schema"]["fields"]] == [{"lance:field_id": str(i)} for i in range(3)]


@pytest.mark.spec("partitioned-namespace.md", "Physical Layout and Naming")
@pytest.mark.spec("partitioned-namespace.md", "Namespace Naming")
def test_tables_and_namespaces_have_the_names_of_the_document(made: PartitionedNamespace) -> None:
    listed = lance.dataset(Path(made.uri) / "__manifest").to_table().to_pylist()
    by_id = {row["object_id"]: row for row in listed}
    tables = [i for i, row in by_id.items() if row["object_type"] == "table"]
    assert all(re.fullmatch(r"v1\$[0-9a-z]{16}\$dataset|v2\$[0-9a-z]{16}\$[0-9a-z]{16}\$dataset", i) for i in tables)
    for i in tables:
        values = {name: by_id[i][name] for name in ("event_date", "event_year", "country")}
        own = {"v1": {"event_year": None, "country": None}, "v2": {"event_date": None}}[i[:2]]
        assert own.items() <= values.items()
        assert re.fullmatch(r"[0-9a-f]{8}_" + re.escape(i), by_id[i]["location"])
        opened = lance.dataset(Path(made.uri) / by_id[i]["location"])
        opened.validate()
        parents = ["$".join(i.split("$")[:n]) for n in range(1, i.count("$") + 1)]
        assert all(by_id[parent]["object_type"] == "namespace" for parent in parents)
        assert {name: by_id[parents[-1]][name] for name in values} == values
    assert by_id["v1"]["event_date"] is None


@pytest.mark.spec("partitioned-namespace.md", "Partition Evolution")
@pytest.mark.spec("partitioned-namespace.md", "Partition Pruning")
@pytest.mark.parametrize(
    ("condition", "tables"),
    [("event_date = DATE '2025-12-10'", 3), ("event_date < DATE '2025-01-01'", 2), ("country = 'DE' AND id > 2", 5), ("country = 'US'", 4)],
)
def test_each_spec_is_pruned_by_its_own_values(made: PartitionedNamespace, condition: str, tables: int) -> None:
    whole = pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in ROWS], SCHEMA)
    expected = lance.write_dataset(whole, made.uri + "_flat").to_table(filter=condition.replace("DATE", "date"))
    assert plain(made, condition) == sorted((tuple(row.values()) for row in expected.to_pylist()), key=repr)
    kept, total = made.scan(filter=condition).partitions
    assert (kept <= tables, total) == (True, 6)


@pytest.mark.spec("partitioned-namespace.md", "Partition Evolution")
def test_a_field_with_the_rule_of_an_older_one_keeps_its_id_and_name(made: PartitionedNamespace) -> None:
    land = {"column": "country", "name": "land", "transform": "truncate", "parameter": 1}
    later = made.add_spec(["event_date", ("month", "event_date"), land])
    month = {"name": "event_date_month", "expression": "date_part('month', col)", "result_type": {"type": "int32"}}
    first = {"name": "land", "expression": "left(col, 1)", "result_type": {"type": "utf8"}}
    expected = [V1[0], {"field_id": 4, "source_id": 1, **month}, {"field_id": 5, "source_id": 2, **first}]
    assert properties(Path(made.uri))["partition_spec_v3"] == expected
    assert plain(later.write(rows(range(1)))) == sorted([*ROWS, ROWS[0]], key=repr)
    with pytest.raises(InvalidOptionError, match="'land': __manifest has a column of this name"):
        later.add_spec([{"column": "id", "name": "land"}])


@pytest.mark.spec("partitioned-namespace.md", "Appendix E: Schema Evolution Example")
@pytest.mark.spec("partitioned-namespace.md", "Schema Evolution Rules")
def test_a_namespace_that_was_made_by_the_document_is_read_and_appended_to(tmp_path: Path) -> None:
    """`__manifest` and the tables are pylance's; a column is deprecated, and no version is pinned."""
    fields = [
        {"name": "id", "nullable": False, "type": {"type": "int64"}, "metadata": {"lance:field_id": "0"}},
        {"name": "event_date", "nullable": True, "type": {"type": "date32"}, "metadata": {"lance:field_id": "1"}},
        {"name": "country", "nullable": True, "type": {"type": "utf8"}, "metadata": {"lance:field_id": "2", "lance:deprecated": "true"}},
    ]
    manifest = pa.schema(
        [pa.field("object_id", pa.string(), False), pa.field("object_type", pa.string(), False), ("location", pa.string()),
         ("metadata", pa.string()), ("read_version", pa.uint64()), ("event_date", pa.date32())]
    )  # fmt: skip
    listed: list[dict[str, Any]] = [{"object_id": "v1", "object_type": "namespace", "metadata": "{}"}]
    for i in range(3):
        name, value = f"v1$k7m2n9p4q8r5s3t{i}", ROWS[i][1]
        listed.append({"object_id": name, "object_type": "namespace", "metadata": "{}", "event_date": value})
        location = f"b4a3c2d{i}_{name}$dataset"
        listed.append({"object_id": f"{name}$dataset", "object_type": "table", "metadata": "{}", "location": location, "event_date": value})
        lance.write_dataset(rows(range(i, i + 1)), tmp_path / location)
    theirs = lance.write_dataset(pa.Table.from_pylist(listed, manifest), tmp_path / "__manifest")
    theirs.update_metadata({"partition_spec_v1": json.dumps(V1), "schema": json.dumps({"fields": fields})})
    namespace = PartitionedNamespace.open(tmp_path)
    assert plain(namespace) == sorted(ROWS[:3], key=repr)
    assert namespace.scan(filter="event_date = DATE '2025-12-11'").partitions == (1, 3)
    later = namespace.write(rows(range(6)))
    assert plain(later) == sorted([*ROWS, *ROWS[:3]], key=repr)
    assert later.partitions().num_rows == 3
    with pytest.raises(InvalidOptionError, match="deprecated"):
        later.add_spec(["country"])
    later.add_spec([("year", "event_date")])
    assert properties(tmp_path)["partition_spec_v2"] == [{**V2[0], "name": "event_date_year"}]


SOURCES: dict[str, tuple[pa.DataType, list[object]]] = {
    "int64": (pa.int64(), [0, 1, -1, 34, 2**63 - 1, -(2**63), None]),
    "string": (pa.string(), ["", "US", "iceberg", "é漢字", "x" * 100, None]),
    "large_string": (pa.large_string(), ["", "US", None]),
    "binary": (pa.binary(), [b"", b"\0", b"US", None]),
    "large_binary": (pa.large_binary(), [b"a", None]),
}
KNOWN = {  # published digests of XXH64 with the seed 0
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
    b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}


@pytest.mark.spec("partitioned-namespace.md", "Appendix D: Common Partition Expressions")
def test_buckets_are_the_absolute_values_of_known_hashes() -> None:
    signed = [digest - 2**64 if digest >= 2**63 else digest for digest in KNOWN.values()]
    for count in (1, 7, 16, 2**31 - 1):
        transform = Transform("bucket", count, XXHASH64)
        assert transform.apply(pa.array(list(KNOWN), pa.binary())).to_pylist() == [abs(number) % count for number in signed]
        assert transform.apply(pa.array([None], pa.int64())).to_pylist() == [None]
        as_bytes = pa.array([number.to_bytes(8, "little", signed=True) for number in (0, -1, 2**63 - 1)])
        assert transform.apply(pa.array([0, -1, 2**63 - 1], pa.int64())) == transform.apply(as_bytes)


@pytest.mark.spec("partitioned-namespace.md", "Appendix D: Common Partition Expressions")
@pytest.mark.parametrize("source", SOURCES)
def test_rows_are_divided_and_pruned_by_buckets(source: str, tmp_path: Path) -> None:
    t, values = SOURCES[source]
    schema = pa.schema([("k", t), ("n", pa.int64())])
    made = lance_spark.create_partitioned_namespace(tmp_path, schema, [("bucket", "k", 4)], form="document")
    written = made.write(pa.table({"k": pa.array(values, t), "n": range(len(values))}, schema=schema))
    later = written.write(pa.table({"k": pa.array(values[:1], t), "n": [100]}, schema=schema))
    (field,) = properties(tmp_path)["partition_spec_v1"]
    assert (field["expression"], field["result_type"], field["name"]) == ("abs(hash(col)) % 4", {"type": "int64"}, "k_bucket")
    for i, value in enumerate(values):
        condition = {type(None): "k IS NULL", int: f"k = {value}", str: f"k = '{value}'"}.get(type(value))
        if isinstance(value, bytes):
            condition = f"k = X'{value.hex()}'"
        scan = later.scan(["n"], filter=condition)
        assert scan.partitions[0] == 1
        assert sorted(scan.to_table()["n"].to_pylist()) == [i, 100] if i == 0 else [i]


REFUSED = [pa.int32(), pa.uint64(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.bool_(), pa.decimal128(5, 2)]


@pytest.mark.parametrize("t", REFUSED, ids=str)
def test_buckets_of_other_types_are_refused(t: pa.DataType, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"bucket by xxhash64\[4\] cannot .* type .*int64, string and binary"):
        lance_spark.create_partitioned_namespace(tmp_path, pa.schema([("k", t)]), [("bucket", "k", 4)], form="document")


TEXTS = pa.array(["b A", "é漢字x", "", "ÀÉ b", None], pa.string())
NUMBERS = pa.array([0, 7, -7, 1000, None], pa.int64())
OF_TEXT = ("lower(col)", "upper(col)", "left(upper(col), 2)", "reverse(col)", "replace(col, 'b', 'c')")
OF_NUMBERS = ("abs(col)", "abs(col) % 5", "col * 2 + 1", "(col - 3) % 4", "col % 3")
EXPRESSIONS = [*((text, TEXTS) for text in OF_TEXT), *((text, NUMBERS) for text in OF_NUMBERS)]


@pytest.mark.spec("partitioned-namespace.md", "Partition Expression")
@pytest.mark.parametrize(("expression", "values"), EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_an_expression_has_the_values_of_datafusion(expression: str, values: pa.Array, tmp_path: Path) -> None:
    theirs = lance.write_dataset(pa.table({"col": values}), tmp_path / "t").to_table(columns={"x": expression})["x"]
    ours = CustomExpression(expression).apply(values)
    assert ours.to_pylist() == theirs.to_pylist()


@pytest.mark.spec("partitioned-namespace.md", "Partition Expression")
@pytest.mark.parametrize("form", ["document", "published"])
def test_rows_are_divided_by_an_expression(form: Any, tmp_path: Path) -> None:
    schema = pa.schema([("name", pa.string())])
    made = lance_spark.create_partitioned_namespace(tmp_path, schema, [("expression", "name", "lower(left(col, 1))")], form=form)
    later = made.write(pa.table({"name": ["a", "Ab", "b", None]})).write(pa.table({"name": ["AB"]}))
    assert sorted(later.partitions()[later.spec.fields[0].column].to_pylist(), key=str) == [None, "a", "b"]
    assert later.scan(filter="name = 'b'").to_table()["name"].to_pylist() == ["b"]
    assert later.scan(filter="name = 'b'").partitions == (3, 3), "conditions are not on the values of an expression"
    spec = properties(tmp_path)["partition_spec_v1"]
    written = spec[0] if form == "document" else spec["fields"][0]
    assert written["expression"] == ("lower(left(col, 1))" if form == "document" else "lower(left(col0, 1))")


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (("expression", "name", "concat(col, 'x')"), "uses 'concat'; only these are the same"),
        (("expression", "name", "other"), "no column 'other'"),
        (("expression", "name", "'x'"), "does not use the source column, col"),
        (("expression", "name", "lower(col"), "syntax error"),
        (("expression", "name", "left(col, 3)"), "is the transform 'truncate'; name that instead"),
        (("expression", "name", 3), "is SQL text"),
        (("expression", "name"), "is SQL text"),
        ({"column": "name", "name": "read_version"}, "has a column of this name"),
        ({"column": "name", "width": 3}, "no partition field"),
        (("multi_bucket", "name", 3), "implementations do not agree"),
    ],
)
def test_definitions_that_cannot_be_are_refused(definition: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        lance_spark.create_partitioned_namespace(tmp_path, pa.schema([("name", pa.string())]), [definition], form="document")


def test_only_the_documents_form_has_names_and_there_are_two_forms(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="only fields of the form 'document' have a name"):
        lance_spark.create_partitioned_namespace(tmp_path, SCHEMA, [YEAR])
    with pytest.raises(InvalidOptionError, match="one of published, document, not 'other'"):
        lance_spark.create_partitioned_namespace(tmp_path, SCHEMA, ["country"], form="other")  # type: ignore[arg-type]


@pytest.mark.spec("partitioned-namespace.md", "Partition Value Discovery")
@pytest.mark.parametrize("form", ["document", "published"])
def test_namespaces_and_tables_have_their_partition_values_as_properties(form: Any, tmp_path: Path) -> None:
    made = lance_spark.create_partitioned_namespace(tmp_path, SCHEMA, [("year", "event_date"), "country"], form=form)
    made.write(rows(range(1)))
    namespace = lance_spark.namespace(tmp_path)
    (year,) = namespace.list_namespaces(["v1"])
    (country,) = namespace.list_namespaces(["v1", year])
    assert namespace.describe_namespace(["v1"]) == {}
    assert namespace.describe_namespace(["v1", year]) == {"partition.event_date_year": "2025"}
    values = {"partition.event_date_year": "2025", "partition.country": "US"}
    assert namespace.describe_namespace(["v1", year, country]) == values
    assert namespace.describe_table(["v1", year, country, "dataset"]).properties == values
