"""Text functions such as lance_match in queries and commands of Spark select the rows that pylance's search finds, or are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset
from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
from tests.namespace.partitioned.made import with_partitions
from tests.spark.plans import scans, settings
from tests.spark_session import SPARK_ERRORS
from tests.table.search.texts import asked_of_pylance

TEXTS = [
    "Running late",
    "a cat runs",
    "the café is open",
    "cafe",
    None,
    "",
    "Cat and dog",
    "dog and cat",
    "run, dog!",
    "cats",
    "naïve CAFE cat",
]
TABLES = ("english", "exact", "plain")
"""Their texts are split into stems without accents; at spaces only; and without an index, into words as they are."""
Row = dict[str, Any]


def three(path: Path) -> dict[str, str]:
    """The same rows in three tables: some outside of the index, and some deleted."""
    rows = pa.table(
        {"id": range(44), "text": TEXTS * 4, "x": [i / 3 for i in range(44)], "tags": [["a", "b"] if i % 3 else None for i in range(44)]}
    )
    uris = {name: str(path / name) for name in TABLES}
    for name, uri in uris.items():
        Dataset.write(uri, rows.slice(0, 30))
        if name == "english":
            lance.dataset(uri).create_scalar_index("text", "INVERTED", with_position=True)
        if name == "exact":
            how: dict[str, Any] = {
                "base_tokenizer": "whitespace",
                "lower_case": False,
                "stem": False,
                "remove_stop_words": False,
                "ascii_folding": False,
            }
            Dataset.open(uri).create_scalar_index("text", "INVERTED", with_position=True, **how)
        Dataset.write(uri, rows.slice(30), mode="append")
        Dataset.open(uri).delete("id % 11 = 7")
    return uris


@pytest.fixture(scope="module")
def uris(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> dict[str, str]:
    """The tables, which are views of their names, too."""
    made = three(tmp_path_factory.mktemp("texts"))
    for name, uri in made.items():
        spark.read.format("lance").load(uri).createOrReplaceTempView(name)
    return made


def words(query: str, **options: Any) -> dict[str, Any]:
    return {"match": {"query": query, "column": "text", **options}}


def phrase(query: str, **options: Any) -> dict[str, Any]:
    return {"phrase": {"query": query, "column": "text", **options}}


def rows_of(uri: str) -> dict[int, Row]:
    return {row["id"]: row for row in lance.dataset(uri).to_table().to_pylist()}


def matches(uri: str, query: dict[str, Any]) -> dict[int, bool | None]:
    """Whether pylance finds each row; None where the text is null."""
    found = set(lance.dataset(uri).to_table(columns=["id", "_score"], full_text_query=asked_of_pylance(query))["id"].to_pylist())
    return {i: None if row["text"] is None else i in found for i, row in rows_of(uri).items()}


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def true(each: dict[int, bool | None]) -> list[int]:
    return sorted(i for i, value in each.items() if value)


@pytest.mark.matrix
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    ("condition", "query"),
    [
        ("lance_match(text, 'run cafe')", words("run cafe")),
        ("lance_match(text, 'Cat dog', 'operator=AND')", words("Cat dog", operator="and")),
        ("lance_multi_match('CAFÉ', 'fuzziness=0', text)", words("CAFÉ")),
        ("lance_match_phrase(text, 'and cat')", phrase("and cat")),
        ("lance_match_phrase(text, 'cat dog', 1)", phrase("cat dog", slop=1)),
    ],
)
def test_rows_are_those_of_a_search(spark: SparkSession, uris: dict[str, str], name: str, condition: str, query: dict[str, Any]) -> None:
    if name == "plain" and "phrase" in query:
        expected = {"and cat": [i for i in rows_of(uris[name]) if TEXTS[i % 11] == "dog and cat"], "cat dog": []}[query["phrase"]["query"]]
    else:
        expected = true(matches(uris[name], query))
    if name == "exact":
        assert spark.sql(f"SELECT count(*) FROM {name} WHERE {condition}").collect()[0][0] == len(expected)
    else:
        assert ids(spark.table(name).where(F.expr(condition))) == expected


def both(*values: bool | None) -> bool | None:
    return False if False in values else None if None in values else True


def either(*values: bool | None) -> bool | None:
    return True if True in values else None if None in values else False


def no(value: bool | None) -> bool | None:
    return None if value is None else not value


MIXED: list[tuple[str, Callable[[bool | None, bool | None, Row], bool | None]]] = [
    ("NOT {0}", lambda a, b, row: no(a)),
    ("{0} OR {1}", lambda a, b, row: either(a, b)),
    ("{0} AND NOT {1}", lambda a, b, row: both(a, no(b))),
    ("{0} OR substr(text, 2, 1) = 'a'", lambda a, b, row: either(a, None if row["text"] is None else row["text"][1:2] == "a")),
    ("NOT ({0} OR text LIKE 'c%t%')", lambda a, b, row: no(either(a, None if a is None else row["text"] in ("cats",)))),
    ("NOT ({0} AND array_contains(tags, 'a'))", lambda a, b, row: no(both(a, None if row["tags"] is None else True))),
    ("{0} OR array_contains(tags, 'a') AND {1}", lambda a, b, row: either(a, both(None if row["tags"] is None else True, b))),
    ("{0} IS NULL", lambda a, b, row: a is None),
    ("({0}) = ({1})", lambda a, b, row: None if a is None or b is None else a == b),
    ("coalesce({0}, id > 20)", lambda a, b, row: row["id"] > 20 if a is None else a),
    ("CASE WHEN {0} THEN x > 5 ELSE {1} END", lambda a, b, row: row["x"] > 5 if a else b),
]


@pytest.mark.parametrize(("name", "form", "meaning"), [(("english", "plain")[i % 2], *mixed) for i, mixed in enumerate(MIXED)])
def test_conditions_may_stand_anywhere_among_others(
    spark: SparkSession, uris: dict[str, str], name: str, form: str, meaning: Callable[[bool | None, bool | None, Row], bool | None]
) -> None:
    condition = form.format("lance_match(text, 'cat')", "lance_match(text, 'dog')")
    cat, dog, rows = matches(uris[name], words("cat")), matches(uris[name], words("dog")), rows_of(uris[name])
    assert ids(spark.table(name).where(condition)) == [i for i in sorted(rows) if meaning(cat[i], dog[i], rows[i])]


def test_a_condition_stays_with_its_table_in_joins(spark: SparkSession, uris: dict[str, str]) -> None:
    """Spark concludes that what holds for one of two equal texts holds for the other: the other table splits it differently."""
    sides = {name: (rows_of(uris[name]), matches(uris[name], words("run"))) for name in ("english", "exact")}
    assert true(sides["english"][1]) != true(sides["exact"][1])
    pairs = [(i, j) for i, a in sides["english"][0].items() for j, b in sides["exact"][0].items() if a["text"] and a["text"] == b["text"]]
    join = "SELECT a.id, b.id FROM english a {} JOIN exact b ON a.text = b.text AND a.text <> '' {}"
    for name, at, side in (("english", 0, "a"), ("exact", 1, "b")):
        expected = sorted(pair for pair in pairs if sides[name][1][pair[at]])
        found = spark.sql(join.format("", f"WHERE lance_match({side}.text, 'run')"))
        assert sorted(tuple(row) for row in found.collect()) == expected, name
    met = {i for i, j in pairs if sides["exact"][1][j]}
    left = spark.sql(join.format("LEFT", "AND lance_match(b.text, 'run')"))
    assert {row[0] for row in left.where("b.id IS NOT NULL").collect()} == met
    assert {row[0] for row in left.where("b.id IS NULL").collect()} == set(sides["english"][0]) - met
    semi = spark.sql("SELECT id FROM english a WHERE EXISTS (SELECT 1 FROM exact b WHERE b.text = a.text AND lance_match(b.text, 'run'))")
    assert set(ids(semi)) == {i for i, j in pairs if sides["exact"][1][j]}
    any_side = spark.sql(join.format("", "WHERE lance_multi_match('run', a.text, b.text)"))
    assert any_side.count() == len([1 for i, j in pairs if sides["english"][1][i] or sides["exact"][1][j]])


def test_rows_of_a_union_are_tested_as_those_of_their_tables(spark: SparkSession, uris: dict[str, str]) -> None:
    union = (
        "SELECT id, text FROM (SELECT id, text FROM english UNION ALL SELECT id, text FROM exact UNION ALL SELECT id, text FROM english) u"
    )
    expected = sorted([*true(matches(uris["english"], words("run"))) * 2, *true(matches(uris["exact"], words("run")))])
    assert ids(spark.sql(f"{union} WHERE lance_match(text, 'run')")) == expected
    counted = spark.sql(f"SELECT count(*) FROM ({union}) WHERE NOT lance_match(text, 'run') OR length(text) < 3")
    assert counted.collect()[0][0] == len(
        [v for n in ("english", "exact", "english") for v in matches(uris[n], words("run")).values() if v is False]
    )


QUERIES = [
    "WITH c AS (SELECT id, text AS t FROM english) SELECT id FROM c WHERE lance_match(t, 'cat')",
    "WITH c AS (TABLE english), d AS (SELECT id AS n, text FROM c) SELECT c.id FROM c JOIN d ON c.id = n WHERE lance_match(d.text, 'cat')",
    "WITH c AS (SELECT * FROM english) SELECT id FROM exact WHERE id IN (SELECT id FROM c WHERE lance_match(text, 'cat'))",
    "WITH c AS (TABLE english) SELECT id FROM english e JOIN c USING (id) WHERE lance_match(c.text, 'CAT') AND lance_match(e.text, 'cat')",
    "SELECT id FROM (SELECT id, text AS t FROM (SELECT * FROM english ORDER BY x)) WHERE lance_match(t, 'cat')",
    "SELECT id FROM (SELECT id, lance_match(text, 'cat') AS m, lance_match(text, 'Cat') AS n FROM english) WHERE m AND n",
    "SELECT id FROM (SELECT DISTINCT id, text FROM english) WHERE lance_match(text, 'cat')",
    "SELECT id FROM english WHERE text IN (SELECT text FROM english GROUP BY text HAVING lance_match(text, 'cat') AND count(*) > 1)",
    "SELECT e.id FROM english e LATERAL VIEW explode(array(1, 2)) v AS k WHERE lance_match(e.text, 'cat') AND k = 2",
    "SELECT id FROM english e QUALIFY lance_match(e.text, 'cat') AND row_number() OVER (PARTITION BY id ORDER BY x) = 1",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_condition_finds_the_table_of_its_column(spark: SparkSession, uris: dict[str, str], query: str) -> None:
    if "QUALIFY" in query and spark.version < "4.2":
        pytest.skip("this Spark has no QUALIFY")
    assert ids(spark.sql(query)) == true(matches(uris["english"], words("cat")))


def test_letters_of_either_case_are_two_conditions(spark: SparkSession, uris: dict[str, str]) -> None:
    upper, lower = matches(uris["exact"], words("Cat")), matches(uris["exact"], words("cat"))
    assert true(upper) != true(lower)
    found = spark.sql("SELECT id FROM exact WHERE lance_match(text, 'Cat') OR upper(text) = 'CATS' AND NOT lance_match(text, 'cat')")
    rows = rows_of(uris["exact"])
    assert ids(found) == [i for i in sorted(rows) if upper[i] or (rows[i]["text"] == "cats" and lower[i] is False)]


def test_groups_and_order_may_use_conditions(spark: SparkSession, uris: dict[str, str]) -> None:
    cat = matches(uris["english"], words("cat"))
    grouped = spark.sql("SELECT lance_match(text, 'cat') AS m, count(*) FROM english GROUP BY lance_match(text, 'cat')")
    assert dict(tuple(row) for row in grouped.collect()) == {v: list(cat.values()).count(v) for v in (True, False, None)}
    ordered = spark.sql("SELECT id FROM english ORDER BY lance_match(text, 'cat') DESC NULLS LAST, id LIMIT 3")
    assert [row.id for row in ordered.collect()] == true(cat)[:3]


def test_an_index_finds_the_rows_and_no_text_is_read(spark: SparkSession, uris: dict[str, str]) -> None:
    frame = spark.read.format("lance").load(uris["english"]).where("lance_match(text, 'open')").select("id")
    (scan,) = scans(frame)
    assert "ScalarIndexes: text_idx (INVERTED)" in scan
    assert "ReadSchema: struct<id:bigint>" in scan
    assert frame.columns == ["id"]
    both_ways = spark.sql(
        "SELECT id FROM english WHERE lance_match(text, 'open') AND (lance_match(text, 'cat') OR substr(text, 1, 1) = 't')"
    )
    assert "ScalarIndexes: text_idx (INVERTED)" in scans(both_ways)[0]
    assert ids(both_ways) == [i for i in rows_of(uris["english"]) if TEXTS[i % 11] == "the café is open"]


def test_rows_that_are_searched_limited_or_changed_are_tested(spark: SparkSession, uris: dict[str, str]) -> None:
    cat, uri = matches(uris["english"], words("cat")), uris["english"]
    first = [i for i in sorted(cat) if i < 20][:15]
    assert ids(spark.read.format("lance").option("limit", 15).load(uri).where("lance_match(text, 'cat')")) == [i for i in first if cat[i]]
    searched = spark.sql(f"SELECT id FROM lance_fts('{uri}', 'text', 'dog', 50) WHERE lance_match(text, 'cat')")
    assert ids(searched) == sorted(set(true(cat)) & set(true(matches(uri, words("dog")))))
    changes = spark.read.format("lance").options(readChangeFeed="true", startingVersion="0").load(uri).where("lance_match(text, 'cat')")
    assert set(ids(changes.where("_change_type = 'insert'"))) == {i for i in range(44) if i in true(cat) or (i % 11 == 7)}
    cached = spark.read.format("lance").load(uri).cache()
    try:
        assert ids(cached.where("lance_match(text, 'cat')")) == true(cat)
    finally:
        cached.unpersist()


def test_without_push_down_the_rows_are_the_same(spark: SparkSession, uris: dict[str, str]) -> None:
    with settings(spark, optimizer__excludedRules="lance_spark.LancePlanner"):
        assert ids(spark.table("english").where("lance_match(text, 'cat')")) == true(matches(uris["english"], words("cat")))


REFUSED = [
    ("SELECT * FROM english WHERE lance_match(upper(text), 'cat')", "needs a column of a table in FROM"),
    ("SELECT * FROM (SELECT upper(text) AS t FROM english) WHERE lance_match(t, 'cat')", "column t cannot be traced"),
    ("SELECT * FROM (SELECT first(text) AS t FROM english) WHERE lance_match(t, 'cat')", "column t cannot be traced.*Aggregate"),
    (
        "SELECT * FROM (SELECT text FROM english UNION SELECT text FROM exact) WHERE lance_match(text, 'cat')",
        "text cannot be traced.*Distinct",
    ),
    ("SELECT * FROM (SELECT text FROM english UNION ALL SELECT 'a') WHERE lance_match(text, 'cat')", "cannot be traced"),
    ("SELECT * FROM VALUES ('a') AS v(text) WHERE lance_match(text, 'a')", "column text cannot be traced"),
    ("SELECT * FROM english a WHERE EXISTS (SELECT 1 FROM exact b WHERE lance_match(a.text, 'cat'))", "needs a column of a table in FROM"),
    ("SELECT * FROM english WHERE lance_match(id, 'cat')", "texts; id is of the type bigint"),
    ("SELECT * FROM english WHERE lance_match(text, text)", "words of lance_match must be a constant"),
    ("SELECT * FROM english WHERE lance_match(text, NULL)", "words of the type void"),
    ("SELECT * FROM english WHERE lance_match(text)", "called as"),
    ("SELECT * FROM english WHERE lance_multi_match('cat')", "called as"),
    ("SELECT * FROM english WHERE lance_match(text, 'cat', 'operatr=AND')", "options have the form"),
    ("SELECT * FROM english WHERE lance_match_phrase(text, 'cat', -1) OR id + 1 > 3", "slop must be an integer"),
]


@pytest.mark.usefixtures("uris")
@pytest.mark.parametrize(("query", "message"), REFUSED)
def test_what_cannot_be_evaluated_is_refused(spark: SparkSession, query: str, message: str) -> None:
    with pytest.raises(SPARK_ERRORS, match=message):
        spark.sql(query).collect()


def test_streams_refuse_conditions(spark: SparkSession, uris: dict[str, str]) -> None:
    stream = spark.readStream.format("lance").load(uris["english"])
    with pytest.raises(SPARK_ERRORS, match="column text cannot be traced to a lance table"):
        stream.where("lance_match(text, 'cat')")


def test_nested_texts_lists_and_json(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": range(4),
            "s": [{"t": "red sea", "n": 1}, {"t": "blue", "n": 2}, None, {"t": None, "n": 3}],
            "l": [["red"], [], ["blue", None, "sea"], None],
        }
    )
    Dataset.write(str(tmp_path / "t"), rows)
    frame = spark.read.format("lance").load(str(tmp_path / "t"))
    assert ids(frame.where("lance_match(s.t, 'sea')")) == [0]
    assert ids(frame.where("NOT lance_match(s.t, 'sea') AND s.n + 0 > 1")) == [1]
    assert ids(frame.where("lance_match(l, 'sea red') OR s.n + 0 = 3")) == [0, 2, 3]
    assert ids(frame.select("id", "s").where("lance_match(s.t, 'sea') OR s.n + 0 = 2")) == [0, 1]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A new table of the session catalog, `notes`, and its location."""
    uri = three(tmp_path)["english"]
    spark.sql(f"CREATE TABLE notes USING lance LOCATION '{uri}'")
    yield uri
    spark.sql("DROP VIEW IF EXISTS open_notes")
    spark.sql("DROP TABLE notes")


