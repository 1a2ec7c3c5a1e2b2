"""What was made in a session says so in one line when it is used after `spark.stop()`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.processes import START, run

SAYS = "the Spark session was stopped"
SCRIPT = (
    START
    + """
import json
import pyarrow as pa
import lance_spark
from lance_spark import Dataset, LanceTable

folder = sys.argv[1]
spark = builder.master("local[1]").getOrCreate()
lance_spark.catalog(spark, "lake", root=folder)
uri = folder + "/t.lance"
Dataset.write(uri, pa.table({"id": [1, 2], "v": [1, 2]}))
frame = spark.read.format("lance").load(uri)
frame.createOrReplaceTempView("seen")
table, named = LanceTable.forPath(spark, uri), LanceTable.forName(spark, "lake.t")
merge = table.alias("t").merge(frame.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"v": "s.v"})
creation = LanceTable.create(spark)
writer, writer_to, reader = frame.write.format("lance").mode("append"), frame.writeTo("lake.t"), spark.read.format("lance")
other = spark.newSession()
spark.stop()

DOORS = {
    "load": lambda: spark.read.format("lance").load(uri),
    "a kept reader": lambda: reader.load(uri),
    "another session": lambda: other.read.format("lance").load(uri),
    "readStream": lambda: spark.readStream.format("lance").load(uri),
    "SELECT": lambda: spark.sql("SELECT * FROM lake.t"),
    "SELECT of a path": lambda: spark.sql(f"SELECT * FROM lake.`{uri}`"),
    "OPTIMIZE": lambda: spark.sql("OPTIMIZE lake.t"),
    "CALL": lambda: spark.sql("CALL lake.system.compact('lake.t')"),
    "CALL of another procedure": lambda: spark.sql("CALL lake.system.restore(table => 'lake.t', version => 1)").collect(),
    "CALL of a path": lambda: spark.sql(f"CALL lake.system.compact('{uri}')"),
    "VACUUM of a view": lambda: spark.sql("VACUUM seen"),
    "UPDATE": lambda: spark.sql("UPDATE lake.t SET v = 1"),
    "DELETE of a view": lambda: spark.sql("DELETE FROM seen WHERE id = 1"),
    "INSERT into a view": lambda: spark.sql("INSERT INTO seen VALUES (3, 3)"),
    "ALTER TABLE": lambda: spark.sql("ALTER TABLE lake.t ADD COLUMN w INT"),
    "a kept writer": lambda: writer.save(uri),
    "writeTo": lambda: writer_to.append(),
    "insertInto": lambda: frame.write.insertInto("lake.t"),
    "lance_spark.write": lambda: lance_spark.write(frame, uri, mode="append"),
    "lance_spark.enable": lambda: lance_spark.enable(spark),
    "lance_spark.catalog": lambda: lance_spark.catalog(spark, "more", root=folder),
    "lance_spark.last_change": lambda: lance_spark.last_change(spark),
    "LanceTable.forPath": lambda: LanceTable.forPath(spark, uri),
    "LanceTable.forName": lambda: LanceTable.forName(spark, "lake.t"),
    "LanceTable.create": lambda: creation.addColumn("id", "INT"),
    "toDF": lambda: table.toDF(),
    "toDF of a name": lambda: named.toDF(),
    "delete": lambda: table.delete("id = 1"),
    "update": lambda: table.update("id = 1", {"v": "3"}),
    "merge": lambda: merge.execute(),
    "addColumns": lambda: table.addColumns({"w": "id + 1"}),
    "alterColumn": lambda: table.alterColumn("id", type="INT"),
    "createIndex": lambda: table.createIndex("id", "BTREE"),
    "optimize": lambda: table.optimize().executeCompaction(),
    "changes": lambda: table.changes(0),
}
said = {}
for name, use in DOORS.items():
    try:
        use()
    except Exception as e:
        said[name] = f"{type(e).__name__}: {e}".strip().partition("\\n")[0]
    else:
        said[name] = "nothing"
said["versions"] = str(Dataset.open(uri).version)
print("SAID" + json.dumps(said))
"""
)


@pytest.mark.slow
def test_each_door_says_that_the_session_was_stopped(tmp_path: Path) -> None:
    [line] = [line for line in run(SCRIPT, str(tmp_path)).splitlines() if line.startswith("SAID")]
    said = json.loads(line.removeprefix("SAID"))
    assert said.pop("versions") == "1"
    assert {name: text for name, text in said.items() if SAYS not in text} == {}
