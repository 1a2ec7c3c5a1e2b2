"""Where rows of an older version are after compactions, which keep the order of the rows of each group of fragments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.operations import Restore, Rewrite
from lance_spark.table.scan.rows_at import rows_in_order
from lance_spark.table.versions.history import find_transaction
from lance_spark.table.versions.snapshot import Snapshot, reopened

_SHIFT = np.uint64(32)


@dataclass(frozen=True)
class MovedRows:
    """Rows of a version: by the id of their fragment, their offsets (ascending, uint32)."""

    version: Snapshot
    rows: Mapping[int, np.ndarray]


def after_rewrites(before: MovedRows, current: Snapshot) -> MovedRows | None:
    """The rows in the version of the last compaction, or of the last Restore of their version, up to `current`.

    None if there is no such version, if a row was deleted or changed before it, or if that cannot be known.
    """
    addresses = _addresses(before.rows)
    now, found = addresses, before.version
    for version in range(before.version.version + 1, current.version + 1):
        step = find_transaction(current.store, version)
        if step is None:
            return None
        if isinstance(step.operation, Restore):
            if step.operation.version != before.version.version:
                return None
            now, found = addresses, reopened(current, version)
        elif isinstance(step.operation, Rewrite):
            moved = _rewritten(now, step.operation, reopened(current, version - 1), reopened(current, version))
            if moved is None:
                return None
            now, found = moved, reopened(current, version)
    if found is before.version or not _are_same(before.version, addresses, found, now):
        return None
    return MovedRows(found, _by_fragment(now))


def _rewritten(addresses: np.ndarray, operation: Rewrite, before: Snapshot, after: Snapshot) -> np.ndarray | None:
    """The addresses after a compaction; None if a row was not there before it."""
    old = {fragment.id: fragment for fragment in before.manifest.fragments}
    new = [fragment for fragment in after.manifest.fragments if fragment.id not in old]
    places, moved = [], []
    for group in operation.groups:
        own, new = new[: len(group.new_fragments)], new[len(group.new_fragments) :]
        live = np.concatenate([_live(old[f.id], before) for f in group.old_fragments if f.id in old])
        there = np.concatenate([_live(f, after) for f in own]) if own else np.empty(0, np.uint64)
        if len(live) != len(there):
            return None
        places.append(live)
        moved.append(there)
    known = [_live(f, before) for id, f in old.items() if id in after.manifest.lazy_fragments.ids]
    from_, to = np.concatenate([*places, *known]), np.concatenate([*moved, *known])
    order = np.argsort(from_)
    at = np.minimum(np.searchsorted(from_[order], addresses), len(from_) - 1)
    if not len(from_) or (from_[order][at] != addresses).any():
        return None
    result: np.ndarray = to[order][at]
    return result


def _live(fragment: Fragment, snapshot: Snapshot) -> np.ndarray:
    """The addresses of the rows of a fragment that are not deleted."""
    offsets = np.arange(fragment.physical_rows, dtype=np.uint64)
    if fragment.deletion is not None:
        offsets = np.delete(offsets, read_deletions(fragment, snapshot.locations))
    return (np.uint64(fragment.id) << _SHIFT) + offsets


def _are_same(before: Snapshot, addresses: np.ndarray, after: Snapshot, moved: np.ndarray) -> bool:
    """Whether the values are the same: a clustering moves rows, and an update in place changes them."""
    fields = before.manifest.schema
    if fields != after.manifest.schema:
        return False
    return bool(rows_in_order(before, addresses, fields).equals(rows_in_order(after, moved, fields)))


def _addresses(rows: Mapping[int, np.ndarray]) -> np.ndarray:
    parts = [(np.uint64(id) << _SHIFT) + offsets.astype(np.uint64) for id, offsets in rows.items()]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _by_fragment(addresses: np.ndarray) -> dict[int, np.ndarray]:
    addresses = np.sort(addresses)
    ids = (addresses >> _SHIFT).astype(np.int64)
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])
    parts = np.split((addresses & np.uint64(2**32 - 1)).astype(np.uint32), starts[1:]) if len(starts) else []
    return {int(ids[start]): part for start, part in zip(starts, parts, strict=True)}
