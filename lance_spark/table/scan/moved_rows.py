"""Where rows are now whose compaction left the indexes as they were: the fragment reuse index tells.

Implements "Fragment Reuse Index" of the index specification. Each of its groups names fragments that were rewritten together, and the
rows of them that were kept.

A BTREE may lack such rows: when pylance's compaction moves them again, it writes the segment with the addresses before the first move,
but notes the last fragments. No record then leads from these addresses to the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyroaring import BitMap

from lance_spark._proto import table_pb2 as pb
from lance_spark.errors import CorruptFileError
from lance_spark.index.answer import Rows
from lance_spark.index.btree import DATA
from lance_spark.index.files import IndexFiles
from lance_spark.index.kinds import kind_of
from lance_spark.index.moves import Group, Moves, OldFragment
from lance_spark.index.row_sets import parse_treemap
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.table.build.reuse_history import ReuseHistory, reuse_history
from lance_spark.table.versions.snapshot import Snapshot

_WHAT = "the rows of a group of the fragment reuse index"


def moved_rows(rows: Rows, history: ReuseHistory) -> Rows:
    """The present addresses of rows that an index names; rows that were deleted before they moved are dropped."""
    for version in history:
        groups = [_group(g) for g in version.groups if any(f.id in rows for f in g.old_fragments)]
        if groups:
            rows = Moves(groups).rows(rows)
    return rows


def moved_fragments(fragments: Iterable[int], history: ReuseHistory) -> set[int]:
    """The fragments, and all to which rows of them may have moved."""
    found = set(fragments)
    for version in history:
        for group in version.groups:
            if any(f.id in found for f in group.old_fragments):
                found.update(f.id for f in group.new_fragments)
    return found


def may_lack(snapshot: Snapshot, index: IndexMetadata, files: IndexFiles, covered: BitMap) -> BitMap:
    """The fragments among `covered`, which the segment now covers, whose rows it may not name; `files` are the segment's.

    Files that lance-spark wrote, which have checksums, name all rows. Raises errors of reading if a file is looked at.
    """
    kind = kind_of(index.details_type, index.details)
    if kind is None or (kind.target or kind).name != "BTREE":
        return BitMap()
    if not kind.has_addresses(index.index_version, snapshot.manifest.has_stable_row_ids):
        return BitMap()
    doubtful = _moved_again(snapshot, index, covered)
    return BitMap() if doubtful and files.open(DATA).reader.has_checksums else doubtful


def _moved_again(snapshot: Snapshot, index: IndexMetadata, covered: BitMap) -> BitMap:
    """The fragments among `covered` to which rows may have moved from a fragment that the fragment reuse index moved rows to.

    These are newer than a fragment of the reuse index that is gone without a record of where its rows are.
    """
    to, without_record = BitMap(), BitMap()
    for version in reuse_history(snapshot.manifest.indexes) or ():
        if version.dataset_version >= index.dataset_version:  # earlier moves were known when the segment was built
            for group in version.groups:
                new = BitMap(f.id for f in group.new_fragments)
                without_record = (without_record - BitMap(f.id for f in group.old_fragments)) | new
                to |= new
    gone = without_record and without_record - BitMap(snapshot.manifest.lazy_fragments.ids.tolist())
    return BitMap(f for f in covered - to if f > gone.min()) if gone else BitMap()


def reuse_moves(indexes: Sequence[IndexMetadata]) -> Sequence[Moves]:
    """The moves of rows that the fragment reuse index records, oldest first."""
    return [Moves([_group(group) for group in version.groups]) for version in reuse_history(tuple(indexes)) or ()]


def reused_fragments(indexes: Sequence[IndexMetadata]) -> dict[int, int]:
    """The number of rows of each fragment that the fragment reuse index says was rewritten."""
    groups = [group for version in reuse_history(tuple(indexes)) or () for group in version.groups]
    return {f.id: f.physical_rows for group in groups for f in group.old_fragments}


def _group(group: pb.FragmentReuseIndexDetails.Group) -> Group:
    kept = parse_treemap(group.changed_row_addrs, _WHAT)
    old = tuple(OldFragment(f.id, f.physical_rows, kept.get(f.id, BitMap())) for f in group.old_fragments)
    new = tuple((f.id, f.physical_rows) for f in group.new_fragments)
    before, after = sum(f.kept_rows for f in old), sum(rows for _, rows in new)
    if before != after:
        raise CorruptFileError(f"{_WHAT}: {before} rows were kept, but the new fragments have {after} rows")
    return Group(old, new)
