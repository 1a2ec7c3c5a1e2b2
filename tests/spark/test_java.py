"""Classes of the JVM that need no session: what they make of real input is compared with what Python makes of it."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

from lance_spark.predicate import from_json, parse
from lance_spark.schema.schema import from_arrow
from lance_spark.spark.catalog.statements import statement
from lance_spark.spark.catalog_settings import Catalog
from tests.spark.processes import ROOT

JARS = f"{Path(pyspark.__file__).parent}/jars/*"
Main = Callable[..., list[str]]


@pytest.fixture(scope="module")
def main(jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Main:
    """Runs a class of tests/jvm with arguments and lines of input, and returns the lines that it writes."""
    javac = subprocess.run([ROOT / "scripts" / "javac"], check=True, capture_output=True, text=True).stdout.strip()
    classes = tmp_path_factory.mktemp("classes")
    names = ("StatementsMain", "PlanJsonMain", "ClassFileMain")
    files = [str(ROOT / "tests" / "jvm" / f"{name}.java") for name in names]
    subprocess.run([javac, "-nowarn", "-encoding", "ascii", "-cp", f"{jar}:{JARS}", "-d", str(classes), *files], check=True)
    java = str(Path(javac).resolve().with_name("java"))

    def run(name: str, *arguments: str, lines: str = "") -> list[str]:
        # The classes of the tests are in the packages of what they test, and so are loaded together with these.
        command = [java, "-Dfile.encoding=UTF-8", "-cp", f"{classes}:{jar}:{JARS}", f"lancespark.{name}", *arguments]
        return subprocess.run(command, input=lines, check=True, capture_output=True, text=True).stdout.splitlines()

    return run


STATEMENTS = {
    "OPTIMIZE t": "compact",
    "optimize c.n.t ZORDER BY (a, b) -- all of it": "cluster",
    "VACUUM t RETAIN 168 HOURS": "cleanup",
    "RESTORE TABLE t TO VERSION AS OF 3;": "restore",
    "DESCRIBE HISTORY '/data/t.lance' LIMIT 2": "history",
    "DESC DETAIL `a b`.`c``d`": "detail",
    "SHOW INDEXES FROM t": "show_indexes",
    "SHOW TAGS IN t": "show_tags",
    "ALTER TABLE t CREATE TAG `é` AS OF VERSION 1": "create_tag",
    "ALTER TABLE t DROP BRANCH IF EXISTS b": "delete_branch",
    "ALTER TABLE t ADD CONSTRAINT positive CHECK (id > 0.5 AND s <> 'it''s')": "add_constraint",
    "ALTER TABLE t ALTER COLUMN id SET NOT NULL": "set_not_null",
    "ALTER TABLE t DROP CONSTRAINT IF EXISTS positive": "drop_constraint",
    "ALTER TABLE t SET UNENFORCED PRIMARY KEY (id)": "set_primary_key",
    "ALTER TABLE t REFRESH INDEX i": "optimize_indices",
    "ALTER TABLE t ALTER COLUMN id SYNC IDENTITY": "sync_identity",
    "ALTER TABLE t UPDATE COLUMNS a FROM v": "",
    "ALTER TABLE t ADD COLUMNS a, b FROM v": "",
    "REPLACE t WHERE id > 3 AS SELECT * FROM s": "",
    "ANALYZE TABLE t COMPUTE STATISTICS": "",
    "CREATE INDEX i ON t (id)": "create_index",
    "DROP INDEX i ON TABLE t": "drop_index",
    "CREATE TABLE IF NOT EXISTS u SHALLOW CLONE t": "shallow_clone",
}
"""Statements, and the operations that they are; "" for those that become statements of Spark's own."""


def sent(main: Main, *statements: str) -> list[Any]:
    """What Python gets of statements; None of those that the parser hands over to Spark."""
    lines = "".join(base64.b64encode(text.encode()).decode() + "\n" for text in statements)
    return [json.loads(line) for line in main("statements.StatementsMain", lines=lines)]


