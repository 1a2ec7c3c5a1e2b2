"""What a request has committed whose process ended before it answered (see `metadata.transaction_ids`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lance_spark.metadata.transaction_ids import id_of
from lance_spark.storage.store import Store
from lance_spark.table.versions.history import find_transaction

_NUMBERS = 64
"""More transactions than a request makes."""
_VERSIONS = 100
"""More versions than are committed from the begin of a request until it is asked again."""


@dataclass(frozen=True)
class Landed:
    """A version that a request has made, and the id of its transaction."""

    version: int
    uuid: str


def landed(store: Store, request: str, versions: Iterable[int]) -> list[Landed]:
    """The versions, among these, that the request has made, in their order."""
    ids = {id_of(request, number) for number in range(_NUMBERS)}
    found = ((version, find_transaction(store, version)) for version in versions)
    return [Landed(version, theirs.uuid) for version, theirs in found if theirs is not None and theirs.uuid in ids]


def landed_before(store: Store, request: str, latest: int) -> list[Landed]:
    """The versions, among the last ones up to `latest`, that the request has made, in their order."""
    return landed(store, request, range(max(1, latest - _VERSIONS + 1), latest + 1))