def test_tables_of_the_session_catalog_and_permanent_views(spark: SparkSession, table: str) -> None:
    expected = true(matches(table, words("cat")))
    assert ids(spark.sql("SELECT n.id FROM notes n WHERE lance_match(n.text, 'cat')")) == expected
    kind = "VIEW" if spark.version >= "4.3" else "TEMPORARY VIEW"
    spark.sql(f"CREATE {kind} open_notes AS SELECT id, text AS words, text FROM notes WHERE lance_match(text, 'cat dog')")
    assert ids(spark.sql("SELECT id FROM open_notes WHERE lance_match(words, 'cat')")) == expected


def test_commands_change_the_rows_that_match(spark: SparkSession, table: str) -> None:
    def where(condition: str) -> list[int]:
        return sorted(Dataset.open(table).scan(columns=["id"], filter=condition).to_table()["id"].to_pylist())

    cat, dog, run = (true(matches(table, words(word))) for word in ("cat", "dog", "run"))
    spark.sql("UPDATE notes SET x = -1 WHERE lance_match(text, 'cat')")
    assert where("x = -1") == cat
    spark.sql("UPDATE notes SET text = concat(text, '!'), x = -2 WHERE lance_match(text, 'run') OR substr(text, 1, 3) = 'the'")
    assert where("x = -2") == sorted([*run, *(i for i in rows_of(table) if TEXTS[i % 11] == "the café is open")])
    assert set(where("text LIKE '%!'")) >= set(run)
    source = "(SELECT id, text FROM notes WHERE lance_match(text, 'dog')) s"
    spark.sql(f"""MERGE INTO notes t USING {source} ON t.id = s.id WHEN MATCHED AND lance_match(t.text, 'cat') THEN UPDATE SET x = -3
        WHEN NOT MATCHED BY SOURCE AND lance_match(t.text, 'run') THEN DELETE""")
    assert where("x = -3") == sorted(set(cat) & set(dog))
    assert not set(where("true")) & (set(run) - set(dog))
    spark.sql("MERGE INTO notes t USING (SELECT 100L AS id, 'cat' AS text) s ON t.id = s.id AND lance_match(t.text, 'cat') "
              "WHEN NOT MATCHED THEN INSERT (id, text) VALUES (s.id, s.text)")  # fmt: skip
    assert where("id = 100") == [100]
    left = Dataset.open(table).count_rows()
    spark.sql("DELETE FROM notes WHERE id IN (SELECT id FROM notes WHERE lance_match(text, 'cat') AND id > 99)")
    assert Dataset.open(table).count_rows() == left - 1
    spark.sql("DELETE FROM notes WHERE lance_match(text, 'cat') AND NOT lance_match(text, 'dog') OR text IS NULL")
    assert where("lance_match(text, 'cat')") == sorted(set(cat) & set(dog))
    with pytest.raises(SPARK_ERRORS, match="lance_match needs a column of a table in FROM"):
        spark.sql("INSERT INTO notes REPLACE WHERE lance_match(text, 'dog') SELECT * FROM notes")


