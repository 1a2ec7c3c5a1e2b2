"""A request to the catalog that is asked again, because the process that was asked first ended before it answered."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.metadata.transaction_ids import replay
from lance_spark.storage.store import Store
from lance_spark.table.commit.asked_again import landed_before
from lance_spark.table.versions.snapshot import Snapshot, reopened


@dataclass(frozen=True)
class Asked:
    """The id of a request, of which the ids of its transactions are made, and whether it was asked before."""

    request: str
    is_again: bool = False

    def base(self, latest: Snapshot) -> Snapshot:
        """The version on which a change is based. If the request has changed the table, the change is made of the version before.

        It then ends with the versions that are there, because its transactions have their ids.
        """
        if not self.is_again or not (found := landed_before(latest.store, self.request, latest.version)):
            return latest
        replay(self.request, [each.uuid for each in found])
        return reopened(latest, found[0].version - 1)

    def has_made(self, store: Store, latest: int) -> bool:
        """Whether the request has committed a version of the table."""
        return self.is_again and bool(landed_before(store, self.request, latest))


NEVER = Asked("")
"""What is not a request of Spark."""
