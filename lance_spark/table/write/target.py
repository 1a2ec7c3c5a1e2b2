"""The target of a write: the table, the columns of its files, and the rules that its rows must pass."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from lance_spark.metadata.fragment import BasePath, DataFile
from lance_spark.schema.schema import Schema
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.bases import Folder
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.rules import Rules

Mode = Literal["create", "append", "overwrite"]


@dataclass(frozen=True)
class WriteTarget:
    """The target of a write, for executors and the commit.

    `schema` is that of the data files: the table's fields that the data has. `read_version` 0 means that there is no table yet;
    `read_identity` is the identity of that version (see `table.versions.identity`).
    `rules` are those that each row must pass. `table_schema` is the table's new schema if the write adds columns. `job` is in the name of
    every data file of this write, so that files of lost tasks can be found. `since` is when the write began, in seconds since 1970.
    `initial_bases` are base paths that the write registers. New data files take turns between the folders of `folders`.
    """

    store: Store
    schema: Schema
    data_format: str
    mode: Mode
    read_version: int
    options: WriteOptions
    rules: Rules
    table_schema: Schema | None = None
    job: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    since: float = field(default_factory=time.time)
    read_identity: str = ""
    initial_bases: tuple[BasePath, ...] = ()
    bases: tuple[Folder, ...] = ()

    @property
    def folders(self) -> tuple[Folder, ...]:
        """The folders for new data files, at least one."""
        return self.bases or (Folder(self.store),)

    def folder_of(self, file: DataFile) -> Folder:
        """The folder of one of this write's data files."""
        return next((folder for folder in self.folders if folder.base_id == file.base_id), Folder(self.store))

    def from_folder(self, number: int) -> WriteTarget:
        """This target for the task with a number: the first file of each task goes to another folder."""
        first = number % len(self.bases) if self.bases else 0
        return replace(self, bases=(*self.bases[first:], *self.bases[:first]))

    def based_on(self, snapshot: Snapshot) -> WriteTarget:
        """This target for a change of another version."""
        return replace(self, read_version=snapshot.version, read_identity=snapshot.identity)

    def noting(self, properties: Mapping[str, str]) -> WriteTarget:
        """This target, with more properties for its transaction."""
        noted = {**self.options.properties, **properties}
        return replace(self, options=replace(self.options, properties=noted))
