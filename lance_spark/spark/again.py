"""Requests that are asked again, because the process that was asked first ended.

What it has done before it ended is not done twice. The ids of the transactions of a request are
made of its own id, so that a version that it has made is found.
"""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.metadata.transaction_ids import replay
from lance_spark.storage.store import Store
from lance_spark.table.commit.asked_again import landed_before
from lance_spark.table.versions.snapshot import Snapshot, reopened


@dataclass(frozen=True)
class Asked:
    """The id of a request, of which its transactions have theirs, and whether it is asked again."""

    request: str
    is_again: bool = False

    def base(self, latest: Snapshot) -> Snapshot:
        """The version on which a change is based.

        If the request has changed the table, the change is made of the version before.

        It then ends with the versions that are there, because its transactions have their ids.
        """
        if not self.is_again:
            return latest
        found = landed_before(latest.store, self.request, latest.version)
        if not found:
            return latest
        replay(self.request, [each.uuid for each in found])
        return reopened(latest, found[0].version - 1)

    def has_made(self, store: Store, latest: int) -> bool:
        """Whether the request has committed a version of the table."""
        return self.is_again and bool(landed_before(store, self.request, latest))


NEVER = Asked("")
"""What is not a request of Spark."""
