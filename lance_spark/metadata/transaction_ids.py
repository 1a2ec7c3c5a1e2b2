"""The ids of transactions.

A request of Spark whose process ended before it answered is asked again. The ids of its transactions are then the same, so that what
has been committed is found and not committed twice (see `table.commit.conflicts_since_read`).
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_ids: ContextVar[Iterator[str] | None] = ContextVar("_ids", default=None)


def new_id() -> str:
    """The id of a new transaction: a random one, or the next one of the request that is answered."""
    ids = _ids.get()
    return str(uuid.uuid4()) if ids is None else next(ids)


def id_of(request: str, number: int) -> str:
    """The id of a transaction of a request, by its number from 0."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{request} {number}"))


@contextmanager
def ids_of(request: str) -> Iterator[None]:
    """Give the transactions that are made within the ids of the request."""
    token = _ids.set(_from(request, ()))
    try:
        yield
    finally:
        _ids.reset(token)


def replay(request: str, committed: Sequence[str]) -> None:
    """Within `ids_of` the request: give the next transactions the ids of those that it has committed, and others after them."""
    _ids.set(_from(request, committed))


def _from(request: str, first: Sequence[str]) -> Iterator[str]:
    yield from first
    for number in itertools.count():
        id = id_of(request, number)
        if id not in first:
            yield id
