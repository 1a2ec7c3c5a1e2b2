"""Single tables of namespaces in Spark: the options `table`, `namespace` and `namespace.*`."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lance.namespace import RestAdapter
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.errors import InvalidOptionError, TableAlreadyExistsError
from lance_spark.spark.options.known import parse_options
from lance_spark.spark.options.read import ReadOptions
from tests.namespace.sides import ROWS


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A directory namespace with the namespace `shop` in it."""
    lance_spark.namespace(tmp_path).create_namespace(["shop"])
    return str(tmp_path)


def test_a_table_is_written_appended_to_overwritten_and_read(spark: SparkSession, root: str) -> None:
    rows = spark.range(3)
    for mode, count in (("append", 3), ("append", 6), ("overwrite", 3)):
        rows.write.format("lance").mode(mode).option("table", "shop.orders").save(root)
        assert spark.read.format("lance").option("table", "shop.orders").load(root).count() == count
    assert lance_spark.namespace(root).open(["shop", "orders"]).version == 3
    assert spark.read.format("lance").option("table", "shop.orders").option("version", 2).load(root).where("id = 1").count() == 2


def test_write_knows_tables_of_namespaces(spark: SparkSession, root: str) -> None:
    lance_spark.write(spark.range(3), root, table="shop.t")
    lance_spark.write(spark.range(9), root, mode="ignore", table="shop.t")
    with pytest.raises(TableAlreadyExistsError):
        lance_spark.write(spark.range(9), root, table="shop.t")
    assert lance_spark.namespace(root).open(["shop", "t"]).count_rows() == 3


def test_the_namespace_can_be_a_service(spark: SparkSession, root: str) -> None:
    with RestAdapter("dir", {"root": root}, port=0) as adapter:
        uri = f"http://127.0.0.1:{adapter.port}"
        spark.range(3).write.format("lance").mode("append").option("table", "shop.t").save(uri)
        options = {"namespace": "rest", "namespace.uri": uri, "namespace.secret.header.x-api-key": "k", "table": "shop.t"}
        assert spark.read.format("lance").options(**options).load().count() == 3


class Vending:
    """A REST service of one table whose storage options expire after a second; it counts how often it is asked."""

    def __init__(self, location: str) -> None:
        service = self
        self.asked = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                service.asked += 1
                options = {"region": "x", "expires_at_millis": str(int((time.time() + 1) * 1000))}
                content = json.dumps({"location": location, "storage_options": options}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                """Nothing is logged."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def vending(root: str) -> Iterator[Vending]:
    """The service, while it runs."""
    location = lance_spark.namespace(root).write(["shop", "t"], ROWS).uri
    service = Vending(location)
    thread = threading.Thread(target=service.server.serve_forever, args=(0.01,))
    thread.start()
    yield service
    service.server.shutdown()
    thread.join()
    service.server.server_close()


def test_a_task_that_starts_after_the_options_have_expired_asks_again(spark: SparkSession, vending: Vending) -> None:
    table = spark.read.format("lance").option("table", "shop.t").load(vending.uri)
    planned = vending.asked
    expired = time.time() + 1.1
    while time.time() < expired:
        pass
    assert table.where("x > 0").count() == 2
    assert vending.asked > planned


@pytest.mark.parametrize(
    ("text", "names"),
    [("a", ("a",)), ("a.b.c", ("a", "b", "c")), ("a.`b.c`", ("a", "b.c")), ('["a","b.c"]', ("a", "b.c"))],
)
def test_ids_are_names_with_dots_between(text: str, names: tuple[str, ...]) -> None:
    assert parse_options(ReadOptions, {"table": text}).table == names


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "a..b"}, "names separated by dots"),
        ({"table": ""}, "names separated by dots"),
        ({"namespace": "dir"}, "requires the option table"),
        ({"namespace.root": "/tmp"}, "requires the option table"),
        ({"table": "a"}, "needs a namespace"),
        ({"table": "a", "namespace": "dir", "namespace.root": "/x", "path": "/y"}, "given twice"),
        ({"table": "a", "namespace": "dir", "path": "/y", "namespace.rot": "/x"}, "did you mean 'root'"),
        ({"table": "a$b", "path": "/y"}, "invalid name"),
    ],
)
def test_options_that_make_no_sense_are_refused(spark: SparkSession, options: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        spark.read.format("lance").options(**options).load()


def test_a_property_and_a_path_that_say_the_same_are_fine(spark: SparkSession, root: str) -> None:
    lance_spark.namespace(root).write(["shop", "t"], ROWS)
    options = {"table": "shop.t", "namespace": "dir", "namespace.root": root}
    assert spark.read.format("lance").options(**options).load(root).count() == 2
    with pytest.raises(InvalidOptionError):
        parse_options(ReadOptions, {"namespace": "dir"})
