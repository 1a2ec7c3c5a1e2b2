"""The rows of a version that its scalar indexes leave for a condition.

A segment of an index is asked only if it can be right: its kind and version are known, it is not newer than the version that is read, and
it says which fragments it covers. A segment that is damaged, or contradicts the table, is left unused with a warning: the rows of its
fragments are then read, as those of fragments that no segment covers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import UNREADABLE, CorruptFileError, LanceError, SchemaMismatchError
from lance_spark.index.answer import Answer, Rows, beside, both, either, numbers_of, unchecked, within, without
from lance_spark.index.files import IndexFiles
from lance_spark.index.kinds import KINDS, SEARCHED, Kind, kind_of
from lance_spark.index.value_types import may_index
from lance_spark.index.vector.vectors import vector_type
from lance_spark.metadata.bitmaps import bitmap_of
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import Fragment, IndexMetadata
from lance_spark.metadata.manifest import overlaid_fragments
from lance_spark.metadata.row_ids import row_ids_of
from lance_spark.predicate import Formula, Predicate
from lance_spark.predicate.one_column import columns_of, over_values, substituted, without_not
from lance_spark.predicate.tree import And, Column, Expression, Or, TextMatch, walk
from lance_spark.schema.schema import Field, quoted
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES, fragments_of, through_reuse
from lance_spark.table.build.reuse_history import ReuseHistory, reuse_history
from lance_spark.table.scan.moved_rows import may_lack, moved_fragments, moved_rows, reuse_moves, reused_fragments
from lance_spark.table.versions.indexed_columns import other_column
from lance_spark.table.versions.snapshot import Snapshot, find_version, reopened

if TYPE_CHECKING:
    from lance_spark.index.text.analysis.parameters import TextParameters

_LOG = logging.getLogger(__name__)
Condition = TypeVar("Condition", bound=Formula | None)
_ANY_OFFSET = 1 << 32
_ONCE_REMAPPED_WRONGLY = ("BITMAP", "LABEL_LIST")
"""Kinds whose rows are under wrong keys after a compaction by writers that did not record the version of an index."""

_MOST_ROWS = 1 << 28
"""More rows than these are not looked up: their numbers would take gigabytes."""

_FRAGMENT_BYTES = 256
"""The memory of what is known of a fragment."""

_FEW_ROWS = 1 << 16
"""So few rows are always worth picking."""


@lru_cache(maxsize=1000)
def _warn(uri: str, name: str, reason: str) -> None:
    """Say once a process that segments of an index are not used."""
    _LOG.warning("%s: a segment of index %r is not used: %s", uri, name, reason)


def look_up(snapshot: Snapshot, predicate: Predicate) -> Answer | None:
    """The rows that the indexes of the version leave for `predicate`; None if no index can tell, or if most rows match."""
    if not snapshot.manifest.indexes:
        return None
    segments = segments_of(snapshot)
    answer = segments.answer(without_not(predicate.root))
    if answer is None or not answer.covered:
        return None
    if answer.count > max(_FEW_ROWS, segments.live_rows(answer.covered) // 2):
        _LOG.info("%s: the indexes %s leave %d rows, so they are not used", snapshot, ", ".join(answer.names), answer.count)
        return None
    return answer


def segments_of(snapshot: Snapshot) -> Segments:
    """The index segments of a version, which stay in memory."""
    return snapshot.locations.kept.get("segments", lambda: Segments(snapshot), lambda s: s.nbytes)


@dataclass(frozen=True)
class Segment:
    """A segment that may be asked: the fragments of the version that it covers, with their numbers of rows, and those it was built from.

    A segment of an SSTable names its rows by their addresses there: `renumbered` has the fragments of the version by their ids there.
    """

    index: IndexMetadata
    kind: Kind
    covered: BitMap
    sizes: Mapping[int, int]
    built_from: BitMap
    renumbered: Mapping[int, int] | None = None

    @property
    def is_of_log(self) -> bool:
        """Whether it is of an SSTable of the write-ahead log."""
        return self.renumbered is not None


class Segments:
    """The index segments of a version."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._stable = snapshot.manifest.has_stable_row_ids
        self._opened: dict[tuple[bytes, int], IndexFiles] = {}
        self._built_from: dict[int, Snapshot | None] = {}
        self._other: dict[bytes, str | None] = {}
        self._lacking: dict[bytes, BitMap] = {}
        self._certain: dict[bytes, bool] = {}

    @property
    def nbytes(self) -> int:
        """About the memory that it takes."""
        named = sum(len(s.covered) + len(s.built_from) for s in self._usable)
        return _FRAGMENT_BYTES * (len(self._snapshot.manifest.fragments) + named)

    @cached_property
    def _places(self) -> Mapping[int, int]:
        """The place of each fragment in the manifest, by id."""
        return {f: i for i, f in enumerate(self._snapshot.manifest.lazy_fragments.ids.tolist())}

    def _fragment(self, fragment: int) -> Fragment:
        return self._snapshot.manifest.lazy_fragments[self._places[fragment]]

    @cached_property
    def _live(self) -> np.ndarray:
        """The number of rows of each fragment that are not deleted, 0 if unknown."""
        rows: np.ndarray = np.maximum(self._snapshot.manifest.lazy_fragments.live_rows, 0)
        return rows

    def live_rows(self, fragments: BitMap) -> int:
        """The number of rows of these fragments that are not deleted."""
        covers = len(fragments) == len(self._places)
        return int(self._live.sum() if covers else self._live[[self._places[f] for f in fragments]].sum())

    @cached_property
    def _by_field(self) -> Mapping[int, Sequence[Segment]]:
        """The segments that answer conditions, by the field that they index, in the order in which they are asked."""
        order = {kind.name: i for i, kind in enumerate(KINDS.values())}
        found: dict[int, list[Segment]] = {}
        for segment in sorted((s for s in self._usable if s.kind.name in order), key=lambda s: order[s.kind.name]):
            found.setdefault(segment.index.fields[0], []).append(segment)
        return found

    def searched(self, kind: str, field: Field) -> Sequence[Segment]:
        """The segments of the `kind`, one of `SEARCHED`, that index this field."""
        return [s for s in self._usable if s.kind.name == kind and s.index.fields[0] == field.id]

    @cached_property
    def _usable(self) -> Sequence[Segment]:
        """The segments that may be asked or searched."""
        # An index may have the values from before an overlay.
        existing = BitMap(self._places) - BitMap(f.id for f in overlaid_fragments(self._snapshot.manifest))
        found = []
        for index, now in self._with_present_fragments():
            kind, built_from, covered = kind_of(index.details_type, index.details), fragments_of(index), fragments_of(now)
            kind = kind or SEARCHED.get(index.details_type.rpartition(".")[2]) or self._unrecorded(index)
            if kind is None and not index.details_type and index.name not in SYSTEM_INDEXES:
                _LOG.info("%s: index %r is not used: its writer did not record its kind", self._snapshot, index.name)
            if index.name in SYSTEM_INDEXES or kind is None or len(index.fields) != 1:
                continue
            if built_from is None or covered is None:
                self.unused(index, "it does not say which fragments it covers")
            elif not kind.knows(index.index_version):
                self.unused(
                    index, f"its version is {index.index_version}, but only versions from {kind.oldest} to {kind.version} are known"
                )
            elif index.dataset_version > self._snapshot.version:
                self.unused(index, f"it was built from version {index.dataset_version}")
            elif self._stable and not kind.stable:
                self.unused(index, "such indexes do not say whether they have addresses or row ids")
            elif index.index_version is None and kind.name in _ONCE_REMAPPED_WRONGLY and not self._is_original(index, covered & existing):
                self.unused(index, "old writers mixed up the rows of this kind of index when they compacted the table")
            elif covered & existing:
                sizes = {f: self._physical[f] for f in covered & existing}
                found.append(Segment(index, kind, covered & existing, sizes, built_from))
        return [*found, *self._of_log(existing)]

    def _of_log(self, existing: BitMap) -> Iterator[Segment]:
        """The segments of SSTables, which have no other versions than the one that is read."""
        for own in () if self._snapshot.log is None else self._snapshot.log.indexes:
            index, numbers = own.segment, dict(own.numbers)
            kind = kind_of(index.details_type, index.details) or SEARCHED.get(index.details_type.rpartition(".")[2])
            covered = BitMap(numbers.values()) & existing
            if kind is None or not kind.knows(index.index_version) or not covered:
                continue
            sizes = {f: self._physical[f] for f in covered}
            yield Segment(index, kind, covered, sizes, BitMap(numbers), numbers)

    def _unrecorded(self, index: IndexMetadata) -> Kind | None:
        """The kind of an index whose writer did not record it, if it is of vectors: these had no other indexes."""
        if index.details_type:
            return None
        fields = (f for f in self._snapshot.manifest.schema.walk() if f.id in index.fields)
        of_vectors = any(vector_type(f.type)[0] for f in fields)
        return SEARCHED["VectorIndexDetails"] if of_vectors else None

    def _with_present_fragments(self) -> Iterator[tuple[IndexMetadata, IndexMetadata]]:
        """The segments whose bitmaps are valid, each also with a bitmap of the present fragments."""
        valid = []
        for index in self._snapshot.manifest.indexes:
            try:
                fragments_of(index)
                valid.append(index)
            except CorruptFileError as e:
                self.unused(index, e)
        try:
            yield from zip(valid, through_reuse(tuple(valid)))
        except CorruptFileError as e:
            _LOG.warning("%s: no index is used: %s", self._snapshot, e)

    def _is_original(self, index: IndexMetadata, covered: BitMap) -> bool:
        """Whether the version that the segment was built from has all of these fragments, so that the segment was not remapped to them."""
        try:
            built_from = reopened(self._snapshot, index.dataset_version)
        except LanceError:
            return False  # it is gone
        return covered <= BitMap(f.id for f in built_from.manifest.fragments)

    def unused(self, index: IndexMetadata, reason: object) -> None:
        """Warn that a segment is not used."""
        _warn(self._snapshot.store.uri, index.name, str(reason))

    def answer(self, condition: Expression) -> Answer | None:
        """The rows that satisfy a condition, as far as the indexes know."""
        paths = columns_of(condition)
        if len(paths) == 1 and (found := self._of_column(condition)) is not None:
            return found
        match condition:
            case And(operands):
                return self._of_all(operands)
            case Or(operands):
                answers = [self.answer(o) for o in operands]
                known = [a for a in answers if a is not None]
                return reduce(either, known) if len(known) == len(answers) else None
            case _:
                return None

    def _of_all(self, operands: Sequence[Expression]) -> Answer | None:
        """The rows that satisfy all conditions. Those on one column are asked together, as long as an index can tell."""
        groups: dict[frozenset[tuple[str, ...]], list[Expression]] = {}
        conjuncts = list(_conjuncts(operands))
        for operand in conjuncts:
            groups.setdefault(frozenset(columns_of(operand)), []).append(operand)
        answers: list[Answer | None] = []
        for paths, group in groups.items():
            is_on_one_column = len(paths) == 1 and 1 < len(group) < len(conjuncts)
            together = self._of_column(And(tuple(group))) if is_on_one_column else None
            answers += [together] if together is not None else [self.answer(o) for o in group]
        known = [a for a in answers if a is not None]
        if not known:
            return None
        united = reduce(both, known)
        return united if len(known) == len(answers) else unchecked(united)

    def of_segment(self, uuid: bytes, path: Sequence[str], condition: Expression) -> Answer | None:
        """The answer of one segment to a condition on its column `path`; None if it is not asked, or cannot tell.

        Raises CorruptFileError, UnsupportedFeatureError or StorageError for a segment that cannot be trusted.
        """
        field = self.field(path)
        segments = self._by_field.get(field.id, ()) if field is not None else ()
        segment = next((s for s in segments if s.index.uuid == uuid), None)
        return None if field is None or segment is None else self._found(segment, field, over_values(condition))

    def _of_column(self, condition: Expression) -> Answer | None:
        """The answer of the indexes of the only column of the condition."""
        column = next(n for n in walk(condition) if isinstance(n, Column))
        field = self.field(column.path)
        segments = self._by_field.get(field.id, ()) if field is not None else ()
        if isinstance(condition, TextMatch) and field is not None:
            segments = (*self.searched("INVERTED", field), *segments)
        answer: Answer | None = None
        plain = over_values(condition)
        for segment in segments:
            if field is None or (answer is not None and segment.covered <= answer.covered):
                continue
            found = self._ask(segment, field, plain)
            if found is not None:
                answer = found if answer is None else beside(answer, found)
        return answer

    def field(self, path: Sequence[str]) -> Field | None:
        """The field of a column of the version; None if it has no such column."""
        try:
            return self._snapshot.manifest.schema.resolve(quoted(path))[-1]
        except SchemaMismatchError:
            return None  # a column such as _rowaddr

    def _ask(self, segment: Segment, field: Field, condition: Expression) -> Answer | None:
        """The answer of one segment, for the fragments whose rows it must have; None if it cannot tell, or cannot be trusted."""
        try:
            lost = BitMap() if segment.is_of_log else self._lacking.get(segment.index.uuid)
            if lost is None:
                lost = may_lack(self._snapshot, segment.index, self.files(segment, field), segment.covered)
                self._lacking[segment.index.uuid] = lost
            if segment.covered <= lost:
                raise CorruptFileError("its writer may have lost the rows that a compaction moved twice; optimize_indices builds it again")
            found = self._found(segment, field, condition)
            return found if found is None or not lost else without(found, lost)
        except UNREADABLE as e:
            self.unused(segment.index, e)
            return None

    def _found(self, segment: Segment, field: Field, condition: Expression) -> Answer | None:
        index = segment.index
        if (reason := self.other_column(segment)) is not None:
            raise CorruptFileError(reason)
        if not may_index(segment.kind.name, field.type):
            raise CorruptFileError(
                f"column {field.name!r} is of type {field.type}, which an index of the kind {segment.kind.name} cannot be of"
            )
        column = next(n for n in walk(condition) if isinstance(n, Column))
        found = segment.kind.search(self.files(segment, field), condition, column)
        if found is None:
            return None
        addresses = self._addresses(segment, found.rows)
        if addresses is None:
            return None
        rows = within(addresses, segment.sizes)
        exact = segment.covered if found.exact and self.has_every_row_once(segment) else BitMap()
        answer = Answer(rows, segment.covered, exact, (f"{index.name} ({segment.kind.name})",))
        if not found.unknown:
            return answer
        if segment.renumbered is not None:
            return without(answer, BitMap(segment.renumbered[f] for f in found.unknown if f in segment.renumbered))
        return without(answer, BitMap(moved_fragments(found.unknown, self._moves)))

    def _has_addresses(self, segment: Segment) -> bool:
        return segment.is_of_log or segment.kind.has_addresses(segment.index.index_version, self._stable)

    def other_column(self, segment: Segment) -> str | None:
        """Why the segment may be of an earlier column with the same field id; None if it is not.

        The columns of an SSTable were compared when it was opened.
        """
        if segment.is_of_log:
            return None
        index = segment.index
        version = index.dataset_version
        if version not in self._built_from and version < self._snapshot.version:
            self._built_from[version] = find_version(self._snapshot.store, version)
        if index.uuid not in self._other:
            self._other[index.uuid] = other_column(self._snapshot, index, self._built_from.get(version))
        return self._other[index.uuid]

    def has_every_row_once(self, segment: Segment) -> bool:
        """Whether the segment cannot have an earlier value of a row beside the present one.

        A row that is updated keeps its stable id. Writers may leave the id with its old value when they merge the segments of both.
        """
        if self._has_addresses(segment):
            return True
        if (certain := self._certain.get(segment.index.uuid)) is None:
            fragments = map(self._fragment, segment.covered)
            certain = all(f.created_at is not None and f.created_at == f.updated_at for f in fragments)
            self._certain[segment.index.uuid] = certain
        return certain

    @cached_property
    def _physical(self) -> Mapping[int, int]:
        """The number of rows of each fragment, deleted ones too; any number if it is unknown."""
        ids, rows, _, _ = self._snapshot.manifest.lazy_fragments.counts.T
        return dict(zip(ids.tolist(), np.where(rows, rows, _ANY_OFFSET).tolist()))

    @cached_property
    def _moves(self) -> ReuseHistory:
        return reuse_history(self._snapshot.manifest.indexes) or ()

    @cached_property
    def _sizes(self) -> Mapping[int, int]:
        """The number of rows of each fragment, deleted ones too; also of those that the fragment reuse index says were rewritten."""
        return {**reused_fragments(self._snapshot.manifest.indexes), **self._physical}

    def files(self, segment: Segment, field: Field) -> IndexFiles:
        """The files of a segment of this field."""
        index = segment.index
        if (opened := self._opened.get((index.uuid, field.id))) is not None:
            return opened
        store, folder = self._snapshot.locations.index_folder(index)
        known: Mapping[int, int] = {}
        if segment.renumbered is not None:
            known = {f: segment.sizes[number] for f, number in segment.renumbered.items() if number in segment.sizes}
        elif self._has_addresses(segment):
            known = {f: size for f, size in self._sizes.items() if f in segment.built_from}
        live_rows = self.live_rows(segment.covered)
        sizes = {file.path: file.size for file in index.files if file.size}
        verify = self._snapshot.verify_checksums
        opened = IndexFiles(store, folder, field, known, live_rows, sizes, index.details, verify_checksums=verify)
        self._opened[index.uuid, field.id] = opened
        return opened

    def _addresses(self, segment: Segment, rows: Rows) -> Rows | None:
        """The current addresses of rows that the segment names; None if they are too many to look up one by one."""
        if segment.renumbered is not None:
            return {segment.renumbered[f]: own for f, own in rows.items() if f in segment.renumbered}
        by_address = self._has_addresses(segment)
        rows = within(rows, self._sizes) if by_address and self._moves else rows
        if sum(map(len, rows.values())) > _MOST_ROWS:
            return None
        if by_address:
            return moved_rows(rows, self._moves)
        wanted, found = numbers_of(rows), {}
        for fragment in segment.covered:
            ids = row_ids_of(self._fragment(fragment), self._snapshot.locations)
            found[fragment] = bitmap_of(ids.find(wanted)[1])
        return found

    def present(self, segment: Segment, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The present addresses (uint64) of rows that a segment names, and a mask of those that it covers and that are not deleted.

        The addresses of other rows mean nothing.
        """
        exist = np.ones(len(numbers), np.bool_)
        if segment.renumbered is not None:
            numbers, exist = _renumbered(numbers, segment.renumbered)
        elif self._has_addresses(segment):
            for moves in reuse_moves(self._snapshot.manifest.indexes):
                numbers, there = moves.numbers(numbers)
                exist &= there
        else:
            numbers, exist = self._addresses_of_ids(segment, numbers)
        ids = np.array(segment.covered, np.uint64)
        sizes = np.array([segment.sizes[f] for f in segment.covered], np.uint64)
        high, low = numbers >> np.uint64(32), numbers & np.uint64(0xFFFFFFFF)
        at = np.minimum(np.searchsorted(ids, high), len(ids) - 1)
        exist &= (ids[at] == high) & (low < sizes[at])
        for fragment in np.unique(high[exist]).tolist():
            if self._fragment(fragment).deletion is not None:
                own = np.flatnonzero(exist & (high == fragment))
                exist[own] = ~np.isin(low[own], read_deletions(self._fragment(fragment), self._snapshot.locations))
        return numbers, exist

    def _addresses_of_ids(self, segment: Segment, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The addresses of rows with these row ids, and a mask of those that are in fragments that the segment covers."""
        order = np.argsort(ids, kind="stable")
        wanted = ids[order]
        addresses, exist = np.zeros(len(ids), np.uint64), np.zeros(len(ids), np.bool_)
        for fragment in segment.covered:
            which, rows = row_ids_of(self._fragment(fragment), self._snapshot.locations).find(wanted)
            addresses[order[which]] = rows.astype(np.uint64) + (np.uint64(fragment) << np.uint64(32))
            exist[order[which]] = True
        return addresses, exist


def _renumbered(addresses: np.ndarray, fragments: Mapping[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The addresses with other numbers of the fragments, and a mask of those that are in one of them."""
    own = np.array(sorted(fragments), np.uint64)
    numbers = np.array([fragments[f] for f in sorted(fragments)], np.uint64)
    high = addresses >> np.uint64(32)
    at = np.minimum(np.searchsorted(own, high), len(own) - 1)
    return (numbers[at] << np.uint64(32)) | (addresses & np.uint64(0xFFFFFFFF)), own[at] == high


def _conjuncts(operands: Sequence[Expression]) -> Iterator[Expression]:
    """The operands of an AND, and those of the ANDs among them."""
    for operand in operands:
        if isinstance(operand, And):
            yield from _conjuncts(operand.operands)
        else:
            yield operand


def with_tests(snapshot: Snapshot, condition: Condition) -> Condition:
    """The predicate or formula with conditions of full-text search that can be evaluated, as the columns' indexes split texts into words.

    Those of columns without an index are evaluated as pylance searches such columns.
    """
    if condition is None or not any(isinstance(n, TextMatch) and n.test is None for n in walk(condition.root)):
        return condition
    from lance_spark.index.text.conditions import TextTest  # loads the decoders, which most plans do not need

    def tested(node: Expression) -> Expression | None:
        if not isinstance(node, TextMatch) or node.test is not None:
            return None
        assert isinstance(node.operand, Column)
        return replace(node, test=TextTest(_parameters(snapshot, node.operand.path)))

    return replace(condition, root=substituted(condition.root, tested))


def _parameters(snapshot: Snapshot, path: Sequence[str]) -> TextParameters:
    from lance_spark.index.text.analysis.parameters import UNINDEXED  # most scans ask for no words
    from lance_spark.table.scan.text_parameters import text_parameters

    field = segments_of(snapshot).field(path)
    if field is None:
        return UNINDEXED  # a table of a namespace may lack the column
    return text_parameters(snapshot, field) or UNINDEXED
