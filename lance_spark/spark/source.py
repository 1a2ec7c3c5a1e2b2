"""The data source "lance", which Spark creates from a path and options for reads and writes.

The version is pinned when Spark creates the source, the only hook that always runs. Readers and writers use this version.
`pushFilters` is deliberately not defined: Spark's filter push-down for Python sources confuses two uses of one DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from lance_spark.errors import (
    LanceError,
    SchemaMismatchError,
    TableNotFoundError,
    VersionNotFoundError,
    wrong_arguments_as_options,
)
from lance_spark.metadata.manifest import Manifest
from lance_spark.schema.schema import from_arrow
from lance_spark.spark.columns.types import of_json, promised, stored, to_spark
from lance_spark.spark.options.known import parse_options, table_properties
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.options.table_location import store_of
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import FORMAT, Base, Command, Headed, Instructions, Json, Source, of_user
from lance_spark.spark.read.column_lists import ColumnLists
from lance_spark.spark.read.kind import Read, checked_reader
from lance_spark.spark.read.kinds import Asked, read_of
from lance_spark.spark.read.opened import Opened, OpenedTable, open_version
from lance_spark.spark.read.reader import LanceReader
from lance_spark.spark.read.request import Request
from lance_spark.spark.workers.import_cache import brief_errors, start_planning
from lance_spark.table.commit.same_table import check_continues
from lance_spark.table.versions.snapshot import DROPPED, Snapshot

# Each function imports what only some reads and writes need: workers import this module often, and must start fast.


class LanceDataSource(Headed, DataSource):
    """Spark's view of a version of a Lance table or of a partitioned namespace, or of the location of a table to be written."""

    @brief_errors()
    def __init__(self, options: Mapping[str, str]) -> None:
        start_planning()
        self._given = given = Instructions.of(options)
        options, command = of_user(options), given.command
        identity = given.identity if command is None else command.identity
        self._hides_columns = False
        if given.call is not None:
            from lance_spark.spark.options.functions import chooses_version, has_chosen_columns, with_options

            identity = "" if chooses_version(given.call) else identity
            self._hides_columns = has_chosen_columns(options)
            options = with_options(options, given.call)
        super().__init__(options)
        self.about: str | None = None
        """The name of the table about the table that is read, if it is one."""
        self._options = parse_options(ReadOptions, options)
        self._request = Request()
        self._opened: Opened | None = None
        self._commits = False
        self._header: Source | None = None
        self._pinned: Callable[[ReadOptions, bool], Opened] | LanceError
        try:
            with wrong_arguments_as_options():
                read = self._options if command is None else _read_by(command, self._options)
                self._opened = open_version(read, identity)
            self._pinned = self._opened.pinned()
        except LanceError as e:
            # A write does not need an existing table; a read raises the error later.
            self._pinned = e

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    @brief_errors()
    def schema(self) -> StructType:
        """The schema of the columns that the options select."""
        return to_spark(self.read.columns())

    @brief_errors()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader. `schema` is the source's own, or a selection of its columns, or what ColumnLists makes of these."""
        try:
            self._options.feed.check_batch()
            columnar = self._request.columnar
            if columnar is None:
                return checked_reader(self.read, schema, self._request)
            reader = checked_reader(self.read, of_json(columnar), self._request)
            assert isinstance(reader, LanceReader)
            reader.return_lists(ColumnLists(promised(schema)))
            return reader
        except SchemaMismatchError as e:
            if self._options.columns is None:
                raise
            raise SchemaMismatchError(f"the option columns leaves out columns that are asked for: {e}") from e

    @property
    def read(self) -> Read:
        """What is read."""
        return self._read_of(self.opened())

    def _read_of(self, opened: Opened) -> Read:
        return read_of(Asked(opened, self._options, self.about, self._given.call, self._hides_columns))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the rows of the table, or with readChangeFeed of its changes, that follows its versions."""
        from lance_spark.spark.read.stream_reader import RefusedStream, stream_reader

        try:
            return stream_reader(self.opened(), self._options, schema)
        except LanceError as e:
            return RefusedStream(e)

    @brief_errors()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows with `schema`, based on the latest version at the time of planning."""
        command = self._given.command
        given = self.options if command is None else _without_branch(self.options)
        options = _configured(parse_options(SparkWriteOptions, given), given)
        options.check_batch()
        self._check_writable(options)
        based_on = self._given.based_on if command is None else command.truncated
        if based_on is not None:
            self._check_same_table(based_on)
        if command is None:
            self._check_not_lost()
        from lance_spark.spark.write.kinds import write_of
        from lance_spark.spark.write.writer import LanceWriter

        return LanceWriter(write_of(self._opened, schema, overwrite, options, self._given))

    @brief_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer of the batches of a stream; with `overwrite` (the output mode complete), each replaces the rows."""
        from lance_spark.spark.write.kinds import rows_of
        from lance_spark.spark.write.log_stream import LogStreamWriter, check_log_options, log_target
        from lance_spark.spark.write.stream import LanceStreamWriter, stream_options

        options = _configured(stream_options(self.options), self.options)
        check_log_options(options)
        if self._commits:
            return LogStreamWriter(None) if options.putIntoLog else LanceStreamWriter(None)
        self._check_writable(options)
        if self._opened is not None:
            self._opened.table_for("; write the stream with foreachBatch")
        self._check_not_lost()
        if options.putIntoLog:
            return LogStreamWriter(log_target(self.opened().table_for("; use foreachBatch"), overwrite, options))
        return LanceStreamWriter(rows_of(self._opened, schema, overwrite, options, self._given))

    def _check_writable(self, options: SparkWriteOptions) -> None:
        if isinstance(self._pinned, LanceError) and (options.branch or not isinstance(self._pinned, TableNotFoundError)):
            raise self._pinned

    def _check_same_table(self, base: Base) -> None:
        if self._opened is None:
            raise VersionNotFoundError(f"{store_of(self._options).uri}, version {base.version}, {DROPPED}; create the table again")
        check_continues(self._opened.numbered, base.version, base.identity)

    @property
    def declared(self) -> str:
        """The columns of a table that only Spark's catalog has, as Spark's JSON; "" for one that is there."""
        is_there = not isinstance(self._pinned, TableNotFoundError)
        return "" if is_there or self._options.chooses_version else self._given.declared

    def _check_not_lost(self) -> None:
        """Raise TableNotFoundError if Spark's catalog has a table whose files were deleted."""
        if self._given.lost and isinstance(self._pinned, TableNotFoundError):
            what = "DROP TABLE removes it from Spark's catalog, and CREATE OR REPLACE TABLE makes it again"
            raise TableNotFoundError(f"the files of the table at {store_of(self._options).uri} are missing: its folder was deleted. {what}")

    def opened(self) -> Opened:
        """The pinned version. Raises the error of opening it."""
        self._check_not_lost()
        if self.declared:
            return self._not_yet_there(of_json(self.declared))
        if isinstance(self._pinned, LanceError):
            raise self._pinned
        if self._opened is None:
            self._opened = self._pinned(self._options, self._options.searches)
        return self._opened

    def _not_yet_there(self, columns: StructType) -> Opened:
        """An empty table with these columns, before its first version."""
        return OpenedTable(Snapshot(store_of(self._options), Manifest(0, from_arrow(stored(columns, {}))), ""))

    def __getstate__(self) -> dict[str, Any]:
        # Spark pickles the source into every task, so the manifest must not be part of it.
        return {**self.__dict__, "_opened": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        start_planning()
        self.__dict__.update(state)
        # Of the processes that get a source, only the one that commits a batch asks for a writer: all others make it from the options.
        self._commits = True

    def header(self) -> Source:
        """What the JVM knows of this source."""
        if self._header is None:
            self._header = self._made_header()
        return self._header

    def _made_header(self) -> Source:
        opened = self._opened
        if opened is None:
            if not isinstance(self._pinned, TableNotFoundError):
                return Source(0, "", "", "")
            opened = self._not_yet_there(StructType())
        can = self._read_of(opened).abilities
        return Source(opened.shape.version, opened.identity, can.names, can.unjoined)

    def bound(self, request: Json) -> LanceDataSource:
        """This source, which a pickle has just made, for one scan that the planner asks for."""
        self._request = Request(**request)
        return self


def _read_by(command: Command, options: ReadOptions) -> ReadOptions:
    """The options of a read of the version that a command has read."""
    # A truncation applies to the latest version, if that is of the same table.
    version = None if command.kind == "TRUNCATE" else command.version or None
    return replace(options, version=version, tag=None, timestamp=None)


def _configured(options: SparkWriteOptions, given: Mapping[str, str]) -> SparkWriteOptions:
    """The options with the properties that an entry of Spark's own catalog declares for a new or replaced table."""
    return replace(options, write=replace(options.write, config=table_properties(given)))


def _without_branch(options: Mapping[str, str]) -> dict[str, str]:
    """The options of the write of a command, which knows its branch."""
    return {name: value for name, value in options.items() if name.lower() != "branch"}
