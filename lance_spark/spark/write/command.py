"""A row-level command of SQL, which RowLevelCommands.java passes as an option of the write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lance_spark.spark.options.read import ReadOptions

OPTION = "__lance_command"
AGAIN = "__lance_again"
"""The option of a request that may have been answered already: the process that got it ended. See PlanningSource.java."""
STATEMENT = "statement"
"""The transaction property with the id of the statement."""


@dataclass(frozen=True)
class Command:
    """A row-level command: DELETE, UPDATE, MERGE or TRUNCATE.

    `statement` is its id. `version` is the version that it has read, 0 if the table does not exist yet; `declared` is then its schema, as
    Spark's JSON. `condition` is SQL. With `repeats`, it may delete a row more than once. `assigned` are the columns with new values in
    updated rows. `identity` is that of the version (see `table.versions.identity`).
    """

    kind: str
    statement: str
    condition: str
    version: int = 0
    identity: str = ""
    declared: str = ""
    repeats: bool = False
    assigned: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Command | None:
        """The command among a write's options, if there is one."""
        text = options.get(OPTION)
        return None if text is None else cls(**json.loads(text))

    def place(self, options: ReadOptions) -> ReadOptions:
        """The options of a read of the version that the command has read."""
        # A truncation applies to the latest version, if that is of the same table.
        version = None if self.kind == "TRUNCATE" else self.version or None
        return replace(options, version=version, tag=None, timestamp=None)

    @property
    def truncated(self) -> str | None:
        """The version that a view has opened whose rows are all deleted, and its identity."""
        return f"{self.version} {self.identity}" if self.kind == "TRUNCATE" and self.version else None

    def write_options(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options of the write. The command knows its branch."""
        return {name: value for name, value in options.items() if name.lower() != "branch"}

    @property
    def properties(self) -> dict[str, str]:
        """What the command notes in its transaction."""
        return {STATEMENT: self.statement, "command": self.kind}
