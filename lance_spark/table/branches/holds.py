"""The tags that keep a version of a branch in cleanups of every library while another branch needs it.

A merge holds the version that was merged, since the next merge compares with it: tags that begin with
`MERGED_TAG`, one for a pair of branches. They go with the branch. A branch whose files another one names is
held as the source of a clone is (see `table.versions.clones`): it cannot be deleted.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

from lance_spark.errors import VersionNotFoundError, logged
from lance_spark.table.branches.heads import name_of
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.ref_files import CLONE_TAG, CLONE_URI, MERGED_TAG, Tag
from lance_spark.table.versions.snapshot import Snapshot

_MOST_OF_NAME = 60
"""Letters of the name of a branch in the name of a tag."""


@contextlib.contextmanager
def held_for_merges(merged: Snapshot, into: Snapshot) -> Iterator[None]:
    """Wrap a merge of the version `merged`: its tag stays if the merge is done, and replaces that of the merge before."""
    pair = f"{MERGED_TAG}{_word(name_of(merged))}.{_word(name_of(into))}."
    tag = _put(merged, f"{pair}{merged.version}", {})
    try:
        yield
    except BaseException:
        _delete(merged, tag)
        raise
    with logged(f"{merged.root.uri}: removing the tags of earlier merges"):
        for name in [name for name in refs.tags(merged.root) if name.startswith(pair) and name != tag]:
            _delete(merged, name)


@contextlib.contextmanager
def held_for_files(source: Snapshot, user: Snapshot) -> Iterator[None]:
    """Wrap what makes the branch of `user` name files of the branch of `source`."""
    name = f"{CLONE_TAG}{_word(name_of(source))}.{uuid.uuid4().hex[:12]}"
    tag = _put(source, name, {CLONE_URI: user.store.uri})
    try:
        yield
    except BaseException:
        _delete(source, tag)
        raise


def _word(branch: str) -> str:
    """The name of a branch as a part of the name of a tag."""
    return re.sub("[^A-Za-z0-9_-]+", "-", branch).strip("-")[:_MOST_OF_NAME]


def _put(snapshot: Snapshot, name: str, metadata: dict[str, str]) -> str:
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    size = snapshot.store.size(snapshot.path)
    tag = Tag(name, snapshot.version, snapshot.manifest.branch, size, now, now, metadata)
    refs.put_tag(snapshot.root, tag, new=False)
    return name


def _delete(snapshot: Snapshot, name: str) -> None:
    with logged(f"{snapshot.root.uri}: removing the tag {name}"), contextlib.suppress(VersionNotFoundError):
        refs.delete_tag(snapshot.root, name)
