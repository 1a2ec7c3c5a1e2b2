"""The contestants: a session of Spark for each, and its words for the same statements."""

from __future__ import annotations

import importlib.util
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import Row

import lance_spark
from lance_spark import LanceTable

FORMATS = "org.apache.spark.sql.delta.sources.DeltaDataSource\norg.apache.iceberg.spark.source.IcebergSource\n"
"""The jar of all classes has lost the short names of the data sources."""
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def jars(folder: Path) -> list[str]:
    """The jar of Delta Lake and Iceberg, which the wheel of another project has, and one with the names of their sources."""
    found = importlib.util.find_spec("jsoniq")
    if found is None or found.origin is None:
        raise SystemExit("the jars of Delta Lake and Iceberg are not installed: make bench-lakes installs them")
    names = folder / "names.jar"
    with zipfile.ZipFile(names, "w") as jar:
        jar.writestr("META-INF/services/org.apache.spark.sql.sources.DataSourceRegister", FORMATS)
    return [*map(str, (Path(found.origin).parent / "jars").glob("*.jar")), str(names)]


class Lake:
    """A session with the tables of one format below `root`. Parquet's: the others override what they do otherwise."""

    changes = False
    """True if there are DELETE, UPDATE and MERGE."""
    using = "parquet"

    def __init__(self, root: Path, memory: str) -> None:
        self.root = root
        builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", memory).config("spark.ui.enabled", "false")
        builder = builder.config("spark.sql.shuffle.partitions", "4").config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.sql.warehouse.dir", str(root / "warehouse"))
        for key, value in self.all_settings().items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.start()

    def all_settings(self) -> dict[str, str]:
        """The settings of the session."""
        return {}

    def start(self) -> None:
        """What is to be done once, when the session is there."""

    def folder(self, table: str) -> Path:
        """Where the files of a table are."""
        return self.root / table

    def name(self, table: str) -> str:
        """A table's name in statements."""
        return f"{self.using}.`{self.folder(table)}`"

    def write(self, table: str, rows: DataFrame) -> None:
        """A new table of these rows, by the API of DataFrames."""
        rows.write.format(self.using).mode("append").save(str(self.folder(table)))

    def create(self, table: str, query: str) -> None:
        """A new table of the rows of a query, by one statement."""
        self.sql(f"CREATE TABLE {table} USING {self.using} LOCATION '{self.folder(table)}' AS {query}")

    def add_column(self, table: str, column: str, kind: str, value: str) -> None:
        """Give a table a column that is calculated from others."""
        self.sql(f"ALTER TABLE {self.name(table)} ADD COLUMNS ({column} {kind})")
        self.sql(f"UPDATE {self.name(table)} SET {column} = {value}")

    def compact(self, table: str) -> None:
        """Join all files, and leave deleted rows out."""
        raise NotImplementedError

    def cluster(self, table: str, columns: Iterable[str]) -> None:
        """Write all rows anew, so that filters on any of the columns read few of them."""
        raise NotImplementedError

    def first_version(self, table: str) -> str:
        """The words for the first version of a table after its name."""
        raise NotImplementedError

    def sql(self, statement: str) -> list[Row]:
        """Run a statement."""
        return self.spark.sql(statement).collect()

    def consume(self, query: str) -> None:
        """Let Spark produce every row and discard it. Delta Lake 4.0 refuses the sink for that."""
        frame: Any = self.spark.sql(query)
        frame._jdf.queryExecution().toRdd().count()

    def bytes_read(self, query: str) -> int | None:
        """How many bytes Spark's tasks have read for a query, as they report it; None if they do not."""
        before = self._input_bytes()
        self.consume(query)
        return self._input_bytes() - before

    def _input_bytes(self) -> int:
        gateway: Any = self.spark.sparkContext._gateway
        context: Any = self.spark.sparkContext._jsc
        context.sc().listenerBus().waitUntilEmpty()
        none = gateway.jvm.java.util.ArrayList()
        stages = context.sc().statusStore().stageList(none, False, False, gateway.new_array(gateway.jvm.double, 0), none)
        return sum(stages.apply(i).inputBytes() for i in range(stages.size()))