def test_versions_and_branches(spark: SparkSession, table: str) -> None:
    before, version = true(matches(table, words("cat"))), Dataset.open(table).version
    Dataset.open(table).create_branch("b")
    new = spark.createDataFrame([(200, "a cat", 0.0, ["a"])], "id BIGINT, text STRING, x DOUBLE, tags ARRAY<STRING>")
    new.write.format("lance").mode("append").option("branch", "b").save(table)
    Dataset.open(table).delete("lance_match(text, 'cat') AND id > 10")
    for condition in ("lance_match(text, 'cat')", "lance_match(text, 'cat') AND id + 0 >= 0 OR upper(text) = 'NONE'"):
        assert ids(spark.read.format("lance").option("version", version).load(table).where(condition)) == before
        assert ids(spark.read.format("lance").option("branch", "b").load(table).where(condition)) == [*before, 200]
        assert ids(spark.read.format("lance").load(table).where(condition)) == [i for i in before if i <= 10]


def test_partitioned_namespaces(spark: SparkSession, tmp_path: Path) -> None:
    """Each table splits texts in its own way; one that lacks the partition's column is completed with it."""
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("text", pa.string()), pa.field("country", pa.string())])
    made = PartitionedNamespace.create(tmp_path / "n", schema, ["country"])
    data = [pa.table({"id": [10 * i, 10 * i + 1], "text": ["a cat runs", "Run"]}, schema=pa.schema(list(schema)[:2])) for i in range(2)]
    uri = with_partitions(made, [({"country": c}, rows) for c, rows in zip(("US", "DE"), data)], pinned=False).uri
    frame = spark.read.format("lance").load(uri)
    assert ids(frame.where("lance_match(text, 'cat')")) == [0, 10]
    assert [tuple(r) for r in frame.where("NOT lance_match(text, 'cat') AND country = 'DE'").select("id", "country").collect()] == [
        (11, "DE")
    ]
    with pytest.raises(SPARK_ERRORS, match="partitioned namespace, where a condition like lance_match"):
        frame.where("lance_match(text, 'cat') OR upper(country) = 'DE'").collect()
