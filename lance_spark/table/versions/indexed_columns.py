"""Whether an index is still of the column that it was built from.

Another writer may give the id of a dropped column to a new one, and commit an index that it began before. Such an index has the values of
the dropped column.
"""

from __future__ import annotations

from pyroaring import BitMap

from lance_spark.metadata.fragment import Fragment, IndexMetadata
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES, fragments_of
from lance_spark.table.versions.snapshot import Snapshot


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
            return f"index {index.name!r} was built from another column, which had the field id {i}{advice}"
        both = _common(snapshot, built_from, index)
        if both is not None:
            # A field id is free again only when no data file has it, so a new column is in other files.
            if _files(both[0], i) != _files(both[1], i):
                return f"index {index.name!r} was built from other data files of fragment {both[0].id} than the column has now{advice}"
        elif then[i].name != now[i].name:
            return f"index {index.name!r} was built from the column {then[i].name!r}, which may be another one than {now[i].name!r}{advice}"
    return None


def _common(snapshot: Snapshot, built_from: Snapshot, index: IndexMetadata) -> tuple[Fragment, Fragment] | None:
    """A fragment that the index covers and that both versions have, before and now; None if there is none."""
    covered = fragments_of(index) or BitMap()
    for s in (built_from, snapshot):
        covered &= BitMap(s.manifest.lazy_fragments.ids.tolist())
    if not covered:
        return None
    first = covered[0]
    before, now = (s.manifest.lazy_fragments.of_ids([first])[first] for s in (built_from, snapshot))
    return before, now


def _files(fragment: Fragment, field: int) -> set[tuple[str, int | None]]:
    return {(file.path, file.base_id) for file in fragment.files if field in file.fields}
