"""The options of writes through Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_spark.errors import InvalidOptionError
from lance_spark.options.field import made, option, options_of, used
from lance_spark.spark.options.given import Given
from lance_spark.spark.options.place import Place
from lance_spark.spark.options.read import BRANCH, ReadOptions
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions


@dataclass(frozen=True)
class SparkWriteOptions(Place):
    """The options of a write through Spark: those of the write itself, and where and when it applies.

    None: not given. `sizes` are the sizes of fixed-size lists by lower-cased column path. `given`
    are the names of all options that are given.
    """

    branch: str | None = option(None, "text", BRANCH)
    replaceWhere: str | None = option(
        None,
        "text",
        "With mode overwrite: replace only the rows that satisfy this condition. New rows must satisfy it, too. The columns stay the same.",
    )
    partitionOverwriteMode: str | None = option(
        None,
        "word",
        "With mode overwrite of a partitioned namespace: `dynamic` replaces only the partitions that contain new rows.",
        words=("static", "dynamic"),
    )
    checkpointLocation: str | None = option(
        None,
        "text",
        "With `writeStream`: the folder in which Spark notes the progress of the query.",
        use=("stream",),
    )
    queryName: str | None = option(None, "text", "With `writeStream`: the name of the query.", use=("stream",))
    putIntoLog: bool = option(
        False,
        "flag",
        "With `writeStream`: put the rows into the table's [write-ahead log](mem-wal.md) instead of committing each batch.",
        use=("stream",),
    )
    logShard: str | None = option(
        None,
        "text",
        "With `putIntoLog`: the shard, a UUID, if the table's log has no sharding.",
        use=("stream",),
    )
    logDeleted: str | None = option(
        None,
        "text",
        "With `putIntoLog`: a column of booleans that is not in the table. Where it is true, the row with this primary key is deleted.",
        use=("stream",),
    )
    logMergeEvery: int | None = option(
        None,
        "count",
        "With `putIntoLog`: merge the log into the table when so many of its generations are not merged yet.",
        least=1,
        use=("stream",),
    )
    write_mode: str | None = option(
        None,
        "word",
        "`create`, with Spark's mode append: raise an error if the table exists.",
        words=("create",),
    )
    write: WriteOptions = NO_OPTIONS
    sizes: Mapping[str, int] = field(default_factory=dict, hash=False)
    given: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def storage(self) -> Mapping[str, str]:
        """The storage options, without their prefix."""
        return self.write.storage_options

    def check_batch(self) -> None:
        """Raise InvalidOptionError for options that Spark gives to streams only."""
        for name in used(SparkWriteOptions, "stream"):
            if name in self.given:
                raise InvalidOptionError(f"the option {name!r} applies only to writeStream")

    @classmethod
    def of(cls, options: Given) -> SparkWriteOptions:
        """Those among the options that are given.

        Raises InvalidOptionError for options that select what to read.
        """
        fields = (*options_of(cls).values(), *options_of(WriteOptions).values())
        known = {*(o.name for o in fields), *used(ReadOptions, "how")}
        for name in options.values:
            if name not in known:
                raise InvalidOptionError(f"the option {name!r} applies only to reads; a write uses the latest version and all columns")
        write = made(
            WriteOptions,
            options.values,
            storage_options=options.storage,
            column_options=options.columns,
            allow_other_stores=options.values.get("allow_other_stores", False),
        )
        return made(
            cls,
            options.values,
            namespace_properties=options.namespace,
            write=write,
            sizes=options.sizes,
            given=frozenset(options.values),
        )


OF_EACH_WRITE = used(WriteOptions, "later writes")
"""Options of new tables that apply to their later writes, too."""
