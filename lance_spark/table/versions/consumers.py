"""The places of streams that read a table: tags, so that cleanups keep the versions that a stream still needs.

A tag makes no version, so that recording a place is no work for streams, and pylance's cleanup does not remove a tagged version either.
Its name is `CONSUMER_TAG` and the id of the consumer; its metadata says when it expires.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lance_spark.errors import VersionNotFoundError
from lance_spark.storage.store import Store
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot

CONSUMER_TAG = "lance_spark.consumer."
EXPIRES = "lance_spark.expires"
"""The key of the metadata with the time, in ISO 8601, after which cleanups no longer respect the place."""


@dataclass(frozen=True)
class Consumer:
    """A stream that reads the table. It needs `version` of `branch` (None: the main one) and later ones, until `expires_at`.

    `lag` is the number of versions after that one. Without `expires_at`, the place does not expire.
    """

    id: str
    version: int
    branch: str | None
    lag: int
    updated_at: datetime | None
    expires_at: datetime | None


@dataclass(frozen=True)
class Consumers:
    """The streams that have recorded their place with a table, by the option `consumerId`."""

    snapshot: Snapshot

    def __repr__(self) -> str:
        return f"Consumers({self.snapshot.root.uri!r})"

    def list(self) -> list[Consumer]:
        """List the places of streams, with their lag in versions, by id; also those that have expired."""
        tags, latest = consumer_tags(self.snapshot.root), dict[str | None, int]()
        for branch in {tag.branch for tag in tags.values()}:
            allow = self.snapshot.allow_other_stores
            latest[branch] = open_snapshot(self.snapshot.root, branch=branch, allow_other_stores=allow).version
        found = []
        for id, tag in sorted(tags.items()):
            lag, updated = latest[tag.branch] - tag.version, _time(tag.updated_at)
            found.append(Consumer(id, tag.version, tag.branch, lag, updated, expires_at(tag)))
        return found

    def drop(self, id: str) -> None:
        """Forget the place of a consumer: cleanups may remove what it needs. Raises VersionNotFoundError if there is none."""
        if id not in (known := consumer_tags(self.snapshot.root)):
            raise VersionNotFoundError(f"{self.snapshot.root.uri} has no consumer {id!r}; consumers: {', '.join(sorted(known)) or 'none'}")
        refs.delete_tag(self.snapshot.root, CONSUMER_TAG + id)


def consumer_tags(root: Store) -> dict[str, refs.Tag]:
    """The tags of consumers, by id."""
    return {name.removeprefix(CONSUMER_TAG): tag for name, tag in refs.tags(root).items() if is_consumer(name)}


def is_consumer(tag: str) -> bool:
    """True if this is the name of a tag that records the place of a consumer."""
    return tag.startswith(CONSUMER_TAG)


def expires_at(tag: refs.Tag) -> datetime | None:
    """When the place of a consumer expires; None if it does not."""
    return _time(tag.metadata.get(EXPIRES))


def has_expired(tag: refs.Tag, now: datetime) -> bool:
    """True if cleanups need not respect this place any more."""
    expires = expires_at(tag)
    return expires is not None and expires < now


def put_place(snapshot: Snapshot, id: str, expiration: timedelta) -> None:
    """Record that a consumer needs the version of the snapshot and later ones.

    In contrast to other tags, it is not checked that the version is whole: it is kept by the place that is replaced, and a stream finds out
    by itself if versions are gone.
    """
    now = datetime.now(UTC)
    metadata: Mapping[str, str] = {EXPIRES: (now + expiration).isoformat()}
    created, text = None, now.isoformat(timespec="microseconds").replace("+00:00", "Z")
    with contextlib.suppress(VersionNotFoundError):
        created = refs.tag(snapshot.root, CONSUMER_TAG + id).created_at
    size, branch = snapshot.store.size(snapshot.path), snapshot.manifest.branch
    tag = refs.Tag(CONSUMER_TAG + id, snapshot.version, branch, size, created or text, text, metadata)
    refs.put_tag(snapshot.root, tag, new=False)


def _time(text: str | None) -> datetime | None:
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