class Ours(Lake):
    """lance-spark, with its SQL catalog."""

    changes = True
    using = "lance"

    def start(self) -> None:
        lance_spark.enable(self.spark)
        lance_spark.catalog(self.spark, "c", root=str(self.root))

    def folder(self, table: str) -> Path:
        return self.root / f"{table}.lance"

    def name(self, table: str) -> str:
        return f"c.{table}"

    def create(self, table: str, query: str) -> None:
        self.sql(f"CREATE TABLE {self.name(table)} AS {query}")

    def add_column(self, table: str, column: str, kind: str, value: str) -> None:
        LanceTable.forPath(self.spark, str(self.folder(table))).addColumns({column: f"CAST({value} AS {kind})"})

    def compact(self, table: str) -> None:
        self.sql(f"CALL c.system.compact(table => '{table}', materialize_deletions_threshold => 0.0)")

    def cluster(self, table: str, columns: Iterable[str]) -> None:
        self.sql(f"OPTIMIZE {self.name(table)} ZORDER BY ({', '.join(columns)})")

    def first_version(self, table: str) -> str:
        return "VERSION AS OF 1"

    def bytes_read(self, query: str) -> int | None:
        """As the metrics of the scan say: Spark does not see what Python reads. Spark keeps them for its sink only."""
        self.spark.sql(query).write.format("noop").mode("overwrite").save()
        context: Any = self.spark.sparkContext._jsc
        context.sc().listenerBus().waitUntilEmpty()
        session: Any = self.spark._jsparkSession
        store = session.sharedState().statusStore()
        last = store.executionsList().last().executionId()
        found, metrics = 0, store.executionMetrics(last)
        nodes = store.planGraph(last).allNodes()
        for node in (nodes.apply(i) for i in range(nodes.size())):
            for metric in (node.metrics().apply(i) for i in range(node.metrics().size())):
                if metric.name() == "bytes read" and metrics.contains(metric.accumulatorId()):
                    found += _bytes(metrics.apply(metric.accumulatorId()))
        return found


def _bytes(shown: str) -> int:
    """A size as Spark shows it, such as "1.5 MiB" or "total (min, med, max)\\n1.5 MiB (..)"."""
    number, unit = re.findall(r"([\d.]+) (\w+)", shown.partition("\n")[2] or shown)[0]
    return int(float(number) * _UNITS[unit])


class Delta(Lake):
    """Delta Lake with deletion vectors."""

    changes = True
    using = "delta"

    def all_settings(self) -> dict[str, str]:
        both = jars(self.root)
        return {
            "spark.jars": ",".join(both),
            "spark.driver.extraClassPath": ":".join(both),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
            "spark.databricks.delta.snapshotPartitions": "2",
        }

    def create(self, table: str, query: str) -> None:
        self.sql(f"CREATE TABLE {self.name(table)} USING delta AS {query}")

    def compact(self, table: str) -> None:
        self.sql(f"OPTIMIZE {self.name(table)}")

    def cluster(self, table: str, columns: Iterable[str]) -> None:
        self.sql(f"OPTIMIZE {self.name(table)} ZORDER BY ({', '.join(columns)})")

    def first_version(self, table: str) -> str:
        return "VERSION AS OF 0"


class Iceberg(Lake):
    """Iceberg with changes that are merged when rows are read."""

    changes = True
    using = "iceberg"
    properties = "'format-version'='2', " + ", ".join(f"'write.{c}.mode'='merge-on-read'" for c in ("delete", "update", "merge"))

    def all_settings(self) -> dict[str, str]:
        both = jars(self.root)
        return {
            "spark.jars": ",".join(both),
            "spark.driver.extraClassPath": ":".join(both),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.c": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.c.type": "hadoop",
            "spark.sql.catalog.c.warehouse": str(self.root),
        }

    def start(self) -> None:
        self.sql("CREATE NAMESPACE IF NOT EXISTS c.ns")

    def folder(self, table: str) -> Path:
        return self.root / "ns" / table

    def name(self, table: str) -> str:
        return f"c.ns.{table}"

    def write(self, table: str, rows: DataFrame) -> None:
        rows.writeTo(self.name(table)).using("iceberg").create()

    def create(self, table: str, query: str) -> None:
        self.sql(f"CREATE TABLE {self.name(table)} USING iceberg TBLPROPERTIES ({self.properties}) AS {query}")

    def compact(self, table: str) -> None:
        self.sql(f"CALL c.system.rewrite_data_files(table => 'ns.{table}', options => map('rewrite-all', 'true'))")

    def cluster(self, table: str, columns: Iterable[str]) -> None:
        order = f"zorder({', '.join(columns)})"
        self.sql(
            f"CALL c.system.rewrite_data_files(table => 'ns.{table}', strategy => 'sort', sort_order => '{order}', "
            "options => map('rewrite-all', 'true'))"
        )

    def bytes_read(self, query: str) -> int | None:
        """Spark counts few of the bytes that Iceberg reads."""
        return None

    def first_version(self, table: str) -> str:
        first = self.sql(f"SELECT snapshot_id FROM {self.name(table)}.snapshots ORDER BY committed_at LIMIT 1")[0][0]
        return f"VERSION AS OF {first}"


LAKES: dict[str, type[Lake]] = {"ours": Ours, "delta": Delta, "iceberg": Iceberg, "parquet": Lake}