def test_a_statement_that_java_divides_is_what_python_takes_it_for(main: Main) -> None:
    catalog = Catalog({})
    place = {"id": ["t"]}
    for (text, operation), message in zip(STATEMENTS.items(), sent(main, *STATEMENTS)):
        assert message is not None, text
        made = ["u"] if " CLONE " in text else []
        assert statement(catalog, place=place, made=made, **message).get("procedure", "") == operation, text


def test_each_token_is_at_its_place_in_the_text(main: Main) -> None:
    kinds = set()
    for text, message in zip(STATEMENTS, sent(main, *STATEMENTS)):
        assert message["text"] == text
        assert message["name"] in text
        for kind, value, start, end in message["tokens"]:
            kinds.add(kind)
            unquoted = text[start + 1 : end - 1].replace("''", "'").replace("``", "`")
            assert value == (text[start:end] if kind in ("word", "symbol") else unquoted)
    assert kinds == {"word", "symbol", "name", "text"}


OF_SPARK = (
    """
; SELECT 1; OPTIMIZE; OPTIMIZE t WHERE s = 'open; VACUUM `t; SHOW TABLES FROM tags; DESCRIBE history; DROP TABLE t; VACUUM 'text'
ALTER TABLE t ADD COLUMNS (a INT); CREATE TABLE t USING lance AS SELECT 1; OPTIMIZE t WHERE a = :x
DROP TABLE t WRITE; ALTER TABLE t ALTER COLUMN a SET NOT NULL FIRST; RESTORE t; CREATE TABLE t CLONE; SHOW TAGS t
BEGIN; BEGIN SELECT 1 END; BEGIN TRANSACTION t; COMMIT t; ROLLBACK TO s; COMMIT IN; COMMIT IN a b
""".strip()
    .replace("\n", "; ")
    .split("; ")
)


def test_statements_of_spark_and_texts_that_are_none_are_left_to_spark(main: Main) -> None:
    assert sent(main, *OF_SPARK) == [None] * len(OF_SPARK)


SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "s": pa.string(),
        "x": pa.float64(),
        "day": pa.date32(),
        "price": pa.decimal128(10, 2),
        "b": pa.binary(),
        "at": pa.struct({"place": pa.string()}),
        "tags": pa.list_(pa.string()),
        "a.b": pa.int32(),
    }
)
CONDITIONS = {
    "compared": "id > 5",
    "of text": """s = 'it''s é😀 "red"'""",
    "of floats": "x <= 0.5",
    "of a date": "day >= date '2022-01-08'",
    "of a decimal": "price = cast('12.50' as decimal(10, 2))",
    "nested": "at.place = 'here'",
    "with a point": "`a.b` = 1",
    "chained": """id > 5 AND s = 'it''s é😀 "red"' AND tags IS NOT NULL""",
    "either": "NOT id > 5 OR x IS NULL",
    "in a list": "id IN (1, 2)",
}
"""Conditions of PlanJsonMain.java, and what they are as texts."""


def test_a_condition_that_java_writes_is_that_of_the_text(main: Main) -> None:
    written = {name: (exact, json.loads(tree)) for name, exact, tree in (line.split("\t") for line in main("scan.PlanJsonMain"))}
    schema = from_arrow(SCHEMA)
    for name, text in CONDITIONS.items():
        assert from_json(written[name][1], schema).root == parse(text, schema, None).root, name
    assert {name for name, (_exact, tree) in written.items() if tree is None} == {
        "unknown",
        "of an array",
        "before year 1",
        "of what is not there",
    }
    # Spark evaluates conditions of floats again, since its order of them is another one.
    assert {name for name, (exact, _tree) in written.items() if exact == "false"} == {"of floats", "infinite"}
    rest = written.keys() - CONDITIONS.keys() - {name for name, (_exact, tree) in written.items() if tree is None}
    assert {name: from_json(written[name][1], schema).columns for name in rest} == {
        "infinite": ("`x`",),
        "of bytes": ("`b`",),
        "at the begin": ("`s`",),
    }


def test_a_class_loader_finds_classes_in_memory_and_no_others(main: Main) -> None:
    names = ["lancespark.protocol.Protocol", "lancespark.protocol.MessageWriter"]
    assert main("core.ClassFileMain", *names) == [f"{name} 1" for name in names] + ["other: null"]
