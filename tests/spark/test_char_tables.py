"""Each statement knows a table, whatever its columns, by its name and by that of a view: Spark pads the values of CHAR columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset
from tests.spark.catalog.lakes import Lake, lake

COLUMNS = {"plain": "c STRING", "not null": "c STRING NOT NULL", "varchar": "c VARCHAR(5)", "char": "c CHAR(5)"}
DOORS = ("SQL catalog", "session catalog", "path", "frame's view", "view of a path", "SQL view", "view of the session catalog")
STATEMENTS = {
    "files": (
        "OPTIMIZE {t}",
        "OPTIMIZE {t} WHERE id > 0 ZORDER BY (id)",
        "VACUUM {t} DRY RUN",
        "DESCRIBE HISTORY {t}",
        "DESCRIBE DETAIL {t}",
    ),
    "references": (
        "ALTER TABLE {t} CREATE TAG x AS OF VERSION 1",
        "SHOW TAGS FROM {t}",
        "ALTER TABLE {t} DROP TAG x",
        "ALTER TABLE {t} CREATE BRANCH y",
        "SHOW BRANCHES FROM {t}",
        "ALTER TABLE {t} DROP BRANCH y",
    ),
    "indexes": (
        "ALTER TABLE {t} CREATE INDEX i USING btree (id)",
        "ALTER TABLE {t} REFRESH INDEX i",
        "ALTER TABLE {t} OPTIMIZE INDEX i",
        "SHOW INDEXES FROM {t}",
        "ALTER TABLE {t} DROP INDEX i",
        "CREATE INDEX j ON {t} (id)",
        "DROP INDEX j ON {t}",
    ),
    "columns": (
        "ALTER TABLE {t} ADD CONSTRAINT k CHECK (id > 0)",
        "ALTER TABLE {t} DROP CONSTRAINT k",
        "ALTER TABLE {name} UPDATE COLUMNS id FROM (SELECT id, _rowaddr FROM {name})",
        "RESTORE TABLE {t} TO VERSION AS OF 2",
    ),
    "rows": (
        "UPDATE {t} SET id = id + 10 WHERE c = 'a'",
        "DELETE FROM {t} WHERE c = 'b' AND id = 2",
        "MERGE INTO {t} AS t USING (SELECT 11 AS id, 'd' AS c) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.c = s.c",
        "MERGE INTO {t} AS t USING (SELECT 5 AS id, 'e' AS c) AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    ),
}
"""Those that belong together run one after the other."""
CELLS = [cell for cell in itertools.product(DOORS, STATEMENTS) if cell != ("path", "rows")]
MORE = [cell for cell in itertools.product(COLUMNS, DOORS) if cell[0] != "char"]


@pytest.fixture(scope="module")
def own(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The catalog `lance` over an empty directory namespace."""
    with lake(spark, tmp_path_factory.mktemp("lake")) as made:
        yield made


def make_view(spark: SparkSession, door: str, name: str, location: str) -> None:
    """The view of the table that a door needs."""
    view = "of_char"
    if door in ("frame's view", "view of the session catalog"):
        spark.table(name).createOrReplaceTempView(view)
    elif door == "view of a path":
        spark.read.format("lance").load(location).createOrReplaceTempView(view)
    elif door == "SQL view":
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view} AS SELECT * FROM {name}")


def check_statements(own: Lake, columns: str, door: str, part: str) -> None:
    """Run a part of the statements on a table with rows (1, a) and (2, b), and look at the rows that come out."""
    spark, view = own.spark, "of_char"
    name = "char_of_session" if "session" in door else "lance.t"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} (id INT, {COLUMNS[columns]}) USING lance")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    location = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0].location
    table = {"path": f"lance.`{location}`"}.get(door, view if "view" in door else name)
    make_view(spark, door, name, location)
    for statement in STATEMENTS[part]:
        spark.sql(statement.format(t=table, name=name)).collect()
    rows = [(5, "e"), (11, "d")] if part == "rows" else [(1, "a"), (2, "b")]
    width = 5 if columns == "char" else 1
    expected = [{"id": id, "c": c.ljust(width)} for id, c in rows]
    assert Dataset.open(location).to_table().sort_by("id").to_pylist() == expected
    spark.sql(f"DROP TABLE {name}")
    spark.catalog.dropTempView(view)


@pytest.mark.matrix
@pytest.mark.parametrize(("door", "part"), CELLS)
def test_statements_on_a_table_with_a_char_column(own: Lake, door: str, part: str) -> None:
    check_statements(own, "char", door, part)


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "door"), MORE)
def test_statements_on_a_table_with_other_columns(own: Lake, columns: str, door: str) -> None:
    for part in STATEMENTS:
        if (door, part) in CELLS:
            check_statements(own, columns, door, part)
