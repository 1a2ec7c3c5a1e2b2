"""Materialized views: after any history of its inputs, REFRESH makes of a view what its query is now."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import Dataset, LanceTable
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.metadata.view_records import VIEW, ViewRecord
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import open_snapshot
from tests.sample import others_slow
from tests.spark.catalog.lakes import Lake, lake
from tests.spark.plans import settings
from tests.spark_session import SPARK_ERRORS

INCREMENTAL = {
    "rows": "SELECT id, x + 1 AS y, upper(s) AS s FROM lance.t WHERE id % 7 <> 3",
    "groups": (
        "SELECT k, count(*) AS n, sum(x) AS total, min(x) AS least, max(s) AS last, avg(x) AS mean, count(DISTINCT x) AS different, "
        "approx_count_distinct(x) AS about FROM lance.t GROUP BY k"
    ),
    "some groups": "SELECT k AS key, count(*) AS n FROM lance.t WHERE x > 5 GROUP BY k HAVING count(*) > 2",
    "join": "SELECT t.id, t.x, d.name FROM lance.t AS t JOIN lance.d AS d ON t.k = d.k",
    "left join": "SELECT t.id, d.name FROM lance.t AS t LEFT JOIN lance.d AS d ON t.k = d.k WHERE d.name IS NULL OR t.x > 3",
    "two joins": "SELECT t.id, d.name, e.name AS other FROM lance.t t JOIN lance.d d ON t.k = d.k LEFT JOIN lance.d e ON t.x = e.k",
    "groups of a join": "SELECT d.name, count(*) AS n, sum(t.x) AS total FROM lance.t AS t JOIN lance.d AS d ON t.k = d.k GROUP BY d.name",
    "groups of a left join": "SELECT t.k, count(d.name) AS n FROM lance.t AS t LEFT JOIN lance.d AS d ON t.k = d.k GROUP BY t.k",
    "last of each key": (
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY x DESC, id) AS place FROM lance.t) WHERE place = 1"
    ),
    "distinct": "SELECT DISTINCT k, x % 3 AS rest FROM lance.t",
    "with": "WITH some AS (SELECT * FROM lance.t WHERE x > 5) SELECT k, x, count(*) AS n FROM some GROUP BY k, x",
}
"""Queries of which a refresh computes the changed units."""
FULL = {
    "two parts": ("SELECT id FROM lance.t UNION ALL SELECT k FROM lance.d", "Union is not computed by parts"),
    "first rows": ("SELECT id FROM lance.t ORDER BY id LIMIT 5", "GlobalLimit is not computed by parts"),
    "in order": ("SELECT id FROM lance.t ORDER BY id", "Sort is not computed by parts"),
    "all rows": ("SELECT count(*) AS n FROM lance.t", "an aggregate without GROUP BY is over all rows"),
    "a window": ("SELECT id, sum(x) OVER (ORDER BY id) AS s FROM lance.t", "a window without PARTITION BY is over all rows"),
    "a subquery": ("SELECT id FROM lance.t WHERE k IN (SELECT k FROM lance.d)", "a subquery is not computed by parts"),
    "no key": ("SELECT count(*) AS n FROM lance.t GROUP BY k", "the view has no column with the key lance.t.k"),
    "right join": ("SELECT t.id, d.k FROM lance.t AS t RIGHT JOIN lance.d AS d ON t.k = d.k", "RIGHT OUTER JOIN is not computed by parts"),
    "optional key": (
        "SELECT d.name, count(*) AS n FROM lance.t AS t LEFT JOIN lance.d AS d ON t.k = d.k GROUP BY d.name",
        "the key d.name is of the right side of a LEFT JOIN",
    ),
    "rollup": ("SELECT k, count(*) AS n FROM lance.t GROUP BY ROLLUP (k)", "Expand is not computed by parts"),
    "version of a row": ("SELECT id, _row_created_at_version AS v FROM lance.t", "which changes without the row"),
}
"""Queries of which a refresh computes all rows, and why."""


def rows(count: int, begin: int = 0) -> pa.Table:
    ids = range(begin, begin + count)
    keys = [None if i % 11 == 10 else i % 5 for i in ids]
    columns = {"id": list(ids), "k": keys, "x": [i * 7 % 12 for i in ids], "s": [f"s{i % 4}" for i in ids]}
    return pa.table(columns, pa.schema([("id", pa.int64()), ("k", pa.int64()), ("x", pa.int64()), ("s", pa.string())]))


def names(*keys: int, name: str = "n") -> pa.Table:
    return pa.table({"k": list(keys), "name": [f"{name}{k % 3}" for k in keys]})


@pytest.fixture
def shop(own: Lake) -> Lake:
    """A catalog with the table `t` of facts, `d` of names of their keys, and `p` without row ids."""
    made(own)
    return own


def made(own: Lake) -> None:
    for name, table, has_ids in (("t", rows(30), True), ("d", names(0, 1, 2), True), ("p", rows(10), False)):
        Dataset.write(str(own.root / f"{name}.lance"), table, enable_stable_row_ids=has_ids)


def opened(own: Lake, name: str) -> Dataset:
    return Dataset.open(str(own.root / f"{name}.lance"))


def append(own: Lake, name: str, table: pa.Table) -> Dataset:
    return Dataset.write(str(own.root / f"{name}.lance"), table, mode="append")


def recorded(own: Lake, view: str, version: int | None = None) -> ViewRecord:
    """What a view remembers."""
    snapshot = open_snapshot(Store(str(own.root / f"{view}.lance")), version=version)
    return ViewRecord.parse(snapshot.manifest.config[VIEW])


def query_of(own: Lake, view: str) -> str:
    return recorded(own, view).query


def refresh(own: Lake, view: str, rest: str = "") -> tuple[str, str]:
    """Refresh a view, compare it with its query, and return how it was refreshed, and why so."""
    _, _, version, mode, why = own.sql(f"REFRESH MATERIALIZED VIEW lance.{view} {rest}")[0]
    assert version == opened(own, view).version
    check(own, view)
    return mode, why


def check(own: Lake, view: str) -> None:
    result = own.spark.sql(query_of(own, view))
    expected = sorted(map(repr, result.collect()))
    assert sorted(map(repr, own.spark.table(f"lance.{view}").select(*result.columns).collect())) == expected
    assert len(own.pylance(view)) == len(expected)


CHANGES: dict[str, Callable[[Lake, random.Random], object]] = {
    "insert": lambda own, pick: append(own, "t", rows(3, 1000 + pick.randrange(1000))),
    "update": lambda own, pick: opened(own, "t").update({"x": "x + 1"}, f"id % 10 = {pick.randrange(10)}"),
    "update keys": lambda own, pick: opened(own, "t").update({"k": str(pick.randrange(7))}, f"id % 10 = {pick.randrange(10)}"),
    "delete": lambda own, pick: opened(own, "t").delete(f"id % 9 = {pick.randrange(9)}"),
    "merge": lambda own, pick: (
        opened(own, "t").merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(4, pick.randrange(40)))
    ),
    "compact": lambda own, pick: opened(own, "t").optimize.compact_files(),
    "add a column": lambda own, pick: opened(own, "t").add_columns({f"c{pick.randrange(10**9)}": "x * 2"}),
    "insert names": lambda own, pick: append(own, "d", names(pick.randrange(9), name=f"m{pick.randrange(3)}")),
    "update names": lambda own, pick: opened(own, "d").update({"name": f"'o{pick.randrange(3)}'"}, f"k = {pick.randrange(4)}"),
    "delete names": lambda own, pick: opened(own, "d").delete(f"k = {pick.randrange(5)}"),
}
"""What changes the inputs, so that a refresh can tell the units that changed."""


@pytest.fixture(scope="module")
def views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A catalog with a view of each query."""
    with lake(spark, tmp_path_factory.mktemp("views")) as own:
        made(own)
        for number, query in enumerate([*INCREMENTAL.values(), *(query for query, _ in FULL.values())]):
            own.sql(f"CREATE MATERIALIZED VIEW lance.v{number} AS {query}")
        yield own


