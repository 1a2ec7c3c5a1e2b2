"""The fragments of a manifest, parsed on access, since a table may have 100,000 of them.

Opening and appending need only ids and row counts, which are read for all fragments at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import cast, overload

import numpy as np

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.messages import discard_unknown_fields, parse_message
from lance_spark.errors import CorruptFileError
from lance_spark.metadata.fragment import Fragment, Reading, read_fragment, write_fragment
from lance_spark.metadata.fragment_messages import ENOUGH, NO_FILE, counted, own_files

_MAX_ID = 2**32 - 1
_MAX_ROWS = 2**32


class Fragments(Sequence[Fragment]):
    """An immutable sequence of fragments, equal to any sequence of equal fragments; parsed fragments are cached."""

    def __init__(self, items: Iterable[Fragment | bytes], name: str = "", counts: np.ndarray | None = None) -> None:
        """`items` are fragments or serialised messages; `name` is their file, for errors. `counts` can be passed if known."""
        self._items = list(items)
        self._name = name
        self._reading = Reading(unknown=False)
        if counts is not None:
            self.__dict__["counts"] = counts

    @cached_property
    def counts(self) -> np.ndarray:
        """One int64 row per fragment: id, `physical_rows`, deleted rows (0: not recorded, -1: no deletion file), 1 if it has data files."""
        if set(map(type, self._items)) == {bytes}:
            return self._counted(cast(list[bytes], self._items))
        numbers = np.empty((len(self._items), 4), dtype=np.int64)
        messages = {i: item for i, item in enumerate(self._items) if isinstance(item, bytes)}
        numbers[list(messages)] = self._counted(list(messages.values()))
        for i, item in enumerate(self._items):
            if isinstance(item, Fragment):
                numbers[i] = _numbers(item)
        return numbers

    def _counted(self, messages: Sequence[bytes]) -> np.ndarray:
        if len(messages) >= ENOUGH and (numbers := counted(messages)) is not None and numbers.max(initial=0) <= _MAX_ID:
            return numbers
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

    def _parsed_places(self) -> list[int]:
        """The places of the fragments that are parsed. An operation has changed few of very many."""
        return [i for i, kind in enumerate(map(type, self._items)) if kind is not bytes]

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

    def changed(self, updated: Mapping[int, Fragment], removed: Iterable[int]) -> Fragments:
        """Replace the fragments with the ids in `updated` and drop the `removed` ones."""
        items, counts = list(self._items), self.counts
        if updated:
            counts = counts.copy()
            for i in np.flatnonzero(np.isin(self.ids, list(updated))).tolist():
                items[i] = updated[int(self.ids[i])]
                counts[i] = _numbers(updated[int(self.ids[i])])
        left = ~np.isin(self.ids, list(removed))
        if left.all():
            return Fragments(items, self._name, counts)
        return Fragments([items[i] for i in np.flatnonzero(left).tolist()], self._name, counts[left])

    def ordered(self, edit: Callable[[Fragment], Fragment]) -> Fragments:
        """Sort the fragments by id and apply `edit` to them, except to unparsed ones, which no operation has changed."""
        self._check_files()
        if self._ascending:
            items, counts = list(self._items), self.counts
        else:
            order = np.argsort(self.ids)
            items, counts = [self._items[i] for i in order.tolist()], self.counts[order]
        edited = Fragments(items, self._name, counts)
        for i in edited._parsed_places():
            edited._items[i] = edit(edited[i])
        return edited

    def of_ids(self, ids: Iterable[int]) -> dict[int, Fragment]:
        """The existing fragments with these ids, by id."""
        places = np.flatnonzero(np.isin(self.ids, list(ids))).tolist()
        return {self[i].id: self[i] for i in places}

    def messages(self) -> list[bytes]:
        """The serialised DataFragment message of each fragment."""
        found = list(self._items)
        for i in self._parsed_places():
            found[i] = _serialised(self[i])
        return cast(list[bytes], found)

    def own_files(self) -> tuple[list[str], Iterable[Fragment]]:
        """The paths of the data files of fragments that name no other files, and all other fragments. Of very many, few are parsed."""
        if len(self._items) < ENOUGH:
            return [], self
        parsed = self._parsed_places()
        messages = list(self._items)
        for i in parsed:
            messages[i] = b""
        paths, plain = own_files(cast(list[bytes], messages))
        plain[parsed] = False
        return paths, (self[i] for i in np.flatnonzero(~plain).tolist())

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Fragment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Fragment, ...]: ...
    def __getitem__(self, index: int | slice) -> Fragment | tuple[Fragment, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        item = self._items[index]
        if isinstance(item, bytes):
            item = self._items[index] = self._parsed(item)
        return item

    def __iter__(self) -> Iterator[Fragment]:
        return map(self.__getitem__, range(len(self._items)))

    def __add__(self, others: Iterable[Fragment]) -> Fragments:
        more = Fragments(others)
        return Fragments([*self._items, *more._items], self._name, np.concatenate([self.counts, more.counts]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return repr(tuple(self))

    def _parsed(self, data: bytes) -> Fragment:
        message = parse_message(pb.DataFragment, data, f"{self._name}: a fragment")
        try:
            # Looking for unknown fields is slower than reading the known ones, and there are rarely any.
            reading = Reading() if discard_unknown_fields(message) else self._reading
            return read_fragment(message if reading is self._reading else pb.DataFragment.FromString(data), reading)
        except CorruptFileError as e:
            raise CorruptFileError(f"{self._name}: {e}") from e


def _numbers(fragment: Fragment) -> tuple[int, int, int, bool]:
    """The row of `Fragments.counts` of a fragment."""
    deleted = NO_FILE if fragment.deletion is None else fragment.deletion.num_deleted or 0
    return fragment.id, fragment.physical_rows, deleted, bool(fragment.files)


def _serialised(fragment: Fragment) -> bytes:
    message = pb.DataFragment()
    write_fragment(fragment, message)
    return message.SerializeToString()
