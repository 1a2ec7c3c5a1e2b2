"""What a scan will do, as text."""

from __future__ import annotations

import numpy as np

from lance_spark.index.answer import Answer
from lance_spark.metadata.bitmaps import offsets_of
from lance_spark.table.scan.indexed import look_up, with_tests
from lance_spark.table.scan.parts import all_live_rows, live_by_id
from lance_spark.table.scan.plan import ScanPlan, left_by_bounds, parts_at
from lance_spark.table.versions.snapshot import Snapshot

_SHOWN = 400
"""Characters of a filter that are shown."""


def explain(snapshot: Snapshot, plan: ScanPlan) -> str:
    """The filter of a scan, the indexes that it uses, and the rows that they leave to be read. Reads what the indexes name."""
    live = live_by_id(snapshot)
    text = "none" if plan.predicate is None else plan.predicate.text
    lines = [f"Scan of {snapshot}", f"  filter: {text if len(text) <= _SHOWN else text[:_SHOWN] + ' ...'}"]
    answer = None if plan.predicate is None or not plan.use_scalar_index else look_up(snapshot, with_tests(snapshot, plan.predicate))
    if answer is not None:
        lines += [f"  {line}" for line in index_lines(answer, live)]
    elif plan.predicate is not None:
        lines.append("  indexes: none")
    counts, ids = all_live_rows(snapshot), snapshot.manifest.lazy_fragments.ids
    chosen = np.ones(len(ids), np.bool_) if answer is None else ~np.isin(ids, offsets_of(answer.covered))
    if plan.predicate is None:
        rows, number = int(counts[chosen].sum()), int(chosen.sum())
    else:
        parts, used = left_by_bounds(snapshot, plan, parts_at(snapshot, np.flatnonzero(chosen), counts))
        rows, number = sum(part.num_rows for part in parts), len(parts)
        lines += [f"  {used}"] if used else []
    lines.append(f"  scanned: {rows} rows in {number} fragments")
    return "\n".join(lines)


def index_lines(answer: Answer, live: dict[int, int]) -> list[str]:
    """The indexes that gave an answer, and the rows that it leaves. `live` are the numbers of rows of the fragments."""
    covered = sum(rows for fragment, rows in live.items() if fragment in answer.covered)
    checked = sum(len(rows) for fragment, rows in answer.rows.items() if fragment not in answer.exact)
    left = f"rows left by the indexes: {answer.count} of {covered}, in {len(answer.rows)} of {len(answer.covered)} fragments"
    return [f"indexes: {', '.join(answer.names)}", f"{left}; {checked} of them are checked by the filter"]
