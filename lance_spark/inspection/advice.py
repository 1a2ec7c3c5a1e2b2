"""What to do about the storage of a version: which fragments to compact, which indexes to extend, which versions to clean up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lance_spark.display.words import counted, number, percent, size
from lance_spark.errors import LanceError
from lance_spark.inspection.listing import OTHER
from lance_spark.inspection.usage import Area, ColumnUse, IndexUse
from lance_spark.table.compaction.compaction import COMPACTION
from lance_spark.table.compaction.optimize import Proposal, proposal
from lance_spark.table.indexes.describe import complaints
from lance_spark.table.versions.snapshot import Snapshot

_PLANNED = 10_000
"""The most fragments for which a compaction is planned; of more, the small ones are counted."""
_SHARE = 0.3
"""The least share of old versions and unused files, and of columns that are not in use, that is worth a sentence."""


def advice(snapshot: Snapshot, areas: Sequence[Area], columns: Sequence[ColumnUse], indexes: Sequence[IndexUse]) -> tuple[str, ...]:
    """One sentence for each thing to do, with the command or call that does it."""
    return (*_compact(snapshot), *_extend(snapshot, indexes), *_train(snapshot), *_drop(columns), *_clean(areas))


def _compact(snapshot: Snapshot) -> Iterator[str]:
    rows = snapshot.manifest.lazy_fragments.live_rows
    if len(rows) > _PLANNED:
        found = Proposal(len(rows), int((rows < COMPACTION.target_rows_per_fragment).sum()), 0)
    else:
        try:
            found = proposal(snapshot)
        except LanceError:  # reported as a problem
            return
    if found.to_rewrite:
        yield (
            f"{number(found.to_rewrite)} of {counted(found.fragments, 'fragment')} are small or have many deleted rows: "
            "compact them (lance-spark compact, LanceTable.optimize)."
        )
    if found.left_out:
        yield (
            f"A compaction leaves out {counted(found.left_out, 'fragment')}, which an index covers that cannot follow moved rows: "
            "pass defer_index_remap=True, or drop the index and build it again."
        )


def _extend(snapshot: Snapshot, indexes: Iterable[IndexUse]) -> Iterator[str]:
    total = len(snapshot.manifest.fragments)
    for index in indexes:
        if index.columns and index.fragments is not None and index.fragments < total:
            yield (
                f"The index {index.name} does not cover {number(total - index.fragments)} of {counted(total, 'fragment')}, "
                "which are scanned: extend it (Dataset.optimize.optimize_indices, LanceTable.optimizeIndices)."
            )


def _train(snapshot: Snapshot) -> Iterator[str]:
    for name, complaint in complaints(snapshot).items():
        yield f"Train the index {name} again (optimize_indices with retrain): {complaint}."


def _drop(columns: Sequence[ColumnUse]) -> Iterator[str]:
    total, unused = sum(c.size for c in columns), sum(c.size for c in columns if not c.in_use)
    if total and unused >= _SHARE * total:
        yield f"{percent(unused, total)} of the bytes of columns are of columns that are not in use: rewrite the fragments to free them."


def _clean(areas: Sequence[Area]) -> Iterator[str]:
    total, old = sum(area.size for area in areas), sum(area.size for area in areas if area.name == OTHER)
    if total and old >= _SHARE * total:
        yield f"{size(old)} ({percent(old, total)}) are of other versions and unused files: remove what is old (lance-spark cleanup)."
