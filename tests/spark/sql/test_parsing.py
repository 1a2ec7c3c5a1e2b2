"""Statements of Spark's own, and texts that are none, are parsed as in a session without ours, with the same errors."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from tests.spark_session import SPARK_ERRORS

STATEMENTS = 20_000 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 300
SPARKS_OWN = """
SELECT 1; SELECT * FROM a JOIN b USING (id) WHERE x > 1 -- end
WITH x AS (SELECT 1) SELECT * FROM x; INSERT INTO t VALUES (1, 'it''s'); DELETE FROM t WHERE id = 1; UPDATE t SET a = 1
MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE; CREATE TABLE t (id INT) USING parquet; REPLACE TABLE t USING lance AS SELECT 1
CREATE TABLE clone LIKE t; CREATE TABLE t (clone INT) USING parquet; CREATE TABLE IF NOT EXISTS t SHALLOW CLONE
ALTER TABLE t ADD COLUMNS a INT, b INT; ALTER TABLE t ADD COLUMNS a INT FIRST; CREATE TABLE t CLONE u; CREATE VIEW clone AS SELECT 1
CREATE TABLE t USING lance AS SELECT 1; CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1; DROP TABLE t; TRUNCATE TABLE t; CACHE TABLE t
DESCRIBE t; DESC t id; DESCRIBE TABLE EXTENDED t; DESCRIBE FUNCTION history; DESCRIBE QUERY SELECT 1; DESCRIBE history; DESC detail
DESCRIBE NAMESPACE n; SHOW TABLES; SHOW TABLES FROM tags; SHOW COLUMNS FROM t; SHOW TBLPROPERTIES t; SHOW INDEXES; SHOW CREATE TABLE t
SHOW PARTITIONS t; SHOW FUNCTIONS; SHOW VIEWS IN n; ALTER TABLE t ADD COLUMNS (a INT); ALTER TABLE t DROP COLUMN index
ALTER TABLE t RENAME TO u; ALTER TABLE t SET TBLPROPERTIES ('a' = 'b'); ALTER TABLE t ALTER COLUMN a TYPE BIGINT; ALTER VIEW v AS SELECT 1
ALTER TABLE t DROP PARTITION (a = 1); ALTER TABLE t ADD PARTITION (a = 1); ALTER TABLE t SET LOCATION '/x'; ALTER TABLE t CLUSTER BY (a)
ANALYZE TABLE t PARTITION (a) COMPUTE STATISTICS; REFRESH TABLE t
EXPLAIN SELECT 1; SET a = b; RESET; USE n; CALL c.n.p(1)
OPTIMIZE; VACUUM; RESTORE; RESTORE t; VACUUM 'text'; OPTIMIZE t WHERE a = :x; DESCRIBE HISTORY; SHOW TAGS t; ALTER TABLE t CREATE
ALTER TABLE t UPDATE COLUMNS a FROM v; ALTER TABLE t ADD COLUMNS a, b FROM v; OPTIMIZE t WHERE s = 'open; VACUUM `t; OPTIMIZE /* open t
SELECT FROM; ; /* only */; -- only; SELEC 1; DROP; SELECT 'a; SELECT 1 +; SELECT /*+ COALESCE(1) */ 1; select 'a' collate nothing
""".strip()


def parsed(parser: Any, text: str) -> str:
    """The plan of a text, or its error, without numbers of expressions."""
    try:
        return re.sub(r"#\d+", "#", str(parser.parsePlan(text).toString()))
    except SPARK_ERRORS as e:
        return re.sub(r"(?s)\n\tat .*|o\d+", "", str(e))


def examples_of_functions(spark: SparkSession) -> list[str]:
    """The statements in the documentation of Spark's functions."""
    jvm: Any = spark._jvm
    found = jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
    lines = [line.strip() for info in found for line in info.getExamples().splitlines()]
    return [line.removeprefix("> ").removesuffix(";") for line in lines if line.startswith("> ")]


def changed(statements: Sequence[str], keywords: Sequence[str], count: int) -> list[str]:
    """Statements with other words in some places, such as keywords of Spark, and mere words."""
    chosen, made = random.Random(7), []
    words = sorted({word for text in statements for word in text.split()} | set(keywords))
    for _ in range(count):
        found = chosen.choice(statements).split() or chosen.choices(words, k=3)
        for _ in range(chosen.randint(0, 3)):
            at = chosen.randrange(len(found) + 1)
            found[at : at + chosen.randint(0, 1)] = chosen.choices(words, k=chosen.randint(0, 2))
        made.append(" ".join(found) if chosen.random() < 0.9 else " ".join(chosen.choices(words, k=chosen.randint(1, 7))))
    return made


def test_sparks_own_statements_and_nonsense_are_parsed_as_without_the_statements(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    ours, sparks = session.sessionState().sqlParser(), jvm.org.apache.spark.sql.execution.SparkSqlParser()
    own = [text.strip() for line in SPARKS_OWN.splitlines() for text in (line.split(";") if "--" not in line else [line])]
    keywords = [str(row[0]) for row in spark.sql("SELECT keyword FROM sql_keywords()").collect()]
    examples = examples_of_functions(spark)
    more = [*examples, *changed(own + examples, keywords, max(STATEMENTS - len(examples), len(examples)))]
    statements = own + random.Random(7).sample(more, STATEMENTS)
    found = {text: parsed(ours, text) for text in statements}
    handed_over = [text for text, plan in found.items() if "LanceStatement" not in plan]
    assert len(handed_over) > 0.9 * len(found)
    assert {text: parsed(sparks, text) for text in handed_over} == {text: found[text] for text in handed_over}
