"""Tries of a commit, after other writers were first, and of a change, after they changed the same things."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from lance_spark.errors import CommitConflictError
from lance_spark.table.versions.snapshot import Snapshot, reopened

COMMIT_TRIES = 20
PATIENCE_S = 120.0
"""A commit that other writers overtake fails after both this number of tries, that of pylance, and this time."""
CHANGE_TRIES = 10
"""Number of versions for which a change is planned if other writers change the same rows, as in pylance."""
_MAX_SLOT_S, _MAX_PAUSE_S = 1.0, 2.0
"""A slow store must not make writers idle for long after the others have finished."""

T = TypeVar("T")


def attempts() -> Iterator[int]:
    """Number the tries of a commit that other writers overtake, from 0. Call `back_off` after each."""
    begun = time.monotonic()
    for attempt in itertools.count():  # pragma: no branch (it counts for ever)
        if attempt >= COMMIT_TRIES and time.monotonic() >= begun + PATIENCE_S:
            return
        yield attempt


def back_off(attempt: int, slot_s: float) -> None:
    """Pause after a try; `slot_s` is how long a try takes.

    This is an exponential backoff: writers wait for a random number of slots, so that those that have collided spread out.
    """
    slots = random.uniform(0, 2 ** min(attempt, 4))
    time.sleep(min(min(slot_s, _MAX_SLOT_S) * slots, _MAX_PAUSE_S))


def retried(snapshot: Snapshot, plan: Callable[[Snapshot], Callable[[], T]]) -> T:
    """Commit a change that is based on `snapshot`; after a conflict with another writer, plan it again for the latest version.

    `plan` prepares the change of a version and returns the function that commits it. A conflict that `plan` itself raises is final. Raises
    CommitConflictError if the change does not apply to the latest version, or after `CHANGE_TRIES` tries.
    """
    for _ in range(CHANGE_TRIES - 1):
        commit = plan(snapshot)
        try:
            return commit()
        except CommitConflictError as e:
            if not e.retryable:
                raise
        snapshot = reopened(snapshot)
    return plan(snapshot)()
