"""Delta Lake, Iceberg and lance-spark in one session: statements reach the tables of each, whatever the order of the extensions.

`make test-beside` installs the jars, which are for Spark 4.0.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pytest

from tests.spark.processes import START, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("jsoniq") is None, reason="the jars of Delta Lake and Iceberg are not installed: make test-beside"
    ),
]

EXTENSIONS = ["io.delta.sql.DeltaSparkSessionExtension", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"]
NAMES = "org.apache.spark.sql.delta.sources.DeltaDataSource\norg.apache.iceberg.spark.source.IcebergSource\n"
"""The jar of all classes has lost the names of the data sources."""
SCRIPT = (
    START
    + """
folder, jars, extensions = sys.argv[1:]
builder = builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").config("spark.sql.warehouse.dir", folder + "/warehouse")
builder = builder.config("spark.jars", jars.replace(":", ",")).config("spark.driver.extraClassPath", jars)
builder = builder.config("spark.sql.extensions", extensions)
builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
builder = builder.config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog").config("spark.sql.catalog.ice.type", "hadoop")
spark = builder.config("spark.sql.catalog.ice.warehouse", folder + "/ice").getOrCreate()
lance_spark.catalog(spark, "lance", root=folder + "/lake")
lance_spark.enable(spark)
spark.sql("CREATE NAMESPACE lance.ns")
sums = set()
for name, using in (("lance.ns.t", ""), ("ice.ns.t", "USING iceberg"), ("default.t", "USING delta")):
    spark.sql(f"CREATE TABLE {name} {using} AS SELECT id, id % 3 AS p FROM range(100)")
    spark.sql(f"UPDATE {name} SET p = 9 WHERE id = 5")
    spark.sql(f"DELETE FROM {name} WHERE id = 6")
    spark.sql(f"MERGE INTO {name} t USING (SELECT 7 AS id, 70 AS p) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET p = s.p")
    sums.add(tuple(spark.sql(f"SELECT count(*), sum(p) FROM {name}").collect()[0]))
assert sums == {(99, 175)}, sums
OF_DELTA = ("OPTIMIZE {}", "OPTIMIZE {} ZORDER BY (id)", "VACUUM {}", "DESCRIBE HISTORY {}", "DESCRIBE DETAIL {}",
    "RESTORE TABLE {} TO VERSION AS OF 1", "ALTER TABLE {} ADD CONSTRAINT c CHECK (id >= 0)", "ALTER TABLE {} DROP CONSTRAINT c")
for name in ("lance.ns.t", "default.t"):
    for statement in OF_DELTA:
        spark.sql(statement.format(name)).collect()
for name in ("lance.ns.t", "ice.ns.t"):
    for statement in ("CREATE BRANCH b", "CREATE TAG g", "DROP TAG g", "WRITE ORDERED BY id"):
        spark.sql(f"ALTER TABLE {name} {statement}")
    spark.sql(f"CALL {name.split('.')[0]}.system.rewrite_data_files('ns.t')").collect()
    spark.sql(f"SELECT * FROM {name}.history").collect()
spark.sql("ALTER TABLE lance.ns.t CLUSTER BY (id)")
spark.sql("CREATE INDEX i ON lance.ns.t (id)")
spark.sql("ALTER TABLE lance.ns.t ADD COLUMNS z FROM (SELECT _rowaddr, id AS z FROM lance.ns.t)")
spark.sql("CREATE TABLE lance.ns.of_delta AS SELECT * FROM default.t")
spark.sql("CREATE TABLE lance.ns.of_iceberg AS SELECT * FROM ice.ns.t")
spark.sql("CREATE TABLE default.of_lance USING delta AS SELECT * FROM lance.ns.t")
rows = spark.sql("SELECT count(*) AS n FROM lance.ns.of_delta JOIN ice.ns.t USING (id) JOIN default.of_lance USING (id)").collect()
print("joined", rows[0].n)
spark.stop()
"""
)


@pytest.mark.parametrize("order", [1, -1], ids=["Delta Lake first", "Iceberg first"])
def test_statements_reach_the_tables_of_all_three(order: int, tmp_path: Path) -> None:
    jsoniq = importlib.util.find_spec("jsoniq")
    assert jsoniq is not None
    assert jsoniq.origin is not None
    (jar,) = (Path(jsoniq.origin).parent / "jars").glob("*.jar")
    with zipfile.ZipFile(tmp_path / "names.jar", "w") as names:
        names.writestr("META-INF/services/org.apache.spark.sql.sources.DataSourceRegister", NAMES)
    printed = run(SCRIPT, str(tmp_path), f"{jar}:{tmp_path / 'names.jar'}", ",".join(EXTENSIONS[::order]))
    assert "joined 99" in printed
