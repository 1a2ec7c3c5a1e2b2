"""The table that a verb changes: where it is, and its rows as a DataFrame of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from lance_spark.errors import TableNotFoundError, UnsupportedFeatureError
from lance_spark.spark.options import STORAGE, storage_options
from lance_spark.storage.store import Store
from lance_spark.table.changes.delta import ROW_ADDRESS
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot

_PLACE = ("branch", "allow_other_stores")


@dataclass(frozen=True)
class Target:
    """A table, or a branch of it, in a session. `options` are those of reading that say where it is: `storage.*`, `branch` and so on."""

    spark: SparkSession
    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    alias: str | None = None

    def store(self) -> Store:
        """The root of the table."""
        return Store(self.uri, storage_options(self.options))

    def latest(self) -> Snapshot:
        """The latest version."""
        others = self.options.get("allow_other_stores", "false").lower() == "true"
        return open_snapshot(self.store(), branch=self.options.get("branch"), allow_other_stores=others)

    def rows(self, snapshot: Snapshot, *, addressed: bool = True) -> DataFrame:
        """The rows of a version under the alias, with the column `_rowaddr` if they are to be changed."""
        options = {**self.options, "version": str(snapshot.version)}
        if addressed:
            options["with_row_address"] = "true"
        df = self.spark.read.format("lance").options(**options).load(self.uri)
        return df.alias(self.alias) if self.alias else df

    @property
    def address(self) -> str:
        """The quoted name of the row address column in `rows`."""
        return f"`{self.alias}`.`{ROW_ADDRESS}`" if self.alias else ROW_ADDRESS

    def cores(self) -> int:
        """How many tasks run at once, as far as the session says."""
        return int(self.spark.conf.get("spark.sql.leafNodeDefaultParallelism", None) or self._default_parallelism())

    def _default_parallelism(self) -> int:
        # Spark Connect has no context on the client's side.
        context = getattr(self.spark, "_sc", None)
        return int(context.defaultParallelism) if context is not None else 8


def named_target(spark: SparkSession, name: str) -> Target:
    """A table of the session catalog. Raises TableNotFoundError for a name that the catalog does not have as a Lance table."""
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        raise UnsupportedFeatureError("a table's place in the catalog cannot be asked for over Spark Connect; use LanceTable.forPath")
    if not spark.catalog.tableExists(name):
        raise TableNotFoundError(f"there is no table {name} in the session catalog")
    state = session.sessionState()
    table = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(name))
    provider = table.provider().getOrElse(None)
    if provider is None or str(provider).lower() != "lance":
        raise TableNotFoundError(f"{name} is not a Lance table; the catalog has it with the provider {provider}")
    own = dict(spark.sparkContext._jvm.scala.jdk.javaapi.CollectionConverters.asJava(table.storage().properties()))  # type: ignore[union-attr]
    options = {key: value for key, value in own.items() if key.lower().startswith(STORAGE) or key.lower() in _PLACE}
    return Target(spark, own.get("path") or str(table.location().toString()), options)