def refresh_by_parts(own: Lake, kind: str) -> None:
    """Refresh the view of a query, which must compute the changed units alone, and compare it with its query."""
    mode, why = refresh(own, f"v{[*INCREMENTAL].index(kind)}")
    is_replaced = kind == "last of each key" and "columns" in why  # SELECT *, after a column was added
    assert mode in ("incremental", "none") or is_replaced, why


@pytest.mark.parametrize("kind", others_slow(INCREMENTAL, ["rows"]))
@pytest.mark.parametrize("seed", others_slow(range(8), [0]))
def test_refresh_makes_what_the_query_is_after_any_history(kind: str, seed: int, views: Lake) -> None:
    pick = random.Random(f"{kind} {seed}")
    for _ in range(3):
        changes = pick.choices(list(CHANGES), k=pick.randrange(1, 4))
        for change in changes:
            CHANGES[change](views, pick)
        refresh_by_parts(views, kind)


@pytest.mark.parametrize("change", others_slow(CHANGES, []))
@pytest.mark.parametrize("kind", INCREMENTAL)
def test_refresh_after_each_change(kind: str, change: str, views: Lake) -> None:
    CHANGES[change](views, random.Random(f"{kind}, {change}"))
    refresh_by_parts(views, kind)


@pytest.mark.parametrize("kind", others_slow(FULL, ["a subquery"]))
def test_what_is_not_computed_by_parts_is_computed_as_a_whole_and_says_why(kind: str, views: Lake) -> None:
    view = f"v{len(INCREMENTAL) + [*FULL].index(kind)}"
    CHANGES["insert"](views, random.Random(kind))
    assert views.sql(f"EXPLAIN REFRESH MATERIALIZED VIEW lance.{view}")[0][-2] == "full"
    mode, why = refresh(views, view)
    assert mode == "full"
    assert FULL[kind][1] in why
    assert refresh(views, view) == ("none", "no input has changed")


