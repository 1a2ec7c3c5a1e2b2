"""Stable row ids and row versions of the fragments that a commit adds or changes. Pure.

Implements "Row ID Assignment" and "Row Version Tracking" of the row id and lineage specification as pylance does: a row that moves keeps
its id and the version that made it. Row versions are kept by tables with stable row ids only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import InvalidOperationError, UnsupportedFeatureError
from lance_spark.metadata.fragment import Fragment, LineageSequence
from lance_spark.metadata.row_ids import (
    all_values,
    parse_row_ids,
    parse_versions,
    row_id_count,
    serialise_version,
    serialise_versions,
    with_row_id_range,
)

UNKNOWN_VERSION = 1
"""Stands for the version of rows that were there before their table kept versions."""


def with_row_ids(fragments: Iterable[Fragment], next_row_id: int) -> tuple[tuple[Fragment, ...], int]:
    """The fragments with ids for all rows, and the next free id. Rows that already have ids keep them; they come first."""
    done = []
    for fragment in fragments:
        known = _inline(fragment.row_ids, fragment)
        count = 0 if known is None else row_id_count(known)
        missing = fragment.physical_rows - count
        if missing < 0:
            raise InvalidOperationError(f"a fragment of {fragment.physical_rows} rows has {count} row ids; expected at most one per row")
        if missing or known is None:
            fragment = replace(fragment, row_ids=with_row_id_range(known or b"", next_row_id, missing))
            next_row_id += missing
        done.append(fragment)
    return tuple(done), next_row_id


def all_known(fragments: Iterable[Fragment]) -> list[int]:
    """The ids of the fragments in which all rows have ids, that is, in which all rows existed before."""
    return [f.id for f in fragments if isinstance(f.row_ids, bytes) and row_id_count(f.row_ids) == f.physical_rows]


def made(fragments: Iterable[Fragment], version: int) -> tuple[Fragment, ...]:
    """The fragments, with all rows created in `version`."""
    return tuple(replace(f, created_at=_uniform(f, version), updated_at=_uniform(f, version)) for f in fragments)


def moved(fragments: Sequence[Fragment], sources: Iterable[Fragment], version: int) -> tuple[Fragment, ...]:
    """The fragments, with all rows updated in `version`; rows that are in `sources` (by id) keep the version that created them."""
    ids = [all_values(parse_row_ids(_some_inline(f), f.physical_rows)) for f in fragments]
    rows, versions = _made_in(np.unique(np.concatenate(ids)) if ids else np.empty(0, np.uint64), sources, version)
    changed = []
    for fragment, own in zip(fragments, ids):
        created_at = serialise_versions(versions[np.searchsorted(rows, own)])
        changed.append(replace(fragment, created_at=created_at, updated_at=_uniform(fragment, version)))
    return tuple(changed)


def _made_in(wanted: np.ndarray, sources: Iterable[Fragment], version: int) -> tuple[np.ndarray, np.ndarray]:
    """The sorted ids `wanted` and the version that created each of these rows: `version` for rows in no source."""
    versions = np.full(len(wanted), version, dtype=np.uint64)
    open_ids = np.ones(len(wanted), dtype=bool)
    # A row that was moved before is in two fragments, deleted in the first one, which has the version that created it.
    for source in sorted(sources, key=lambda f: f.id):
        sequence = _inline(source.row_ids, source)
        if not sequence:
            continue
        which, rows = parse_row_ids(sequence, source.physical_rows).find(wanted)
        which, rows = which[open_ids[which]], rows[open_ids[which]]
        created = _inline(source.created_at, source)
        versions[which] = UNKNOWN_VERSION if created is None else parse_versions(created, source.physical_rows).at(rows)
        open_ids[which] = False
    return wanted, versions


def changed(fragment: Fragment, version: int, rows: BitMap | None = None, before: int = UNKNOWN_VERSION) -> Fragment:
    """The fragment, with the rows at `offsets` (None: all) updated in `version`; rows without a version get `before`."""
    if rows is None:
        return replace(fragment, updated_at=_uniform(fragment, version)) if fragment.physical_rows else fragment
    if len(rows) and rows.max() >= fragment.physical_rows:
        raise InvalidOperationError(f"row {rows.max()} was changed, but fragment {fragment.id} has {fragment.physical_rows} rows")
    known = _inline(fragment.updated_at, fragment)
    sequence = serialise_version(before, fragment.physical_rows) if known is None else known
    versions = all_values(parse_versions(sequence, fragment.physical_rows))
    versions[np.array(rows.to_array(), dtype=np.int64)] = version
    return replace(fragment, updated_at=serialise_versions(versions))


def _uniform(fragment: Fragment, version: int) -> bytes:
    return serialise_version(version, fragment.physical_rows)


def _inline(sequence: LineageSequence | None, fragment: Fragment) -> bytes | None:
    if sequence is not None and not isinstance(sequence, bytes):
        raise UnsupportedFeatureError(
            f"the row ids or versions of fragment {fragment.id} are in a separate file; changing its rows is not supported"
        )
    return sequence


def _some_inline(fragment: Fragment) -> bytes:
    sequence = _inline(fragment.row_ids, fragment)
    assert sequence is not None
    return sequence
