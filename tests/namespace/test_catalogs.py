"""Catalogs of other systems hold Lance tables: what works in one works in all, and other clients of the catalog find the tables.

Glue is moto's, Hive is Spark's own metastore, Unity Catalog is an emulator and the Iceberg catalog a server from PyPI. No server of
Polaris, nor an Iceberg catalog that lets its clients choose locations, starts on a plain machine: test_replayed_catalogs.py replays
answers of their published interfaces.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark import Dataset
from lance_spark.errors import (
    InvalidOptionError,
    NamespaceAlreadyExistsError,
    NamespaceError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tests.namespace import catalog_servers

ROWS = pa.table({"id": [1, 2]})
AWS = {"region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"}


@dataclass(frozen=True)
class Served:
    """A catalog that runs: its name, its properties, and the names above its namespaces."""

    name: str
    properties: dict[str, str]
    above: tuple[str, ...] = ()

    def open(self, **properties: Any) -> lance_spark.Namespace:
        return lance_spark.namespace(self.name, **{**self.properties, **properties})


@pytest.fixture(scope="module")
def glue(s3_server: str) -> Served:
    return Served("glue", {"endpoint": s3_server, **AWS})


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with catalog_servers.hive(tmp_path_factory.mktemp("hive")) as uri:
        yield uri


@pytest.fixture(scope="module")
def unity_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with catalog_servers.unity(tmp_path_factory.mktemp("unity")) as endpoint:
        yield endpoint


@pytest.fixture(params=["glue", *(pytest.param(name, marks=pytest.mark.slow) for name in ("hive2", "hive3", "unity"))])
def served(request: pytest.FixtureRequest) -> Served:
    if request.param == "glue":
        found: Served = request.getfixturevalue("glue")
        return found
    if request.param == "unity":
        return Served("unity", {"endpoint": request.getfixturevalue("unity_catalog"), "auth_token": "x"}, ("lake",))
    uri = request.getfixturevalue("metastore")
    return Served(request.param, {"uri": uri}, ("hive",) if request.param == "hive3" else ())


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


def database(served: Served, request: pytest.FixtureRequest) -> tuple[str, ...]:
    """A namespace of this test alone, since the server is one for all."""
    return (*served.above, f"d{zlib.crc32(request.node.nodeid.encode())}")


def test_namespaces_and_tables_are_made_found_and_removed(served: Served, root: str, request: pytest.FixtureRequest) -> None:
    catalog, shop = served.open(root=root), database(served, request)
    catalog.create_namespace(shop, {"team": "sales", "comment": "what is sold"})
    assert shop[-1] in catalog.list_namespaces(served.above)
    assert catalog.describe_namespace(shop)["team"] == "sales"
    assert catalog.describe_namespace(shop)["comment"] == "what is sold"
    assert catalog.list_namespaces(shop) == []
    assert catalog.list_tables(shop) == []

    orders = (*shop, "orders")
    assert not catalog.table_exists(orders)
    assert catalog.declare_table(orders).is_only_declared
    assert catalog.table_exists(orders)
    catalog.write(orders, ROWS)
    assert not catalog.describe_table(orders).is_only_declared
    catalog.write(orders, pa.table({"id": [3]}), mode="append")
    location = catalog.describe_table(orders).location.removeprefix("file:")
    assert location.startswith(root)
    assert lance.dataset(location).to_table()["id"].to_pylist() == [1, 2, 3]
    assert catalog.open(orders, version=1).count_rows() == 2
    assert catalog.list_tables(shop) == ["orders"]

    catalog.deregister_table(orders)
    assert catalog.list_tables(shop) == []
    assert Dataset.open(location).count_rows() == 3, "its files stay"
    catalog.register_table(orders, location)
    assert catalog.open(orders).count_rows() == 3

    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(shop)
    catalog.drop_table(orders)
    assert not Path(location).exists()
    catalog.drop_namespace(shop)
    assert not catalog.namespace_exists(shop)


def test_what_is_missing_or_there_already_is_said(served: Served, root: str, request: pytest.FixtureRequest) -> None:
    catalog, shop = served.open(root=root), database(served, request)
    missing = (*served.above, "no_such_namespace")
    for ask in (catalog.describe_namespace, catalog.drop_namespace, catalog.list_tables, catalog.list_namespaces):
        with pytest.raises(NamespaceNotFoundError):
            ask(missing)
    with pytest.raises(NamespaceNotFoundError):
        catalog.declare_table((*missing, "t"))
    catalog.create_namespace(shop)
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(shop)
    for ask in (catalog.describe_table, catalog.drop_table, catalog.deregister_table, catalog.open):
        with pytest.raises(TableNotFoundError):
            ask((*shop, "no_such_table"))
    catalog.declare_table((*shop, "t"))
    with pytest.raises(TableAlreadyExistsError):
        catalog.declare_table((*shop, "t"))
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table((*shop, "t"), root)
    with pytest.raises(InvalidOptionError, match="the name of a table in"):
        catalog.describe_table((*shop, "t", "u"))
    with pytest.raises(InvalidOptionError, match="the name of a namespace in"):
        catalog.create_namespace((*shop, "inner"))
    catalog.drop_table((*shop, "t"))


def test_a_place_for_new_tables_must_be_known(served: Served, root: str, request: pytest.FixtureRequest) -> None:
    catalog, shop = served.open(), database(served, request)
    catalog.create_namespace(shop)
    with pytest.raises(InvalidOptionError, match="set the property root"):
        catalog.declare_table((*shop, "t"))
    there = catalog.declare_table((*shop, "t"), f"{root}/elsewhere")
    assert there.location.removeprefix("file:") == f"{root}/elsewhere"
    catalog.write((*shop, "t"), ROWS)
    assert Dataset.open(f"{root}/elsewhere").count_rows() == 2


def test_a_folder_with_other_contents_is_not_deleted(served: Served, root: str, request: pytest.FixtureRequest) -> None:
    catalog, shop = served.open(root=root), database(served, request)
    catalog.create_namespace(shop)
    catalog.write((*shop, "t"), ROWS)
    location = Path(catalog.describe_table((*shop, "t")).location.removeprefix("file:"))
    (location / "notes.txt").write_text("mine")
    with pytest.raises(UnsupportedFeatureError, match=r"notes\.txt"):
        catalog.drop_table((*shop, "t"))
    assert catalog.open((*shop, "t")).count_rows() == 2
    (location / "notes.txt").unlink()
    catalog.drop_table((*shop, "t"))
    assert not location.exists()


def test_tables_are_renamed_where_the_catalog_can(served: Served, root: str, request: pytest.FixtureRequest) -> None:
    catalog, shop = served.open(root=root), database(served, request)
    catalog.create_namespace(shop)
    catalog.write((*shop, "t"), ROWS)
    if not served.name.startswith("hive"):
        with pytest.raises(UnsupportedFeatureError, match="cannot rename tables: register the location"):
            catalog.rename_table((*shop, "t"), (*shop, "u"))
        return
    catalog.rename_table((*shop, "t"), (*shop, "u"))
    assert catalog.list_tables(shop) == ["u"]
    assert catalog.open((*shop, "u")).count_rows() == 2
    catalog.declare_table((*shop, "t"))
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table((*shop, "u"), (*shop, "t"))


def test_no_row_is_lost_when_many_append_at_once(served: Served, root: str, request: pytest.FixtureRequest) -> None:
    shop = database(served, request)
    served.open(root=root).create_namespace(shop)
    table = (*shop, "t")

    def append(number: int) -> None:
        served.open(root=root).write(table, pa.table({"id": [number]}), mode="append")

    append(0)
    threads = [threading.Thread(target=append, args=(number,)) for number in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(served.open().open(table).to_table()["id"].to_pylist()) == list(range(6))


def test_with_a_parent_names_are_shorter(served: Served, root: str, request: pytest.FixtureRequest) -> None:
    shop = database(served, request)
    served.open(root=root).create_namespace(shop)
    below = served.open(root=root, parent=".".join(shop))
    below.write(["t"], ROWS)
    assert below.list_tables() == ["t"]
    assert served.open().open((*shop, "t")).count_rows() == 2


@pytest.mark.parametrize(
    ("name", "properties", "message"),
    [
        ("glue", {"regoin": "us-east-1"}, "has no property 'regoin'; did you mean 'region'"),
        ("hive2", {"uri": "http://host"}, "expected thrift://host:port"),
        ("hive3", {"url": "thrift://host"}, "has no property 'url'"),
        ("unity", {}, "needs the property 'endpoint'"),
        ("polaris", {"endpoint": "http://host", "polaris.endpoint": "http://host"}, "is given twice"),
        ("iceberg", {"endpoint": "http://host", "max_retries": "many"}, "takes a whole number"),
    ],
)
def test_wrong_properties_are_refused(name: str, properties: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        lance_spark.namespace(name, **properties).list_namespaces()


@pytest.mark.parametrize(("word", "meant"), [("hive", "hive"), ("Glue", "glue"), ("iceburg", "iceberg"), ("Unity", "unity")])
def test_a_misspelt_kind_is_no_new_folder(word: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidOptionError, match=rf"did you mean '{meant}\d?'\? For a new folder, write './{word}'"):
        lance_spark.namespace(word, uri="thrift://host:9083")
    lance_spark.namespace(f"./{word}").create_namespace(["shop"])
    assert lance_spark.namespace(word).list_namespaces() == ["shop"], "the folder is there now"


@pytest.mark.parametrize("name", ["glue", "hive2", "hive3", "unity", "polaris", "iceberg"])
def test_a_server_that_is_down_is_not_a_missing_table(name: str) -> None:
    endpoint = "http://127.0.0.1:9"
    limits = {"max_retries": "0"}
    properties: dict[str, dict[str, Any]] = {"glue": {**AWS, "endpoint": endpoint, **limits}, "hive2": {"uri": "thrift://127.0.0.1:9"}}
    given: dict[str, Any] = properties.get("hive2" if name == "hive3" else name, {"endpoint": endpoint, **limits})
    id = ["db", "t"] if name in ("glue", "hive2") else ["main", "db", "t"]
    with pytest.raises(NamespaceError, match="does not respond") as raised:
        lance_spark.namespace(name, **given).table_exists(id)
    assert raised.value.code == 17


def test_credentials_that_are_missing_are_one_line(glue: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    catalog = lance_spark.namespace("glue", endpoint=glue.properties["endpoint"], region="us-east-1")
    with pytest.raises(NamespaceError, match="give access_key_id and secret_access_key, or a profile_name") as raised:
        catalog.list_namespaces()
    assert raised.value.code == 16


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_iceberg_catalog_of_others_lists_and_makes_namespaces(tmp_path_factory: pytest.TempPathFactory, root: str) -> None:
    with catalog_servers.iceberg(tmp_path_factory.mktemp("iceberg")) as (endpoint, token):
        catalog = lance_spark.namespace("iceberg", endpoint=endpoint, auth_token=token, root=root)
        catalog.create_namespace(["dev", "shop"], {"team": "sales"})
        catalog.create_namespace(["dev", "shop", "inner"])
        assert "shop" in catalog.list_namespaces(["dev"])
        assert "inner" not in catalog.list_namespaces(["dev"])
        assert catalog.list_namespaces(["dev", "shop"]) == ["inner"]
        assert catalog.describe_namespace(["dev", "shop"]) == {"team": "sales"}
        assert catalog.list_tables(["dev", "shop"]) == []
        with pytest.raises(NamespaceAlreadyExistsError):
            catalog.create_namespace(["dev", "shop"])
        for missing in (["nowhere"], ["dev", "none"]):
            with pytest.raises(NamespaceNotFoundError):
                catalog.list_namespaces(missing)
        with pytest.raises(TableNotFoundError):
            catalog.open(["dev", "shop", "t"])
        with pytest.raises(NamespaceError, match="assigns table locations"):
            catalog.declare_table(["dev", "shop", "t"])
        with pytest.raises(NamespaceNotEmptyError):
            catalog.drop_namespace(["dev", "shop"])
        catalog.drop_namespace(["dev", "shop", "inner"])
        catalog.drop_namespace(["dev", "shop"])
        with pytest.raises(NamespaceError, match="HTTP 401") as raised:
            lance_spark.namespace("iceberg", endpoint=endpoint, auth_token="wrong").list_namespaces(["dev"])
        assert raised.value.code == 16


def test_tables_of_other_formats_are_left_out(glue: Served, root: str, request: pytest.FixtureRequest) -> None:
    import boto3

    catalog, shop = glue.open(root=root), database(glue, request)
    catalog.create_namespace(shop)
    client = boto3.client("glue", "us-east-1", endpoint_url=glue.properties["endpoint"], aws_access_key_id="a", aws_secret_access_key="b")
    place = {"Location": "s3://b/t", "Columns": []}
    client.create_table(DatabaseName=shop[0], TableInput={"Name": "other", "StorageDescriptor": place})
    assert catalog.list_tables(shop) == []
    with pytest.raises(UnsupportedFeatureError, match="is not a Lance table"):
        catalog.describe_table((*shop, "other"))
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(shop)


def test_the_database_says_where_its_tables_go(glue: Served, root: str, request: pytest.FixtureRequest) -> None:
    catalog, shop = glue.open(), database(glue, request)
    catalog.create_namespace(shop, {"location": root})
    assert catalog.declare_table((*shop, "t")).location == f"{root}/t.lance"


@pytest.mark.parametrize("kind", ["glue", pytest.param("unity", marks=pytest.mark.slow)])
def test_the_library_of_others_finds_our_tables_and_we_find_its(kind: str, root: str, request: pytest.FixtureRequest) -> None:
    import lance_namespace
    import lance_namespace_impls  # noqa: F401  registers the names

    if kind == "glue":
        served: Served = request.getfixturevalue("glue")
        theirs = lance_namespace.connect("glue", served.properties)
    else:
        endpoint = request.getfixturevalue("unity_catalog")
        served = Served("unity", {"endpoint": endpoint, "auth_token": "x"}, ("lake",))
        theirs = lance_namespace.connect("unity", {f"unity.{name}": value for name, value in served.properties.items()})
    ours, shop = served.open(root=root), database(served, request)
    ours.create_namespace(shop)
    ours.write((*shop, "a"), ROWS)
    theirs.declare_table(lance_namespace.DeclareTableRequest(id=[*shop, "b"], location=f"{root}/b"))
    lance.write_dataset(ROWS, f"{root}/b")
    assert ours.list_tables(shop) == ["a", "b"]
    assert sorted(theirs.list_tables(lance_namespace.ListTablesRequest(id=list(shop))).tables) == ["a", "b"]
    assert ours.open((*shop, "b")).count_rows() == 2
    location = theirs.describe_table(lance_namespace.DescribeTableRequest(id=[*shop, "a"])).location
    assert lance.dataset(location).count_rows() == 2
