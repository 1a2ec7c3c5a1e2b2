"""The tags that keep a version of a branch in cleanups of every library while another branch needs it.

A merge holds the version that was merged, since the next merge compares with it: tags that begin with
`MERGED_TAG`, one for a pair of branches. They go with the branch. A branch whose files another one names is
held as the source of a clone is (see `table.versions.clones`): it cannot be deleted.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator, Mapping

from lance_spark.errors import logged, on_refusal
from lance_spark.table.branches.heads import name_of
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.clones import Held
from lance_spark.table.versions.ref_files import CLONE_TAG, CLONE_URI, MERGED_TAG, Tag, now
from lance_spark.table.versions.snapshot import Snapshot

_INTO = "lance_spark.merged_into"
"""The key of a tag's metadata with the name of the branch that the version was merged into."""
_MOST_OF_NAME = 60
"""Letters of the name of a branch in the name of a tag. The id makes the tag unique."""


@contextlib.contextmanager
def held_for_merges(merged: Snapshot, into: Snapshot) -> Iterator[None]:
    """Wrap a merge of the version `merged`. Its tag stays unless the merge is refused, and replaces those of merges before."""
    held = _held(merged, MERGED_TAG, {_INTO: name_of(into)})
    with on_refusal(held.remove):
        yield
    with logged(f"{merged.root.uri}: removing the tags of earlier merges"):
        for tag in refs.tags(merged.root).values():
            is_of_pair = tag.branch == merged.manifest.branch and tag.metadata.get(_INTO) == name_of(into)
            if is_of_pair and tag.version <= merged.version and tag.name != held.tag.name:
                Held(merged.root, tag).remove()


@contextlib.contextmanager
def held_for_files(source: Snapshot, user: Snapshot) -> Iterator[None]:
    """Wrap what makes the branch of `user` name files of the branch of `source`. The tag stays unless that is refused."""
    with on_refusal(_held(source, CLONE_TAG, {CLONE_URI: user.store.uri}).remove):
        yield


def _held(snapshot: Snapshot, kind: str, metadata: Mapping[str, str]) -> Held:
    """Hold a version by a new tag of this kind."""
    word = re.sub("[^A-Za-z0-9_-]+", "-", name_of(snapshot)).strip("-")[:_MOST_OF_NAME]
    size, made = snapshot.store.size(snapshot.path), now()
    name = f"{kind}{word}.{uuid.uuid4().hex[:12]}"
    held = Held(snapshot.root, Tag(name, snapshot.version, snapshot.manifest.branch, size, made, made, metadata))
    held.put()
    return held