OF_INPUTS: dict[str, tuple[Callable[[Lake], object], str]] = {
    "overwritten": (lambda own: Dataset.write(str(own.root / "t.lance"), rows(5), mode="overwrite"), "was overwritten in version 2"),
    "restored": (
        lambda own: (append(own, "t", rows(2, 50)), opened(own, "t").restore)[0].checkout_version(1).restore(),
        "was restored in version 3",
    ),
    "dropped and made again": (
        lambda own: (
            own.sql("DROP TABLE lance.t"),
            Dataset.write(str(own.root / "t.lance"), rows(7), enable_stable_row_ids=True),
            append(own, "t", rows(1, 90)),
        ),
        "was dropped and made again",
    ),
    "cleaned up": (
        lambda own: append(own, "t", rows(2, 50)).cleanup_old_versions(timedelta(0), retain_versions=1),
        "has no version 1 any more",
    ),
    "another column": (
        lambda own: (opened(own, "t").drop_columns(["x"]), opened(own, "t").add_columns({"x": "id * 3"})),
        "has another column 'x'",
    ),
}


@pytest.mark.parametrize("case", others_slow(OF_INPUTS, ["restored", "dropped and made again"]))
def test_an_input_with_another_past_is_read_as_a_whole(case: str, shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT id, x FROM lance.t WHERE id <> 2")
    change, expected = OF_INPUTS[case]
    change(shop)
    mode, why = refresh(shop, "v")
    assert mode == "full"
    assert expected in why
    append(shop, "t", rows(2, 300).select(opened(shop, "t").schema.names))
    assert refresh(shop, "v") == ("incremental", "")


@pytest.fixture(scope="module")
def meanings(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A catalog with a table, and with a view and a function that queries name."""
    with lake(spark, tmp_path_factory.mktemp("meanings")) as own:
        made(own)
        yield own
        own.sql("DROP VIEW IF EXISTS spark_catalog.default.large")


MEANINGS: dict[str, tuple[str, Callable[[Lake, int], object]]] = {
    "a view": (
        "SELECT id, x FROM spark_catalog.default.large",
        lambda own, turn: own.sql(f"CREATE OR REPLACE VIEW spark_catalog.default.large AS SELECT id, x FROM lance.t WHERE x > {5 + turn}"),
    ),
    "a function": (
        "SELECT id, viewed(x) AS y FROM lance.t",
        lambda own, turn: own.spark.udf.register("viewed", lambda x: x + turn, "bigint"),
    ),
    "a function of SQL": (
        "SELECT k, sum(viewed_sql(x)) AS y FROM lance.t GROUP BY k",
        lambda own, turn: own.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION viewed_sql(x BIGINT) RETURNS BIGINT RETURN x * {turn + 2}"),
    ),
    "the time zone": (
        "SELECT id, CAST(timestamp_seconds(x) AS STRING) AS s FROM lance.t",
        lambda own, turn: own.spark.conf.set("spark.sql.session.timeZone", ["UTC", "Asia/Tokyo"][turn]),
    ),
    "the ANSI mode": (
        "SELECT id, s || x AS s FROM lance.t",
        lambda own, turn: own.spark.conf.set("spark.sql.ansi.enabled", ["true", "false"][turn]),
    ),
}
"""Queries whose text stays the same when a name or a setting gets another meaning, and what gives it one."""


@pytest.mark.parametrize("case", others_slow(MEANINGS, ["a view", "the time zone"]))
def test_a_query_that_means_something_else_now_is_computed_as_a_whole(case: str, meanings: Lake) -> None:
    query, mean = MEANINGS[case]
    with settings(meanings.spark, **{"session.timeZone": "America/New_York", "ansi.enabled": "true"}):
        mean(meanings, 0)
        meanings.sql(f"CREATE OR REPLACE MATERIALIZED VIEW lance.v AS {query}")
        assert refresh(meanings, "v")[0] == "none"
        opened(meanings, "t").update({"x": "x + 1"}, "id % 10 = 4")
        mean(meanings, 1)
        mode, why = refresh(meanings, "v")
        assert (mode, "at the last refresh" in why) == ("full", True)
        opened(meanings, "t").update({"x": "x + 1"}, "id % 10 = 5")
        assert refresh(meanings, "v") == ("incremental", "")


def test_without_row_ids_new_rows_are_added_and_other_changes_need_all_rows(shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT id, x + 1 AS y FROM lance.p")
    shop.sql("CREATE MATERIALIZED VIEW lance.g AS SELECT k, sum(x) AS s FROM lance.p GROUP BY k")
    append(shop, "p", rows(3, 50))
    assert refresh(shop, "v") == ("incremental", "")
    assert opened(shop, "v").schema.names == ["id", "y"]
    opened(shop, "p").update({"x": "x + 1"}, "id = 3")
    mode, why = refresh(shop, "v")
    assert mode == "full"
    assert "has no stable row ids" in why
    assert refresh(shop, "g") == ("incremental", "")


def test_a_changed_query_of_all_columns_gets_the_new_columns(shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT * FROM lance.t")
    opened(shop, "t").add_columns({"z": "x * 2"})
    mode, why = refresh(shop, "v")
    assert (mode, "columns" in why) == ("full", True)
    assert "z" in opened(shop, "v").schema.names
    opened(shop, "t").update({"z": "1"}, "id = 3")
    assert refresh(shop, "v") == ("incremental", "")


def test_if_not_exists_or_replace_and_drop(shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT id FROM lance.t")
    shop.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS lance.v AS SELECT x FROM lance.t")
    assert query_of(shop, "v") == "SELECT id FROM lance.t"
    shop.sql("CREATE OR REPLACE MATERIALIZED VIEW lance.v AS SELECT x FROM lance.t;")
    assert query_of(shop, "v") == "SELECT x FROM lance.t"
    check(shop, "v")
    shop.sql("DROP MATERIALIZED VIEW lance.v")
    shop.sql("DROP MATERIALIZED VIEW IF EXISTS lance.v")
    assert not (shop.root / "v.lance").exists()


def test_a_view_in_python(shop: Lake) -> None:
    view = lance_spark.materialized_view(shop.spark, "lance.v", "SELECT k, sum(x) AS total FROM lance.t GROUP BY k")
    append(shop, "t", rows(3, 60))
    assert [row["refresh"] for row in view.explain().collect()] == ["incremental"]
    assert view.refresh()["refresh"] == "incremental"
    assert view.refresh(full=True)["reason"] == "FULL was asked for"
    assert view.verify()["missing_rows"] == view.verify(0.5)["unexpected_rows"] == 0
    again = lance_spark.materialized_view(shop.spark, "lance.v", "SELECT k FROM lance.t", replace=True)
    assert again.rows().count() == 33
    lance_spark.materialized_view(shop.spark, "lance.v").drop()
    assert not shop.spark.catalog.tableExists("lance.v")


def test_names_of_the_query_are_those_where_the_view_was_made(shop: Lake) -> None:
    shop.sql("USE lance")
    shop.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    shop.sql("USE spark_catalog.default")
    append(shop, "t", rows(2, 60))
    assert shop.sql("REFRESH MATERIALIZED VIEW lance.v")[0][3] == "incremental"
    assert shop.spark.table("lance.v").count() == 32


def test_a_view_of_a_branch_a_tag_a_clone_and_a_view(shop: Lake) -> None:
    shop.sql("ALTER TABLE lance.t CREATE BRANCH b")
    shop.sql("ALTER TABLE lance.t CREATE TAG g")
    shop.sql("CREATE TABLE lance.c SHALLOW CLONE lance.t")
    queries = {"vb": "SELECT id FROM lance.t.branch_b", "vg": "SELECT id FROM lance.t VERSION AS OF 'g'", "vc": "SELECT id FROM lance.c"}
    for view, query in queries.items():
        shop.sql(f"CREATE MATERIALIZED VIEW lance.{view} AS {query}")
    shop.sql("CREATE MATERIALIZED VIEW lance.vv AS SELECT id, count(*) AS n FROM lance.vb GROUP BY id")
    append(shop, "t", rows(2, 70))
    assert {refresh(shop, view)[0] for view in queries} == {"none"}
    shop.sql("INSERT INTO lance.t.branch_b SELECT * FROM lance.t WHERE id = 5")
    shop.sql("DELETE FROM lance.c WHERE id = 5")
    assert refresh(shop, "vb") == refresh(shop, "vv") == refresh(shop, "vc") == ("incremental", "")
    shop.sql("ALTER TABLE lance.t REPLACE TAG g")
    pending = {row[1]: row[3:5] for row in shop.sql("SHOW MATERIALIZED VIEWS IN lance")}
    assert pending == {"vb": (0, 0), "vg": (1, 2), "vc": (0, 0), "vv": (0, 0)}
    assert refresh(shop, "vg") == ("incremental", "")


def test_a_tag_of_a_branch_is_read_from_the_branch(shop: Lake) -> None:
    shop.sql("ALTER TABLE lance.t CREATE BRANCH b")
    shop.sql("DELETE FROM lance.t.branch_b WHERE id > 3")
    shop.sql("DELETE FROM lance.t WHERE id < 10")
    of_table = lance.dataset(shop.location("t"))
    of_table.tags.create("g", ("b", 2))
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT id FROM lance.t VERSION AS OF 'g'")
    check(shop, "v")
    assert shop.sql("VERIFY MATERIALIZED VIEW lance.v") == [(4, 0, 0)]
    shop.sql("INSERT INTO lance.t.branch_b SELECT * FROM lance.t WHERE id = 20")
    of_table.tags.update("g", ("b", 3))
    assert refresh(shop, "v") == ("incremental", "")


def test_a_primary_key_of_an_input_is_none_of_the_view(shop: Lake) -> None:
    key = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    schema = pa.schema([key, ("k", pa.int64())])
    Dataset.write(str(shop.root / "keyed.lance"), pa.table({"id": [1, 2], "k": [1, 1]}, schema), enable_stable_row_ids=True)
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT keyed.id, t.id AS other FROM lance.t LEFT JOIN lance.keyed ON t.k = keyed.k")
    shop.sql("INSERT INTO lance.keyed VALUES (3, 2)")
    assert refresh(shop, "v") == ("incremental", "")


def test_all_columns_of_a_view_are_those_of_another(shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT id, x FROM lance.t")
    shop.sql("CREATE MATERIALIZED VIEW lance.w AS SELECT * FROM lance.v")
    append(shop, "t", rows(2, 70))
    assert refresh(shop, "v") == ("incremental", "")
    mode, why = refresh(shop, "w")
    assert (mode, "_source_row_id" in why) == ("full", True)


def test_a_table_that_was_made_again_is_not_listed_as_read(shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT id FROM lance.p")
    shop.sql("DROP TABLE lance.p")
    Dataset.write(str(shop.root / "p.lance"), rows(3))
    assert [row[2:5] for row in shop.sql("SHOW MATERIALIZED VIEWS IN lance")] == [(1, None, None)]


def test_a_map_cannot_be_verified(shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT id, map('x', x) AS pairs FROM lance.t")
    with pytest.raises(SPARK_ERRORS, match="cannot compare the map in the column pairs"):
        shop.sql("VERIFY MATERIALIZED VIEW lance.v")


def test_indexes_stay_and_each_version_has_its_record(shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT id, s FROM lance.t")
    shop.sql("CREATE INDEX by_id ON lance.v USING btree (id)")
    append(shop, "t", rows(2, 80))
    assert refresh(shop, "v") == ("incremental", "")
    assert refresh(shop, "v", "FULL") == ("full", "FULL was asked for")
    assert [index["name"] for index in opened(shop, "v").list_indices()] == ["by_id"]
    read = [recorded(shop, "v", version).inputs[0].version for version in (1, 2, 3, 4)]
    assert read == [1, 1, 2, 2]
    for version, of_input in ((2, 1), (3, 2)):
        view = shop.sql(f"SELECT id FROM lance.v VERSION AS OF {version}")
        assert sorted(view) == sorted(shop.sql(f"SELECT id FROM lance.t VERSION AS OF {of_input}"))


def test_views_are_listed_with_what_they_have_not_read_and_verified(shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT t.id, d.name FROM lance.t JOIN lance.d ON t.k = d.k")
    shop.sql("CREATE MATERIALIZED VIEW lance.ns.g AS SELECT k, count(*) AS n FROM lance.t GROUP BY k")
    append(shop, "t", rows(2, 100))
    opened(shop, "t").update({"k": "1"}, "id = 4")
    opened(shop, "d").optimize.compact_files()
    append(shop, "d", names(7))
    listed = shop.sql("SHOW MATERIALIZED VIEWS IN lance")
    assert [(row[1], *row[2:5]) for row in listed] == [("v", 1, 3, 4)]
    assert [row[:5] for row in shop.sql("SHOW MATERIALIZED VIEWS IN lance.ns")] == [("ns", "g", 1, 2, 3)]
    count = shop.spark.table("lance.v").count()
    assert shop.sql("VERIFY MATERIALIZED VIEW lance.v") == [(count, 0, 0)]
    checked, missing, unexpected = shop.sql("VERIFY MATERIALIZED VIEW lance.v SAMPLE 50 PERCENT")[0]
    assert 0 < checked < count
    assert (missing, unexpected) == (0, 0)
    lance.dataset(shop.location("v")).delete("id = 5")
    lance.dataset(shop.location("ns.g")).update({"n": "7"}, "k = 2")
    assert shop.sql("VERIFY MATERIALIZED VIEW lance.v") == [(count, 1, 0)]
    assert shop.sql("VERIFY MATERIALIZED VIEW lance.ns.g")[0][1:] == (1, 1)
    assert refresh(shop, "v")[0] == "full"


def test_what_another_library_writes_to_a_view_is_noticed(shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT id, s FROM lance.t")
    lance.dataset(shop.location("v")).delete("id = 4")
    mode, why = refresh(shop, "v")
    assert (mode, why) == ("full", "another writer has changed the view in version 2")
    lance.dataset(shop.location("v")).optimize.compact_files()
    assert refresh(shop, "v")[0] == "none"


def test_of_two_refreshes_at_once_each_change_comes_once(shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT id, s FROM lance.t")
    append(shop, "t", rows(5, 90))
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(shop.sql("REFRESH MATERIALIZED VIEW lance.v")[0][3])
        except SPARK_ERRORS as e:
            answers.append(e)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["incremental", "none"]
    check(shop, "v")


def test_a_refresh_while_writers_commit_is_of_one_version_of_its_input(shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT k, count(*) AS n, sum(x) AS total FROM lance.t GROUP BY k")
    write = threading.Thread(target=lambda: [append(shop, "t", rows(3, 100 * n)) for n in range(1, 9)])
    write.start()
    while True:
        was_writing = write.is_alive()
        shop.sql("REFRESH MATERIALIZED VIEW lance.v")
        assert shop.sql("VERIFY MATERIALIZED VIEW lance.v")[0][1:] == (0, 0)
        if not was_writing:
            break
    assert shop.spark.table("lance.t").count() == 54
    check(shop, "v")


def test_a_stream_of_what_is_there_refreshes_a_view(shop: Lake, tmp_path: Path) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT k, count(*) AS n FROM lance.t GROUP BY k")
    source, sink = shop.location("p"), shop.location("t")

    def into_table(batch: DataFrame, number: int) -> None:
        batch.write.format("lance").mode("append").save(sink)
        batch.sparkSession.sql("REFRESH MATERIALIZED VIEW lance.v")

    for count in (10, 3):
        stream = shop.spark.readStream.format("lance").load(source).writeStream.foreachBatch(into_table)
        stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        stream.start().awaitTermination()
        assert recorded(shop, "v").inputs[0].version == opened(shop, "t").version
        check(shop, "v")
        append(shop, "p", rows(count, 500))
    assert shop.spark.table("lance.t").count() == 50


def test_a_refresh_that_fails_leaves_the_view_and_the_next_one_goes_on(shop: Lake) -> None:
    shop.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT id, 10 DIV (x - 100) AS y FROM lance.t")
    append(shop, "t", pa.table({"id": [500], "k": [1], "x": [100], "s": ["s"]}))
    before = sorted(shop.sql("SELECT id FROM lance.v")), shop.files() - {"t.lance"}
    with pytest.raises(SPARK_ERRORS, match="DIVIDE_BY_ZERO"):
        shop.sql("REFRESH MATERIALIZED VIEW lance.v")
    assert (sorted(shop.sql("SELECT id FROM lance.v")), shop.files()) == before
    opened(shop, "t").update({"x": "3"}, "id = 500")
    assert refresh(shop, "v") == ("incremental", "")


NOT_OF_A_VIEW = {
    "SELECT id, rand() AS r FROM lance.t": r"rand\(\): it is not deterministic",
    "SELECT id, current_date() AS day FROM lance.t": "depends on when",
    "SELECT id, current_timezone() AS zone FROM lance.t": "depends on when",
    "SELECT id FROM lance.t TABLESAMPLE (50 PERCENT)": "TABLESAMPLE: each refresh would choose other rows",
    "SELECT id FROM lance.t WHERE x > bound": "the variable .*bound.*: a refresh may run in another session",
    "SELECT id FROM lance.t WHERE x > (SELECT max(k) * rand() FROM lance.d)": "not deterministic",
    "SELECT id FROM range(5)": "each input must be a lance table",
    "SELECT t.id FROM lance.t AS t, some_rows": "temporary view some_rows",
    "SELECT id FROM table_changes('lance.t', 1)": "the table function",
    "SELECT 1 AS one": "reads no lance table",
    "INSERT INTO lance.t SELECT * FROM lance.t": "a view is made of a query",
    "SELECT nothing FROM lance.t": "nothing",
    "SELECT id, id FROM lance.t": "(?i)already exists|duplicate",
}


def test_queries_that_are_no_views_are_refused_by_name(shop: Lake) -> None:
    shop.spark.range(3).createOrReplaceTempView("some_rows")
    shop.sql("DECLARE OR REPLACE VARIABLE bound INT DEFAULT 4")
    for query, expected in NOT_OF_A_VIEW.items():
        with pytest.raises(SPARK_ERRORS, match=expected):
            shop.sql(f"CREATE MATERIALIZED VIEW lance.w AS {query}")
        assert not shop.spark.catalog.tableExists("lance.w"), query


def test_statements_about_other_tables_are_refused(shop: Lake) -> None:
    for statement, expected in {
        "REFRESH MATERIALIZED VIEW lance.t": "no materialized view",
        "DROP MATERIALIZED VIEW lance.t": "no materialized view",
        "EXPLAIN REFRESH MATERIALIZED VIEW lance.t": "no materialized view",
        "CREATE OR REPLACE MATERIALIZED VIEW lance.t AS SELECT k FROM lance.d": "no materialized view",
        "REFRESH MATERIALIZED VIEW lance.ns.nothing": "nothing",
        "CREATE MATERIALIZED VIEW lance.w (a INT)": "write CREATE MATERIALIZED VIEW v AS SELECT",
        "CREATE MATERIALIZED VIEW spark_catalog.default.w AS SELECT 1": "(?i)syntax|not supported|unsupported|cannot|pipeline",
    }.items():
        with pytest.raises(SPARK_ERRORS, match=expected):
            shop.sql(statement)
    assert shop.spark.table("lance.t").count() == 30


def into(own: Lake, statement: str) -> object:
    return own.sql(statement)


def table(own: Lake) -> LanceTable:
    return LanceTable.forName(own.spark, "lance.v")


WRITES: dict[str, Callable[[Lake], object]] = {
    "INSERT": lambda own: into(own, "INSERT INTO lance.v VALUES (1, 's', 1)"),
    "INSERT OVERWRITE": lambda own: into(own, "INSERT OVERWRITE lance.v VALUES (1, 's', 1)"),
    "UPDATE": lambda own: into(own, "UPDATE lance.v SET s = 'a' WHERE id = 3"),
    "DELETE": lambda own: into(own, "DELETE FROM lance.v WHERE id = 3"),
    "MERGE": lambda own: into(own, "MERGE INTO lance.v USING lance.t ON v.id = t.id + 100 WHEN NOT MATCHED THEN INSERT (id) VALUES (t.id)"),
    "TRUNCATE": lambda own: into(own, "TRUNCATE TABLE lance.v"),
    "ADD COLUMN": lambda own: into(own, "ALTER TABLE lance.v ADD COLUMN z INT"),
    "DROP COLUMN": lambda own: into(own, "ALTER TABLE lance.v DROP COLUMN s"),
    "RENAME COLUMN": lambda own: into(own, "ALTER TABLE lance.v RENAME COLUMN s TO z"),
    "RESTORE": lambda own: into(own, "RESTORE lance.v TO VERSION AS OF 1"),
    "REPLACE TABLE": lambda own: into(own, "CREATE OR REPLACE TABLE lance.v AS SELECT id FROM lance.t"),
    "writeTo": lambda own: own.spark.table("lance.v").writeTo("lance.v").append(),
    "LanceTable.delete": lambda own: table(own).delete("id = 3"),
    "LanceTable.update": lambda own: table(own).update("id = 3", {"s": "'a'"}),
    "Dataset.write": lambda own: append(own, "v", opened(own, "v").to_table()),
    "Dataset.write overwrite": lambda own: Dataset.write(str(own.root / "v.lance"), rows(1), mode="overwrite"),
    "Dataset.insert": lambda own: opened(own, "v").insert(opened(own, "v").to_table()),
    "Dataset.delete": lambda own: opened(own, "v").delete("id = 3"),
    "Dataset.update": lambda own: opened(own, "v").update({"s": "'a'"}),
    "Dataset.merge_insert": lambda own: opened(own, "v").merge_insert("id").when_matched_update_all().execute(opened(own, "v").to_table()),
    "Dataset.add_columns": lambda own: opened(own, "v").add_columns({"z": "id"}),
    "Dataset.drop_columns": lambda own: opened(own, "v").drop_columns(["s"]),
    "Dataset.restore": lambda own: opened(own, "v").checkout_version(1).restore(),
}


@pytest.fixture(scope="module")
def guarded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(spark, tmp_path_factory.mktemp("guarded")) as own:
        made(own)
        own.sql("CREATE MATERIALIZED VIEW lance.v AS SELECT id, s FROM lance.t")
        append(own, "t", rows(2, 100))
        own.sql("REFRESH MATERIALIZED VIEW lance.v")
        yield own


@pytest.mark.parametrize("door", WRITES)
def test_no_door_writes_to_a_view(door: str, guarded: Lake) -> None:
    files = guarded.files()
    with pytest.raises((*SPARK_ERRORS, UnsupportedFeatureError), match="is a materialized view of"):
        WRITES[door](guarded)
    assert opened(guarded, "v").version == 2
    assert guarded.files() == files


def test_maintenance_of_a_view_is_that_of_a_table(guarded: Lake) -> None:
    guarded.sql("OPTIMIZE lance.v")
    guarded.sql("ALTER TABLE lance.v CREATE TAG checked AS OF VERSION 1")
    guarded.sql("ALTER TABLE lance.v SET TBLPROPERTIES ('team' = 'us')")
    assert guarded.sql("REFRESH MATERIALIZED VIEW lance.v")[0][3] == "none"
