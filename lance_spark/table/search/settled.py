"""How an index is searched for a recall: by what was measured when its segments were built or optimized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from lance_spark.index.vector.measured import LEVELS, USUAL_RECALL, Measured, Setting, measured_in
from lance_spark.index.vector.probes import AUTO
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.search.segments import SearchedSegment

_FEW = 0.1
"""If a filter leaves fewer rows than this share, they are compared with the query: that takes as long as many partitions."""


@dataclass(frozen=True)
class Settled:
    """What is searched for, with the settings that were chosen for its `target`, and the `recall` that was measured with these.

    Without a `target`, nothing was chosen. `in_reach`: the index finds so much; if not, it is not searched.
    """

    nearest: Nearest
    target: float | None = None
    recall: float | None = None
    in_reach: bool = True

    def in_words(self) -> str | None:
        """What was chosen; None if nothing was."""
        if self.target is None:
            return None
        if not self.in_reach:
            return f"recall: {self.target:g} is out of reach of the index, which is not searched"
        nearest = self.nearest
        chosen = [f"minimum_nprobes {nearest.minimum_nprobes}"]
        chosen += [f"ef {nearest.ef}"] if nearest.ef else []
        chosen += [f"refine_factor {nearest.refine_factor}"] if nearest.refine_factor else []
        return f"recall: {', '.join(chosen)} for {self.target:g}, {self.recall:.3f} is expected, as it was measured"


def settled(segments: Sequence[SearchedSegment], nearest: Nearest, share: float = 1.0) -> Settled:
    """How these segments are searched. `share` of the rows may be found: the nearest of few are among more of all rows.

    A search that says how it searches is left as it is. So is one without a target if a segment was not measured.
    """
    target = USUAL_RECALL if nearest.recall_target is None else nearest.recall_target
    # Those of SSTables are not measured. Most of them have the model of the table's segments.
    known = [_measured(s) for s in segments if not s.segment.is_of_log] or [None]
    if nearest.distance_range[0] is not None:
        known = [None for _ in segments]  # it was measured what the nearest rows are, not those from a distance on
    if nearest.recall_target is None and not nearest.says_nothing:
        return Settled(nearest)
    measured = [own for own in known if own is not None]
    asked = ceil(nearest.k / max(share, 1e-9))
    if len(measured) < len(known):
        return Settled(nearest) if nearest.recall_target is None else Settled(nearest, target, None, False)
    if asked > LEVELS[-1] and share > _FEW and nearest.recall_target is None:
        return _like_fewer(measured, nearest, target)
    chosen = [own.setting(asked, target) for own in measured]
    found = [setting for setting in chosen if setting is not None]
    if len(found) < len(chosen):
        return Settled(nearest, target, None, False)
    # Without a target, no fewer partitions are read than pylance reads: they may find more.
    effort = AUTO if nearest.recall_target is None else 0.0
    return Settled(_with(nearest, found, effort), target, min(setting.recall for setting in found))


def _measured(searched: SearchedSegment) -> Measured | None:
    """What was measured of a segment; None if that is not known."""
    measured = measured_in(searched.segment.index.details)
    return measured if measured is not None and tells_of(measured, searched) else None


def tells_of(measured: Measured, searched: SearchedSegment) -> bool:
    """Whether this was measured of the segment, and not of one that others made it from."""
    return measured.tells_of(sum(searched.segment.sizes.values()), len(searched.index.partitions))


def _like_fewer(measured: Sequence[Measured], nearest: Nearest, target: float) -> Settled:
    """The settings for more rows than were measured: those of the most that were, with at least as many partitions as without them."""
    chosen = [own.setting(LEVELS[-1], target) for own in measured]
    found = [setting for setting in chosen if setting is not None]
    return Settled(nearest if len(found) < len(chosen) else _with(nearest, found, AUTO))


def _with(nearest: Nearest, settings: Sequence[Setting], effort: float) -> Nearest:
    """The search with the largest of these settings, one for each segment. It reads further partitions while too few rows are found.

    Rows of all segments are candidates together, so that there are as many as all segments need.
    """
    refines = any(setting.refine_factor for setting in settings)
    refine_factor = sum(max(setting.refine_factor, 1) for setting in settings) if refines else 0
    ef = max(setting.ef for setting in settings)
    return replace(
        nearest,
        minimum_nprobes=max(setting.nprobes for setting in settings),
        search_effort=effort,
        refine_factor=refine_factor or None,
        ef=max(ef, nearest.k) if ef else None,
        recall_target=None,
    )
