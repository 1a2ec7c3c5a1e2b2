"""Compaction: the choice of fragments that are rewritten together, and the commit of the result.

Small fragments are joined with their neighbours, fragments with many deleted rows are rewritten without them, and large fragments are
split. Implements "Rewrite" of the transaction specification; the choice is that of pylance.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap

from lance_spark.errors import check_at_least, check_type, on_refusal
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.operations import ReserveFragments, Rewrite, RewriteGroup, RewrittenIndex
from lance_spark.metadata.transaction import Transaction
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES, fragments_of
from lance_spark.table.build.old_writers import highest_fragment_id
from lance_spark.table.commit.commit import commit
from lance_spark.table.compaction.places import Places
from lance_spark.table.indexes.remap import needs_addresses, remap, remappable
from lance_spark.table.indexes.reuse import covering, moves_of
from lance_spark.table.indexes.segment import discard
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.scan.runner import Runner
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.bases import Targets

TOO_LARGE = 2
"""A fragment is split if it has more than this many times the target's rows. Splitting smaller ones would leave small pieces."""


@dataclass(frozen=True)
class CompactionOptions:
    """Options of compaction. The names and defaults are those of pylance.

    Fragments with fewer rows than `target_rows_per_fragment` are joined. With `materialize_deletions`, fragments are rewritten if the
    fraction of deleted rows exceeds `materialize_deletions_threshold`. In tables without stable row ids, fragments are
    skipped if an index covers them that cannot follow their rows, such as a vector index, unless `drop_index_coverage` is True; then
    the index no longer covers their rows until it is optimized.

    With `defer_index_remap`, indexes stay as they are, and a fragment reuse index records where the rows went: readers look them up
    there. This costs less now and more in each lookup, until the indexes are optimized. It also serves the indexes that cannot follow.

    Groups of fragments are taken, oldest first, until the next one would exceed `max_source_fragments`, `max_source_rows` (rows that are
    not deleted) or `max_source_bytes` (sizes of data files); None: no limit. The fragments in `excluded_fragment_ids` stay as they are, and
    fragments on both sides of one are not joined; ids of no fragment are ignored.

    The rows of what is rewritten get the order of a clustering by the columns `sort_by`; without them by those that the table is clustered
    by, if any, see `cluster.Clustering`.

    Rows stay at their base path. With `target_bases` or `target_all_bases`, see `write.bases.Targets`, those of what is rewritten move
    there, and fragments that are elsewhere are rewritten, too.
    """

    target_rows_per_fragment: int = 1 << 20
    materialize_deletions: bool = True
    materialize_deletions_threshold: float = 0.1
    max_bytes_per_file: int = 90 << 30
    drop_index_coverage: bool = False
    defer_index_remap: bool = False
    max_source_fragments: int | None = None
    max_source_rows: int | None = None
    max_source_bytes: int | None = None
    excluded_fragment_ids: Sequence[int] = ()
    sort_by: Sequence[str] = ()
    target_bases: Sequence[str] = ()
    target_all_bases: bool | None = None

    def __post_init__(self) -> None:
        for name in ("target_rows_per_fragment", "max_bytes_per_file"):
            check_at_least(name, getattr(self, name), 1)
        for name in ("max_source_fragments", "max_source_rows", "max_source_bytes"):
            if getattr(self, name) is not None:
                check_at_least(name, getattr(self, name), 1)
        check_type("excluded_fragment_ids", self.excluded_fragment_ids, Iterable, "a sequence of ids of fragments")
        object.__setattr__(self, "excluded_fragment_ids", tuple(self.excluded_fragment_ids))
        for fragment_id in self.excluded_fragment_ids:
            check_at_least("an id in excluded_fragment_ids", fragment_id, 0)
        for name in ("sort_by", "target_bases"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise TypeError(f"{name} must be a sequence of names, not text; pass [{value!r}]")
            object.__setattr__(self, name, tuple(value))
        check_type("materialize_deletions_threshold", self.materialize_deletions_threshold, (int, float), "a number")
        if not 0 <= self.materialize_deletions_threshold <= 1:
            raise ValueError(f"materialize_deletions_threshold must be from 0 to 1, not {self.materialize_deletions_threshold}")

    @property
    def targets(self) -> Targets:
        """The folders that rows move to."""
        return Targets(tuple(self.target_bases), self.target_all_bases)


COMPACTION = CompactionOptions()

Group = Sequence[tuple[Fragment, int]]
"""Fragments that are rewritten together, each with the number of its rows that are not deleted."""


@dataclass(frozen=True)
class CompactionPlan:
    """Groups of neighbouring fragments to be rewritten together, and the ids of fragments that are skipped because an index covers them."""

    groups: tuple[tuple[Fragment, ...], ...]
    left_out: tuple[int, ...]


def plan_compaction(snapshot: Snapshot, options: CompactionOptions, fragments: Container[int] | None = None) -> CompactionPlan:
    """Plan the compaction of a version, or only of the fragments with the ids `fragments`.

    Neighbouring fragments are joined only if the same indexes cover them, and those at one base path stay there together.
    """
    covers = _covers(snapshot)
    free = snapshot.manifest.has_stable_row_ids or options.drop_index_coverage or options.defer_index_remap
    held = set() if free else _immovable(snapshot)
    excluded = frozenset(options.excluded_fragment_ids)
    groups: list[Group] = []
    left_out: list[int] = []
    places = Places.of(snapshot, options.targets)
    bins: dict[int | None, list[tuple[Fragment, int]]] = {}
    covered_by: frozenset[str] = frozenset()

    def close() -> None:
        for candidates in bins.values():
            groups.extend(_divided(candidates, options, places))
        bins.clear()

    for fragment, live in zip(snapshot.manifest.fragments, all_live_rows(snapshot).tolist()):
        asked = (fragments is None or fragment.id in fragments) and fragment.id not in excluded
        wanted = asked and (places.must_move(fragment) or _is_candidate(fragment, live, options))
        indexes = covers(fragment.id)
        if wanted and indexes & held:
            left_out.append(fragment.id)
            wanted = False
        if not wanted or (bins and indexes != covered_by):
            close()
        if wanted:
            bins.setdefault(places.base_of(fragment), []).append((fragment, live))
            covered_by = indexes
    close()
    within = within_limits(snapshot, groups, options)
    return CompactionPlan(tuple(tuple(fragment for fragment, _ in group) for group in within), tuple(left_out))


def within_limits(snapshot: Snapshot, groups: Sequence[Group], options: CompactionOptions) -> Sequence[Group]:
    """The first groups that together are within the limits of the sources."""
    limits = (options.max_source_fragments, options.max_source_rows, options.max_source_bytes)
    if all(limit is None for limit in limits):
        return groups
    used = [0, 0, 0]
    for i, group in enumerate(groups):
        size = 0 if options.max_source_bytes is None else sum(_size(snapshot, fragment) for fragment, _ in group)
        own = (len(group), sum(live for _, live in group), size)
        used = [total + more for total, more in zip(used, own)]
        if any(limit is not None and count > limit for limit, count in zip(limits, used)):
            return groups[:i]
    return groups


def _size(snapshot: Snapshot, fragment: Fragment) -> int:
    """The bytes of the data files of a fragment. Old writers did not record them."""
    size = 0
    for file in fragment.files:
        store, path = snapshot.locations.data_file(file)
        size += store.size(path) if file.size is None else file.size
    return size


def _covers(snapshot: Snapshot) -> Callable[[int], frozenset[str]]:
    """Return a function: fragment id -> the index segments that cover it. A segment without recorded coverage covers all."""
    segments = [(i.uuid.hex(), fragments_of(i)) for i in snapshot.manifest.indexes if i.name not in SYSTEM_INDEXES]
    return lambda fragment_id: frozenset(uuid for uuid, covered in segments if covered is None or fragment_id in covered)


def _immovable(snapshot: Snapshot) -> set[str]:
    """The segments that cannot follow their rows."""
    segments = {i.uuid for i in snapshot.manifest.indexes if i.name not in SYSTEM_INDEXES}
    return {uuid.hex() for uuid in segments - remappable(snapshot).keys()} if segments else set()


def _is_candidate(fragment: Fragment, live: int, options: CompactionOptions) -> bool:
    rows, target = fragment.physical_rows, options.target_rows_per_fragment
    return rows < target or rows > TOO_LARGE * target or has_many_deletions(fragment, live, options)


def has_many_deletions(fragment: Fragment, live: int, options: CompactionOptions) -> bool:
    """Whether the fragment, which has so many `live` rows, is rewritten to leave deleted rows out."""
    share = (fragment.physical_rows - live) / max(fragment.physical_rows, 1)
    return options.materialize_deletions and share > options.materialize_deletions_threshold


def _divided(candidates: Group, options: CompactionOptions, places: Places) -> Iterable[Group]:
    """Split neighbours into groups of at least the target. Groups of one fragment that would not improve are omitted."""
    groups: list[list[tuple[Fragment, int]]] = [[]]
    for candidate in candidates:
        if sum(live for _, live in groups[-1]) >= options.target_rows_per_fragment:
            groups.append([])
        groups[-1].append(candidate)
    if len(groups) > 1 and sum(live for _, live in groups[-1]) < options.target_rows_per_fragment // 2:
        rest = groups.pop()
        groups[-1] += rest
    for group in groups:
        alone = len(group) == 1
        if group and not (alone and not places.must_move(group[0][0]) and not _is_worth_it(*group[0], options)):
            yield tuple(group)


def _is_worth_it(fragment: Fragment, live: int, options: CompactionOptions) -> bool:
    return fragment.physical_rows > TOO_LARGE * options.target_rows_per_fragment or has_many_deletions(fragment, live, options)


@dataclass(frozen=True)
class Compacted:
    """A group of fragments and their replacements. There are none if all rows are deleted."""

    old: tuple[Fragment, ...]
    new: tuple[Fragment, ...]


def commit_compaction(
    runner: Runner, snapshot: Snapshot, compacted: Sequence[Compacted], properties: dict[str, str], defer_index_remap: bool = False
) -> Snapshot:
    """Commit a compaction that was planned for `snapshot`. Later commits must not have changed the compacted fragments.

    Indexes that name rows by address are written anew first, for which the ids of the new fragments are reserved in a commit of its own;
    or, with `defer_index_remap`, the fragment reuse index records where the rows went. Raises what `table.commit.commit.commit` raises.
    """
    groups = tuple(RewriteGroup(c.old, c.new) for c in compacted)
    rewritten: tuple[RewrittenIndex, ...] = ()
    defers = defer_index_remap and not snapshot.manifest.has_stable_row_ids and bool(covering(snapshot, groups))
    if defers or needs_addresses(snapshot, BitMap(f.id for c in compacted for f in c.old)):
        groups = with_reserved_ids(snapshot, groups)
        rewritten = remap(runner, snapshot, groups, only_zones=defers)
    operation = Rewrite(groups, rewritten, moves_of(snapshot, groups) if defers else None)
    with on_refusal(lambda: discard(snapshot.store, *(segment.new_id for segment in rewritten))):
        return commit(snapshot.store, Transaction(snapshot.version, operation, properties=properties), base=snapshot)


def with_reserved_ids(snapshot: Snapshot, groups: Sequence[RewriteGroup]) -> tuple[RewriteGroup, ...]:
    """The groups with ids for their new fragments that no other writer can take."""
    count = sum(len(g.new_fragments) for g in groups)
    if not count:
        return tuple(groups)
    reserved = commit(snapshot.store, Transaction(snapshot.version, ReserveFragments(count)), base=snapshot)
    first = highest_fragment_id(reserved.manifest) - count + 1
    numbers = iter(range(first, first + count))
    return tuple(replace(g, new_fragments=tuple(replace(f, id=next(numbers)) for f in g.new_fragments)) for g in groups)
