"""How many requests our works send to S3. The jars of Delta Lake and Iceberg come without a client for S3, so that there is no contest."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections import Counter

from pyspark.sql import SparkSession

import lance_spark
from tests import s3_server

KEYS = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1", "allow_http": "true"}
METHODS = ("GET", "HEAD", "LIST", "PUT", "POST", "DELETE")
ROWS = 100_000
FENCE = "/moto-api/"
"""A request that is none to S3: when it is in the log, all before it are."""
STATEMENTS = {
    f"write of {ROWS:,} rows by two tasks": f"CREATE TABLE c.t AS SELECT id, id % 100 AS k, 'row ' || id AS s FROM range(0, {ROWS}, 1, 2)",
    "count(*)": "SELECT count(*) FROM c.t",
    "full scan": "SELECT max(k), max(s) FROM c.t WHERE length(s) > 0",
    "1 of 3 columns": "SELECT max(k + 1) FROM c.t",
    "lookup of one row": "SELECT * FROM c.t WHERE id = 4711",
    "append of one row": "INSERT INTO c.t VALUES (-1, 1, 'one')",
    "delete of one row": "DELETE FROM c.t WHERE id = 77",
}
_LINE = re.compile(r'"(?:\x1b\[[\d;]*m)*([A-Z]+) (\S+) HTTP')
"""A line of the server's log; it colours those of ranges."""


def requests(spark: SparkSession) -> dict[str, dict[str, int]]:
    """The requests of each statement by their methods. Each is run in a session that has run others, as the second of its kind."""
    found: Counter[str] = Counter()
    all_there = threading.Event()

    def log(line: str) -> None:
        if match := _LINE.search(line):
            method, path = match.groups()
            if path == FENCE:
                all_there.set()
            else:
                found["LIST" if method == "GET" and "list-type=" in path else method] += 1

    def counted(statement: str) -> dict[str, int]:
        found.clear()
        spark.sql(statement).collect()
        all_there.clear()
        urllib.request.urlopen(endpoint + FENCE).close()
        all_there.wait()
        return dict(found)

    results: dict[str, dict[str, int]] = {}
    with s3_server.running(log) as endpoint:
        lance_spark.catalog(spark, "c", root="s3://tables/lake", storage_options={**KEYS, "endpoint": endpoint})
        for _ in range(2):
            spark.sql("DROP TABLE IF EXISTS c.t")
            for name, statement in STATEMENTS.items():
                results[name] = counted(statement)
    return results
