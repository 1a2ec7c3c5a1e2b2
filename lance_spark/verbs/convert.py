"""CONVERT: a new table with the rows of files or of a table of another format."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from lance_spark.errors import InvalidOptionError, TableAlreadyExistsError
from lance_spark.metadata.numbered_writes import APP_ID, APP_VERSION
from lance_spark.spark.jvm.reason import reason
from lance_spark.storage.location import absolute
from lance_spark.table.changes import alter
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.compaction.clustered import Clustered
from lance_spark.table.maintenance.progress import tracker
from lance_spark.verbs.create import Creation, create
from lance_spark.verbs.target import Target

_PATH = re.compile(r"\s*(\w+)\s*\.\s*`((?:[^`]|``)+)`\s*")
_FILES = ("parquet", "orc", "avro", "csv", "json", "text")
"""Formats of which single files can be read."""
_COMMITS = 50
"""The files of a source are converted in at most so many commits, each of which is not done again."""
_UNFINISHED = "lance_spark.converting"
"""The key of a table's config that says which source is being converted; it is removed at the end."""
_FOREIGN = (
    *("delta.", "spark.", "transient", "option.", "write.", "format", "provider", "location", "owner", "current-", "identifier-"),
    "serialization.",
)
"""Beginnings of properties that are of the other format."""


@dataclass(frozen=True)
class _Source:
    """What is converted: its rows as a DataFrame, its properties, and the columns that it is partitioned by."""

    name: str
    rows: DataFrame
    properties: Mapping[str, str]
    partitioned_by: tuple[str, ...]
    format: str
    path: str

    @property
    def files(self) -> list[str]:
        """Its files in order, if single ones can be read; otherwise there are none."""
        return sorted(self.rows.inputFiles()) if self.format in _FILES else []

    def of(self, files: Sequence[str]) -> DataFrame:
        """The rows of some of the files; of all rows without files."""
        if not files:
            return self.rows
        reader = self.rows.sparkSession.read.format(self.format).schema(self.rows.schema).option("basePath", self.path)
        return reader.load([unquote(file) for file in files])


def convert(spark: SparkSession, source: str, path: str, options: Mapping[str, str], progress: bool | None) -> Target:
    """Make the table. Raises TableAlreadyExistsError for another table at the path, and InvalidOptionError for an unknown source."""
    found = _source(spark, source)
    files = found.files
    named = "\n".join([absolute(found.path) or found.name, *files])
    digest = hashlib.sha256(named.encode()).hexdigest()[:32]
    target = _begun(spark, found, path, options, digest)
    size = -(-len(files) // _COMMITS) or 1
    groups = [files[start : start + size] for start in range(0, len(files), size)] or [[]]
    for number, group in tracker(progress)(_missing(target, groups, digest), "files", len(groups)):
        writer = found.of(group).write.format("lance").mode("append").options(**target.options)
        writer.options(txnAppId=_app(digest), txnVersion=str(number), commit_message=f"convert {found.name}").save(absolute(path))
    alter.update_config(target.latest(), {_UNFINISHED: None})
    return target


def _source(spark: SparkSession, source: str) -> _Source:
    match = _PATH.fullmatch(source)
    try:
        if match is None:
            return _Source(source, spark.table(source), *_described(spark, source), "", "")
        kind, path = match[1].lower(), match[2].replace("``", "`")
        rows = spark.read.format(kind).load(path)
        partitions = dict.fromkeys(name for file in rows.inputFiles()[:1] for name in re.findall(r"/([^/=]+)=[^/]*(?=/)", unquote(file)))
        return _Source(source, rows, {}, tuple(name for name in partitions if name in rows.columns), kind, path)
    except (PySparkException, Py4JError) as e:  # for an unknown format, Spark's own error is one of the JVM
        expected = "expected the name of a table, or a format and a path that Spark can read, such as parquet.`/data/t`"
        raise InvalidOptionError(f"cannot convert {source!r}: {expected}: {reason(e)}") from e


def _described(spark: SparkSession, name: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The properties and the partition columns of a table with a name; a view has none."""
    try:
        properties = {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    except AnalysisException:
        return {}, ()
    own = {key: value for key, value in properties.items() if not key.startswith(_FOREIGN)}
    rows = [row[0] for row in spark.sql(f"DESCRIBE TABLE {name}").collect()]
    columns = spark.table(name).columns
    after = rows[rows.index("# Partition Information") :] if "# Partition Information" in rows else []
    if "# Partitioning" in rows:
        after += [row.split()[-1] for row in rows[rows.index("# Partitioning") :] if row.startswith("Part ")]
    return own, tuple(name for name in after if name in columns)


def _begun(spark: SparkSession, source: _Source, path: str, options: Mapping[str, str], digest: str) -> Target:
    """The table without rows, or with those of a conversion that has not ended."""
    config = {**source.properties, _UNFINISHED: digest}
    config |= Clustered(source.partitioned_by).config if source.partitioned_by else {}
    creation = Creation(spark, "create", path, None, source.rows.schema, options, config)
    try:
        return create(creation)
    except TableAlreadyExistsError:
        target = create(replace(creation, kind="create if not exists"))
        if target.latest().manifest.config.get(_UNFINISHED) != digest:
            raise
        return target


def _missing(target: Target, groups: Sequence[Sequence[str]], digest: str) -> Iterator[tuple[int, Sequence[str]]]:
    """The groups of files that are not converted yet, with their numbers from 1."""
    for number, group in enumerate(groups, 1):
        properties = {APP_ID: _app(digest), APP_VERSION: str(number)}
        if done_before(target.latest().store, properties) is None:
            yield number, group


def _app(digest: str) -> str:
    return f"convert-{digest}"
