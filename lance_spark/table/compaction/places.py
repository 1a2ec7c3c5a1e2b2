"""Where a compaction writes: rows stay at the base path at which they are, or move to others if that is asked.

pylance has no such choice: its compaction moves all that it rewrites into the table's own folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lance_spark.errors import CorruptFileError, StorageError, UnsupportedFeatureError
from lance_spark.metadata.fragment import Fragment
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.bases import Folder, Targets, folders_of
from lance_spark.table.write.target import WriteTarget


@dataclass(frozen=True)
class Places:
    """The folders for what is rewritten of one version, by the ids of their base paths (None: the table's own folder).

    With `moves`, all rows go to these folders. Otherwise they stay at their base path if it is one of these, and go to the
    table's own folder if not: a clone does not write into the table that it was made of.
    """

    folders: Mapping[int | None, Folder]
    moves: bool = False

    @classmethod
    def of(cls, snapshot: Snapshot, targets: Targets) -> Places:
        """The places of a version; with `targets` rows move there."""
        locations = snapshot.locations
        if targets:
            return cls({folder.base_id: folder for folder in targets.folders(locations, snapshot.root)}, moves=True)
        kept = list(folders_of([None], locations, snapshot.root))
        for base in locations.base_paths:
            # Nothing is written where it cannot be told, and whoever reads files there says why.
            with contextlib.suppress(UnsupportedFeatureError, CorruptFileError, StorageError):
                kept += folders_of([] if locations.is_table(base) else [base.id], locations, snapshot.root)
        return cls({folder.base_id: folder for folder in kept})

    def base_of(self, fragment: Fragment) -> int | None:
        """The base path at which the rows of a fragment stay. Columns that were added later may be elsewhere."""
        base_id = fragment.files[0].base_id
        return base_id if base_id in self.folders and not self.moves else None

    def must_move(self, fragment: Fragment) -> bool:
        """True if a file of a fragment is in none of the folders that rows move to."""
        return self.moves and any(file.base_id not in self.folders for file in fragment.files)

    def for_fragments(self, target: WriteTarget, fragments: Iterable[Fragment]) -> WriteTarget:
        """The target for the rows of some fragments."""
        if self.moves:
            return self.anywhere(target)
        bases = dict.fromkeys(map(self.base_of, fragments))
        return replace(target, bases=tuple(self.folders[base_id] for base_id in bases))

    def anywhere(self, target: WriteTarget) -> WriteTarget:
        """The target for files in any of the folders."""
        return replace(target, bases=tuple(self.folders.values()))
