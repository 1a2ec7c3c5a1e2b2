"""Reading a partitioned namespace: one table with the namespace's columns, from tables that need not have the same ones."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import (
    CorruptFileError,
    NamespaceAlreadyExistsError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.manifest_table import change, change_metadata
from lance_spark.namespace.partitioned.evolve import NEXT_FIELD_ID
from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
from lance_spark.namespace.partitioned.scan import plan_partitioned
from lance_spark.namespace.partitioned.spec import FIELD_ID
from lance_spark.predicate import parse
from lance_spark.storage.store import Store
from lance_spark.table.scan.plan import ScanPlan
from tests.namespace.partitioned.made import plain, with_partitions

pytestmark = pytest.mark.spec("partitioned-namespace.md", "Schema Consistency Rules")

STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("country", pa.string()), pa.field("s", STRUCT)])


def rows(*ids: int, country: str | None) -> pa.Table:
    table = {"id": pa.array(ids, pa.int64()), "country": pa.array([country] * len(ids), pa.string())}
    return pa.table({**table, "s": pa.array([{"a": i, "b": str(i)} for i in ids], STRUCT)})


@pytest.fixture
def namespace(tmp_path: Path) -> PartitionedNamespace:
    made = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["country"])
    partitions = [({"country": c}, rows(i, i + 1, country=c).cast(made.schema)) for i, c in ((1, "US"), (3, "DE"), (5, None))]
    return with_partitions(made, partitions)


def test_all_tables_are_one(namespace: PartitionedNamespace) -> None:
    assert [row[:2] for row in plain(namespace)] == [(1, "US"), (2, "US"), (3, "DE"), (4, "DE"), (5, None), (6, None)]
    assert namespace.count_rows() == 6
    assert namespace.scan(columns=["s.b"], filter="id > 4").to_table().to_pylist() == [{"s": {"b": "5"}}, {"s": {"b": "6"}}]
    assert namespace.scan(columns=["id"], limit=2, offset=1).to_table()["id"].to_pylist() == [2, 3]
    assert namespace.scan(columns=["id"], filter="id > 1", limit=2, offset=1).to_table()["id"].to_pylist() == [3, 4]


def test_a_scan_of_no_columns_has_the_number_of_rows(namespace: PartitionedNamespace) -> None:
    assert namespace.scan(columns=[]).to_table().num_rows == 6
    assert namespace.scan(columns=[], filter="id > 1 AND country = 'US'").to_table().num_rows == 1
    assert namespace.scan(columns=[], limit=3, offset=1).to_table().shape == (3, 0)
    assert namespace.scan(columns=[], filter="country = 'FR'").to_table().shape == (0, 0)


@pytest.mark.parametrize(
    ("filter", "kept"),
    [
        ("country = 'US'", 1),
        ("country IS NULL", 1),
        ("country <> 'US'", 1),
        ("country = 'FR'", 0),
        ("id = 3", 3),
        ("NOT country = 'US' AND id > 1", 1),
    ],
)
def test_only_tables_are_opened_that_can_have_matching_rows(namespace: PartitionedNamespace, filter: str, kept: int) -> None:
    assert namespace.scan(filter=filter).partitions == (kept, 3)
    expected = Dataset.write("memory://reading/all", namespace.scan().to_table(), "overwrite").count_rows(filter)
    assert namespace.count_rows(filter) == expected == namespace.scan(filter=filter).to_table().num_rows


def test_a_table_is_read_at_the_version_that_is_pinned(namespace: PartitionedNamespace) -> None:
    location = namespace.partitions()["location"][0].as_py()
    lance.write_dataset(rows(99, country="US"), f"{namespace.uri}/{location}", mode="append")
    assert namespace.count_rows() == 6


def test_a_table_without_a_pinned_version_is_read_at_its_latest(tmp_path: Path) -> None:
    made = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["country"])
    namespace = with_partitions(made, [({"country": "US"}, rows(1, country="US"))], pinned=False)
    lance.write_dataset(rows(2, country="US"), f"{namespace.uri}/{namespace.partitions()['location'][0].as_py()}", mode="append")
    assert namespace.count_rows() == 2


def test_filters_use_the_indexes_of_the_tables(tmp_path: Path) -> None:
    made = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["country"])
    partitions = [({"country": c}, rows(*ids, country=c).cast(made.schema)) for ids, c in ((range(300), "US"), (range(300, 500), "DE"))]
    namespace = with_partitions(made, partitions, pinned=False)
    indexed = f"{namespace.uri}/{namespace.partitions()['location'][0].as_py()}"
    lance.dataset(indexed).create_scalar_index("id", "BTREE")
    lance.dataset(indexed).delete("id = 7")
    plan = ScanPlan(predicate=parse("id IN (7, 8, 250, 301)", namespace.snapshot.shape.manifest.schema))
    found = [part.found for task in plan_partitioned(namespace.snapshot, plan) for leaf in task.leaves for part in leaf.task.parts]
    assert [None if rows is None else list(rows) for rows in found] == [[7, 8, 250], None]
    assert namespace.scan(columns=["id"], filter="id IN (7, 8, 250, 301)").to_table()["id"].to_pylist() == [8, 250, 301]
    assert namespace.count_rows("id < 20 AND country = 'US'") == 19


def test_a_missing_column_is_null_and_a_missing_identity_column_has_the_partition_s_value(tmp_path: Path) -> None:
    made = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["country"])
    table = rows(1, 2, country="US")
    namespace = with_partitions(
        made, [({"country": "US"}, table.drop_columns(["country"])), ({"country": "DE"}, table.drop_columns(["country", "s"]))]
    )
    assert [row[:2] for row in plain(namespace)] == [(1, "DE"), (1, "US"), (2, "DE"), (2, "US")]
    assert namespace.scan(columns=["country"], filter="id = 1 AND country > 'E'").to_table().to_pylist() == [{"country": "US"}]
    assert namespace.scan(columns=["country"]).to_table()["country"].to_pylist() == ["US", "US", "DE", "DE"]
    assert namespace.count_rows("s IS NULL") == 2
    assert namespace.count_rows("s.a = 2 AND country = 'US'") == 1


def test_columns_are_known_by_their_ids_and_other_types_are_cast(tmp_path: Path) -> None:
    made = PartitionedNamespace.create(tmp_path / "n", pa.schema([("id", pa.int64()), ("v", pa.int32())]), ["id"])
    ids = [f.metadata for f in made.schema]
    schema = pa.schema(
        [pa.field("old", pa.int8(), metadata=ids[1]), pa.field("id", pa.int64(), metadata=ids[0]), pa.field("v", pa.string())]
    )
    data = pa.table({"old": pa.array([7, None], pa.int8()), "id": pa.array([1, 1], pa.int64()), "v": ["no", "no"]}, schema=schema)
    data = data.rename_columns(["old", "id", "surplus"])
    namespace = with_partitions(made, [({"id": 1}, data)])
    assert namespace.scan().to_table().to_pylist() == [{"id": 1, "v": 7}, {"id": 1, "v": None}]
    assert namespace.count_rows("v > 6") == 1


def test_a_value_that_cannot_be_cast_is_an_error_that_names_the_table_and_the_column(tmp_path: Path) -> None:
    made = PartitionedNamespace.create(tmp_path / "n", pa.schema([("id", pa.int64()), ("v", pa.int8())]), ["id"])
    namespace = with_partitions(made, [({"id": 1}, pa.table({"id": pa.array([1], pa.int64()), "v": pa.array([300], pa.int64())}))])
    with pytest.raises(SchemaMismatchError, match=r"dataset, version 1: the column 'v' is int64"):
        namespace.scan().to_table()


def test_partitions_with_the_same_values_are_all_read(tmp_path: Path) -> None:
    made = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["country"])
    namespace = with_partitions(made, [({"country": "US"}, rows(i, country="US")) for i in (1, 2)])
    assert namespace.scan(columns=["id"], filter="country = 'US'").to_table()["id"].to_pylist() == [1, 2]


def test_columns_and_specs_are_added_while_old_partitions_stay(namespace: PartitionedNamespace) -> None:
    later = namespace.add_columns(pa.schema([("v", pa.float64())])).add_spec([("truncate", "id", 10)])
    assert later.spec.id == 2
    data = rows(11, 12, country="US").append_column("v", pa.array([1.0, None]))
    later = with_partitions(later, [({"id_truncate": 10}, data)])
    assert later.scan(filter="country = 'US'").partitions == (2, 4)
    assert later.scan(filter="id = 11").partitions == (4, 4)
    assert later.scan(filter="id = 21").partitions == (3, 4)
    assert later.scan(columns=["id", "v"], filter="country = 'US'").to_table()["v"].to_pylist() == [None, None, 1.0, None]
    assert namespace.count_rows() == 6
    renamed = later.alter_column("v", name="w", type=None)
    assert renamed.schema.field("w").metadata[FIELD_ID] == b"3"


def test_schemas_change_only_in_ways_that_old_rows_allow(namespace: PartitionedNamespace) -> None:
    with pytest.raises(SchemaMismatchError, match="source of a partition field"):
        namespace.drop_column("country")
    with pytest.raises(SchemaMismatchError, match="not wider"):
        namespace.alter_column("id", type=pa.int32())
    with pytest.raises(SchemaMismatchError, match="two columns"):
        namespace.add_columns(pa.schema([("ID", pa.int64())]))
    with pytest.raises(SchemaMismatchError, match="nullable"):
        namespace.add_columns([pa.field("n", pa.int64(), False)])
    dropped = namespace.drop_column("s").add_columns(pa.schema([("s", pa.string())]))
    assert dropped.scan(columns=["s"]).to_table()["s"].null_count == 6, "it is another column than the one that was dropped"


def test_an_id_is_never_used_again(namespace: PartitionedNamespace) -> None:
    later = namespace.drop_column("s").add_columns(pa.schema([("t", pa.string())]))
    assert [f.metadata[FIELD_ID] for f in later.schema] == [b"0", b"1", b"3"]


def test_earlier_versions_are_read_by_number_and_time(namespace: PartitionedNamespace) -> None:
    assert PartitionedNamespace.open(namespace.uri, version=namespace.version - 1).count_rows() == 0


@pytest.mark.parametrize("text", ["many", "-1", "9" * 5000, "1.5", ""])
def test_a_next_field_id_that_is_no_number_is_an_error_that_names_it(namespace: PartitionedNamespace, text: str) -> None:
    change_metadata(Store(namespace.uri), lambda _: {NEXT_FIELD_ID: text})
    with pytest.raises(CorruptFileError, match=r"next_field_id is '.*', expected a field id"):
        PartitionedNamespace.open(namespace.uri).drop_column("s")


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"location": "../outside"}, CorruptFileError),
        ({"location": None}, CorruptFileError),
        ({"read_tag": "a", "read_version": 1}, CorruptFileError),
        ({"read_branch": "b"}, CorruptFileError),
        ({"read_branch": "../b", "read_version": 1}, CorruptFileError),
        ({"read_tag": "a/b"}, CorruptFileError),
        ({"location": "gone", "read_version": 3}, CorruptFileError),
    ],
)
def test_rows_that_name_no_table_are_errors(namespace: PartitionedNamespace, columns: dict[str, object], error: type[Exception]) -> None:
    row = {"object_id": "v1$x$dataset", "object_type": "table", "location": "x", "partition_field_country": "XX", **columns}
    change(Store(namespace.uri), lambda table: table.with_rows([row]))
    with pytest.raises(error):
        PartitionedNamespace.open(namespace.uri).scan().to_table()


def test_columns_of_other_types_are_errors(tmp_path: Path) -> None:
    made = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["id"])
    namespace = with_partitions(made, [({"id": 1}, rows(1, country="US"))])
    manifest = lance.dataset(f"{namespace.uri}/__manifest").to_table()
    at = manifest.schema.get_field_index("partition_field_id")
    damaged = manifest.set_column(at, "partition_field_id", pa.array(["no"] * manifest.num_rows))
    lance.write_dataset(damaged, f"{namespace.uri}/__manifest", mode="overwrite")
    with pytest.raises(CorruptFileError, match="partition_field_id"):
        PartitionedNamespace.open(namespace.uri).scan(filter="id = 1").to_table()


def test_tables_that_are_only_declared_and_other_tables_have_no_rows(namespace: PartitionedNamespace) -> None:
    declared = {"object_id": "v1$x$dataset", "object_type": "table", "location": "x", "partition_field_country": "XX"}
    other = {"object_id": "other", "object_type": "table", "location": "y"}
    change(Store(namespace.uri), lambda table: table.with_rows([declared, other]))
    assert PartitionedNamespace.open(namespace.uri).count_rows() == 6


def test_row_ids_are_refused(namespace: PartitionedNamespace) -> None:
    with pytest.raises(UnsupportedFeatureError, match="repeat"):
        namespace.scan(columns=["_rowid"]).to_table()


def test_a_namespace_is_created_once_and_not_over_a_table(namespace: PartitionedNamespace, tmp_path: Path) -> None:
    with pytest.raises(NamespaceAlreadyExistsError):
        PartitionedNamespace.create(namespace.uri, SCHEMA, ["id"])
    Dataset.write(tmp_path / "t", rows(1, country="US"))
    with pytest.raises(TableAlreadyExistsError):
        PartitionedNamespace.create(tmp_path / "t", SCHEMA, ["id"])


def test_pylance_reads_the_namespace_and_is_kept_from_dropping_its_columns(namespace: PartitionedNamespace) -> None:
    from lance.namespace import DirectoryNamespace
    from lance_namespace import CreateNamespaceRequest, DescribeTableRequest, ListNamespacesRequest

    theirs = DirectoryNamespace(root=namespace.uri)
    assert theirs.list_namespaces(ListNamespacesRequest(id=[])).namespaces == ["v1"]
    object_id = namespace.snapshot.leaves["object_id"][0].as_py()
    location = theirs.describe_table(DescribeTableRequest(id=object_id.split("$"))).location
    assert lance.dataset(location).count_rows() == 2
    with pytest.raises(Exception, match="upgrade"):
        theirs.create_namespace(CreateNamespaceRequest(id=["x"]))
