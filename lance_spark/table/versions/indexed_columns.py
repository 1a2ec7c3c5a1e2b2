"""Whether an index is still of the column that it was built from.

Another writer may give the id of a dropped column to a new one, and commit an index that it began before. Such an index has the values of
the dropped column.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache

from pyroaring import BitMap

from lance_spark.metadata.fragment import Fragment, IndexMetadata
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES, fragments_of
from lance_spark.table.versions.snapshot import Snapshot, list_versions, reopened


def missing_column(snapshot: Snapshot, index: IndexMetadata) -> str | None:
    """What is wrong and what to do if the index is of a column that the table does not have; None if nothing is."""
    fields = {f.id for f in snapshot.manifest.schema.walk()}
    if index.name in SYSTEM_INDEXES or fields.issuperset(index.fields):
        return None
    what = f"index {index.name!r} is of field {', '.join(map(str, index.fields))}, which the table does not have"
    return f"{what}: the column was dropped or got another type meanwhile; drop the index"


def other_column(snapshot: Snapshot, index: IndexMetadata, built_from: Snapshot | None) -> str | None:
    """What is wrong and what to do if the index may be of an earlier column with the same field id; None if it is not.

    `built_from` is the version `index.dataset_version`; None if it does not exist any more, so that nothing is known.
    """
    if built_from is None or built_from.version >= snapshot.version:
        return None
    advice = "; drop the index and create it again"
    then, now = ({f.id: f for f in s.manifest.schema.walk()} for s in (built_from, snapshot))
    for i in index.fields:
        if i not in then or i not in now or then[i].logical_type != now[i].logical_type:
            return f"it was built from another column, which had the field id {i}{advice}"
        both = _common(built_from, snapshot, fragments_of(index) or BitMap())
        if both is not None:
            # A field id is free again only when no data file has it, so a new column is in other files.
            if _files(both[0], i) != _files(both[1], i):
                return f"it was built from other data files of fragment {both[0].id} than the column has now{advice}"
        elif not _was_renamed(built_from, snapshot, i):
            return f"it was built from the column {then[i].name!r}, which may be another one than {now[i].name!r}{advice}"
    return None


def _was_renamed(then: Snapshot, now: Snapshot, field: int) -> bool:
    """Whether only renames gave the field of the version `then` the name that it has in `now`.

    A rename is a version with another name than the version before, and with a data file of the field that the version before has, too.
    """
    later = [v for v in sorted(list_versions(now.store)) if then.version < v < now.version]
    opened = cache(lambda version: reopened(now, version))
    while (name := _name(then, field)) != _name(now, field):
        at = bisect_left(later, True, key=lambda version: _name(opened(version), field) != name)
        before = opened(later[at - 1]) if at else then
        then = opened(later[at]) if at < len(later) else now
        both = _common(before, then, BitMap(before.manifest.lazy_fragments.ids.tolist()))
        if _name(then, field) is None or both is None or _files(both[0], field) != _files(both[1], field):
            return False
        later = later[at + 1 :]
    return True


def _name(snapshot: Snapshot, field: int) -> str | None:
    return next((f.name for f in snapshot.manifest.schema.walk() if f.id == field), None)


def _common(before: Snapshot, after: Snapshot, fragments: BitMap) -> tuple[Fragment, Fragment] | None:
    """One of the fragments, if both versions have it, before and after; None if they have none."""
    for s in (before, after):
        fragments = fragments & BitMap(s.manifest.lazy_fragments.ids.tolist())
    if not fragments:
        return None
    first = fragments[0]
    one, other = (s.manifest.lazy_fragments.of_ids([first])[first] for s in (before, after))
    return one, other


def _files(fragment: Fragment, field: int) -> set[tuple[str, int | None]]:
    return {(file.path, file.base_id) for file in fragment.files if field in file.fields}
