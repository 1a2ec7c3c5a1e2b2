"""A place in the history of a table, up to which a stream has read it. Streams keep these offsets as JSON in their checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lance_spark.errors import InvalidOptionError

_SNAPSHOT, _START = "snapshot", "start"


@dataclass(frozen=True)
class Offset:
    """All commits before `version` are read, and `done` of the fragments that this commit has added.

    While the rows that were there at the start are read, they are those of the `snapshot`, the whole version: `done` of its fragments are
    read. `start` is where the stream began, as version and snapshot: Spark keeps it nowhere else. `identity` is that of `last`; "" if it is
    unknown.
    """

    version: int
    done: int
    snapshot: bool
    start: tuple[int, bool]
    identity: str = ""

    @property
    def place(self) -> tuple[int, bool]:
        """What is read next: the snapshot, or the commit."""
        return self.version, self.snapshot

    @property
    def last(self) -> int:
        """The last version of which a part is read."""
        return self.version if self.snapshot or self.done else self.version - 1

    def to_json(self) -> dict[str, Any]:
        """The offset as an object of JSON."""
        first = {"version": self.version, "fragments": self.done, _SNAPSHOT: self.snapshot}
        return {**first, _START: {"version": self.start[0], _SNAPSHOT: self.start[1]}, "identity": self.identity}

    @classmethod
    def from_json(cls, value: Any) -> Offset:
        """The offset of an object of JSON. Raises InvalidOptionError for one that no such stream has written."""
        try:
            start = int(value[_START]["version"]), bool(value[_START][_SNAPSHOT])
            return cls(int(value["version"]), int(value["fragments"]), bool(value[_SNAPSHOT]), start, str(value["identity"]))
        except (KeyError, TypeError, ValueError) as e:
            what = "is not the offset of a stream that reads a lance table; use a new checkpointLocation"
            raise InvalidOptionError(f"{value!r} in the checkpoint {what}") from e


def beginning(version: int, snapshot: bool = False, identity: str = "") -> Offset:
    """The offset of a stream that begins with a version: with its commit, or with the whole version as a snapshot."""
    return Offset(version, 0, snapshot, (version, snapshot), identity)
