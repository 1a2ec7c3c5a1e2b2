"""The fragments of a manifest, parsed on access, since a table may have a million of them.

Opening, planning and appending need only ids, row counts and sizes, which are read for all fragments at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, overload

import numpy as np

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.buffers.messages import discard_unknown_fields, parse_message
from lance_spark.buffers.wire import BYTES, FEW, Unusual, run, varint
from lance_spark.errors import CorruptFileError
from lance_spark.metadata.fragment import Fragment, HeldDeletions, LogFragment, Reading, read_fragment, write_fragment
from lance_spark.metadata.fragment_messages import NO_FILE, column_bytes, counted, layouts, own_files

_MAX_ID = 2**32 - 1
_MAX_ROWS = 2**32
_GIVEN = -1
"""The start of the message of a fragment that has none, since it is not from a manifest."""

_FIELD = pb.Manifest.DESCRIPTOR.fields_by_name["fragments"].number
_FIELD_TAG = varint(_FIELD << 3 | BYTES)


class Fragments(Sequence[Fragment]):
    """An immutable sequence of fragments, equal to any sequence of equal fragments; parsed fragments are cached."""

    def __init__(self, given: Iterable[Fragment] = (), name: str = "") -> None:
        """The `given` fragments. `name` is their file, for errors."""
        self._given = dict(enumerate(given))
        self._data: Bytes = np.empty(0, np.uint8)
        self._spans = np.full((len(self._given), 2), _GIVEN, np.int64)
        self._name = name
        self._reading = Reading(unknown=False)
        # By the places of their messages. All selections of the same fragments share it.
        self._parsed: dict[tuple[int, int], Fragment] = {}

    @classmethod
    def of_messages(cls, data: Bytes, spans: np.ndarray, name: str) -> Fragments:
        """The fragments whose DataFragment messages, fields of a manifest message, are at `spans` of `data`: rows of start and end."""
        found = cls((), name)
        found._data, found._spans = data, spans
        return found

    def _with(self, given: dict[int, Fragment], spans: np.ndarray, counts: np.ndarray) -> Fragments:
        """Other fragments, most with messages in the same data."""
        found = Fragments.__new__(Fragments)
        found.__dict__.update(
            _given=given, _data=self._data, _spans=spans, _name=self._name, _reading=self._reading, _parsed=self._parsed, counts=counts
        )
        return found

    @cached_property
    def counts(self) -> np.ndarray:
        """One int64 row per fragment: id, `physical_rows`, deleted rows (0: not recorded, -1: no deletion file), 1 if it has data files."""
        given = self.given
        if not given:
            return self._counted(self._spans)
        numbers = np.empty((len(self), 4), dtype=np.int64)
        there = self._spans[:, 0] != _GIVEN
        numbers[there] = self._counted(self._spans[there])
        numbers[given] = [_numbers(fragment) for fragment in self._given.values()]
        return numbers

    @property
    def given(self) -> list[int]:
        """The places of the fragments that are not from a manifest."""
        return list(self._given)

    def _counted(self, spans: np.ndarray) -> np.ndarray:
        numbers = None
        if len(spans) > FEW:
            with contextlib.suppress(Unusual):
                numbers = counted(self._data, spans)
        if numbers is not None and numbers.max(initial=0) <= _MAX_ID:
            return numbers
        messages = [self._data[start:stop].tobytes() for start, stop in spans.tolist()]
        whole = pb.Manifest(fragments=messages).SerializeToString()
        parsed = parse_message(pb.ManifestCounts, whole, f"{self._name}: fragments").fragments
        ids = [f.id for f in parsed]
        if max(ids, default=0) > _MAX_ID:
            raise CorruptFileError(f"{self._name}: fragment id {max(ids)} does not fit 32 bits")
        physical = [f.physical_rows for f in parsed]
        deleted = [f.deletion_file.num_deleted_rows if f.HasField("deletion_file") else NO_FILE for f in parsed]
        for rows in (physical, deleted):
            if (most := max(rows, default=0)) > _MAX_ROWS:
                raise CorruptFileError(f"{self._name}: fragment {ids[rows.index(most)]} has {most} rows, expected at most 2^32")
        return np.array([ids, physical, deleted, [f.HasField("files") for f in parsed]], np.int64).T

    def _check_files(self) -> None:
        """Raise CorruptFileError if a fragment has no data files: its rows are unreadable, and pylance rejects it."""
        if len(without := self.ids[self.counts[:, 3] == 0]):
            advice = "restore a version that has them, or overwrite the table"
            raise CorruptFileError(f"{self._name}: fragment {without[0]} has no data files; {advice}")

    @property
    def ids(self) -> np.ndarray:
        """The id of each fragment."""
        return self.counts[:, 0]

    @cached_property
    def shared_ids(self) -> np.ndarray:
        """Ids of more than one fragment, which occur in some tables of Lance 0.16."""
        ids = self.ids if self._ascending else np.sort(self.ids)
        return np.unique(ids[1:][ids[1:] == ids[:-1]])

    @property
    def _ascending(self) -> bool:
        """Whether each id is greater than the one before it."""
        return bool((self.ids[1:] > self.ids[:-1]).all())

    @cached_property
    def live_rows(self) -> np.ndarray:
        """The number of live rows of each fragment; -1 if a required number is missing or inconsistent. Must not be written to."""
        self._check_files()
        _, physical, deleted, _ = self.counts.T
        known = (physical > 0) & (deleted != 0) & (deleted <= physical)
        return np.where(known, physical - np.maximum(deleted, 0), -1)

    @property
    def have_deletions(self) -> bool:
        """True if any fragment has a deletion file."""
        return bool((self.counts[:, 2] != NO_FILE).any())

    def chosen(self, places: np.ndarray | slice) -> Fragments:
        """The fragments at these places, in this order."""
        if isinstance(places, np.ndarray) and len(places) == len(self) and np.array_equal(places, np.arange(len(self))):
            return self
        numbers = (range(len(self))[places] if isinstance(places, slice) else places.tolist()) if self._given else ()
        given = {i: self._given[place] for i, place in enumerate(numbers) if place in self._given}
        return self._with(given, self._spans[places], self.counts[places])

    def changed(self, updated: Mapping[int, Fragment], removed: Iterable[int]) -> Fragments:
        """Replace the fragments with the ids in `updated` and drop the `removed` ones."""
        places = np.flatnonzero(np.isin(self.ids, list(updated))).tolist() if updated else ()
        found = self.replaced({i: updated[int(self.ids[i])] for i in places})
        left = ~np.isin(self.ids, list(removed))
        return found if left.all() else found.chosen(np.flatnonzero(left))

    def replaced(self, updated: Mapping[int, Fragment]) -> Fragments:
        """Replace the fragments at the places in `updated`."""
        spans, counts = self._spans.copy(), self.counts.copy()
        for i, fragment in updated.items():
            spans[i], counts[i] = _GIVEN, _numbers(fragment)
        return self._with({**self._given, **updated}, spans, counts) if updated else self

    def ordered(self, edit: Callable[[Fragment], Fragment]) -> Fragments:
        """Sort the fragments by id and apply `edit` to those that are not from a manifest."""
        self._check_files()
        found = self if self._ascending else self.chosen(np.argsort(self.ids))
        return found.replaced({i: edit(fragment) for i, fragment in found._given.items()})

    def of_ids(self, ids: Iterable[int]) -> dict[int, Fragment]:
        """The existing fragments with these ids, by id."""
        places = np.flatnonzero(np.isin(self.ids, list(ids))).tolist()
        return {self[i].id: self[i] for i in places}

    @cached_property
    def _firsts(self) -> np.ndarray:
        """The places of the fragments whose fields do not follow the one before, as those of a manifest do; the first is one of them."""
        starts, stops = self._spans.T
        sizes = stops - starts
        tagged = 2 + (sizes >= 1 << 7) + (sizes >= 1 << 14) + (sizes >= 1 << 21)
        follows = (starts[1:] - stops[:-1] == tagged[1:]) & (starts[1:] != _GIVEN)
        return np.append(0, 1 + np.flatnonzero(~follows))[: len(starts)]

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[bytes | memoryview]:
        """The fragments at the places from `start` to `stop` as fields of a manifest message: bytes that belong together, in order."""
        stop = len(self) if stop is None else stop
        between = self._firsts[self._firsts.searchsorted(start, "right") : self._firsts.searchsorted(stop)].tolist()
        for first, last in pairwise((start, *between, stop)) if start < stop else ():
            begin, end = self._spans.item(first, 0), self._spans.item(last - 1, 1)
            if begin == _GIVEN:
                yield from (_FIELD_TAG, varint(len(message := _serialised(self._given[first]))), message)
            else:
                # What follows the first message is the same in any manifest.
                yield from (_FIELD_TAG, varint(self._spans.item(first, 1) - begin), self._data[begin:end].data)

    def fields(self, start: int = 0, stop: int | None = None) -> bytes:
        """The fragments at the places from `start` to `stop` as fields of a serialised manifest message."""
        return b"".join(self.pieces(start, stop))

    def packed(self, start: int, stop: int) -> tuple[str, bytes, dict[int, Fragment]]:
        """The fragments at the places from `start` to `stop` as plain values, which pickle fast, for `unpacked`."""
        held = {i - start: f for i, f in self._given.items() if start <= i < stop and _is_held(f)}
        return self._name, self.fields(start, stop), held

    @classmethod
    def unpacked(cls, name: str, fields: bytes, held: dict[int, Fragment]) -> Fragments:
        """The fragments of `packed`."""
        data = np.frombuffer(fields, np.uint8)
        return cls.of_messages(data, run(data, 0, _FIELD)[0], name).replaced(held)

    def messages(self) -> list[bytes]:
        """The serialised DataFragment message of each fragment."""
        found = []
        for i, (start, stop) in enumerate(self._spans.tolist()):
            found.append(_serialised(self._given[i]) if start == _GIVEN else self._data[start:stop].tobytes())
        return found

    def _whole(self) -> Fragments:
        """The same fragments with messages."""
        if not self.given:
            return self
        data = np.frombuffer(self.fields(), np.uint8)
        return Fragments.of_messages(data, run(data, 0, _FIELD)[0], self._name)

    def own_files(self) -> tuple[list[str], Iterable[Fragment]]:
        """The paths of the data files of fragments that name no other files, and all other fragments. Of very many, few are parsed."""
        whole = self._whole()
        try:
            paths, plain = own_files(whole._data, whole._spans)
        except Unusual:
            return [], self
        return paths, (self[i] for i in np.flatnonzero(~plain).tolist())

    def column_bytes(self, ids: frozenset[int]) -> np.ndarray:
        """The bytes of each fragment's columns with these field ids, if all columns of a file are of equal size; -1 if unknown."""
        if len(self) <= FEW:
            return _column_bytes(self, ids)
        whole = self._whole()
        try:
            return column_bytes(whole._data, whole._spans, ids)
        except Unusual:
            return _column_bytes(self, ids)

    @cached_property
    def layouts(self) -> tuple[np.ndarray, list[int]]:
        """A number for each fragment, and the place of the first one with each number: equal ones have the same columns in their files.

        The versions of the files are the same, too.
        """
        whole = self._whole()
        try:
            numbers = layouts(whole._data, whole._spans)
        except Unusual:
            known: dict[object, int] = {}
            each = (tuple((f.fields, f.column_indices, f.version) for f in fragment.files) for fragment in self)
            numbers = np.fromiter((known.setdefault(layout, len(known)) for layout in each), np.int64, len(self))
        _, firsts, numbers = np.unique(numbers, return_index=True, return_inverse=True)
        return numbers, firsts.tolist()

    def __reduce__(self) -> tuple[Any, ...]:
        return Fragments.unpacked, self.packed(0, len(self))

    def __len__(self) -> int:
        return len(self._spans)

    @overload
    def __getitem__(self, index: int) -> Fragment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Fragment, ...]: ...
    def __getitem__(self, index: int | slice) -> Fragment | tuple[Fragment, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        place = range(len(self))[index]
        if place in self._given:
            return self._given[place]
        start, stop = self._spans[place].tolist()
        if (start, stop) not in self._parsed:
            self._parsed[start, stop] = self._read(self._data[start:stop].tobytes())
        return self._parsed[start, stop]

    def __iter__(self) -> Iterator[Fragment]:
        return map(self.__getitem__, range(len(self)))

    def __add__(self, others: Iterable[Fragment]) -> Fragments:
        more = Fragments(others)
        given = {**self._given, **{len(self) + i: fragment for i, fragment in more._given.items()}}
        return self._with(given, np.concatenate([self._spans, more._spans]), np.concatenate([self.counts, more.counts]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return repr(tuple(self))

    def _read(self, data: bytes) -> Fragment:
        message = parse_message(pb.DataFragment, data, f"{self._name}: a fragment")
        try:
            # Looking for unknown fields is slower than reading the known ones, and there are rarely any.
            reading = Reading() if discard_unknown_fields(message) else self._reading
            return read_fragment(message if reading is self._reading else pb.DataFragment.FromString(data), reading)
        except CorruptFileError as e:
            raise CorruptFileError(f"{self._name}: {e}") from e


def _numbers(fragment: Fragment) -> tuple[int, ...]:
    """The row of `Fragments.counts` of a fragment."""
    deleted = NO_FILE if fragment.deletion is None else fragment.deletion.num_deleted or 0
    return fragment.id, fragment.physical_rows, deleted, bool(fragment.files)


def _is_held(fragment: Fragment) -> bool:
    """Whether rows of the fragment, or which of them are deleted, are in memory only: no message says so."""
    return isinstance(fragment, LogFragment) or isinstance(fragment.deletion, HeldDeletions)


def _serialised(fragment: Fragment) -> bytes:
    message = pb.DataFragment()
    write_fragment(fragment, message)
    return message.SerializeToString()


def _column_bytes(fragments: Iterable[Fragment], ids: frozenset[int]) -> np.ndarray:
    """See `Fragments.column_bytes`."""
    shares: dict[tuple[int, ...], float] = {}  # most files have the same columns
    found = []
    for fragment in fragments:
        total = 0.0
        for file in fragment.files:
            if (share := shares.get(file.fields)) is None:
                share = shares[file.fields] = len(ids.intersection(file.fields)) / max(len(file.fields), 1)
            if share and file.size is None:
                total = -1
                break
            total += (file.size or 0) * share
        found.append(total)
    return np.array(found, np.float64)
