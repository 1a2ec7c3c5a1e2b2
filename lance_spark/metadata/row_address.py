"""Row addresses: a fragment id and an offset in one number. Implements "Row Address" of the row id and lineage specification."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_OFFSET = np.uint64(2**32 - 1)
_BITS = np.uint64(32)


class RowAddress(int):
    """A row address: the fragment id in the upper 32 bits, the offset in the fragment in the lower 32 bits."""

    @classmethod
    def of(cls, fragment_id: int, offset: int) -> RowAddress:
        """The address of a row."""
        return cls(fragment_id << 32 | offset)

    @property
    def fragment_id(self) -> int:
        """The id of the fragment."""
        return self >> 32

    @property
    def offset(self) -> int:
        """The row's position in the fragment, counting deleted rows."""
        return self & 0xFFFFFFFF


def addresses_of(fragment_id: int, offsets: range | np.ndarray) -> np.ndarray:
    """The addresses (uint64) of the rows at these offsets of a fragment."""
    first = fragment_id << 32
    if isinstance(offsets, range):
        return np.arange(first + offsets.start, first + offsets.stop, dtype=np.uint64)
    return offsets.astype(np.uint64) + np.uint64(first)


def fragment_ids(addresses: np.ndarray) -> np.ndarray:
    """The id of the fragment (uint64) of each address (uint64)."""
    ids: np.ndarray = addresses >> _BITS
    return ids


def by_fragment(addresses: np.ndarray) -> Iterable[tuple[int, np.ndarray]]:
    """Group row addresses by fragment: pairs of a fragment id and offsets (uint32)."""
    fragments = fragment_ids(addresses)
    is_first = np.append(True, fragments[1:] != fragments[:-1])
    starts = np.flatnonzero(is_first[: len(addresses)])
    ids = fragments[starts].tolist()
    offsets = (addresses & _OFFSET).astype(np.uint32)
    if len(set(ids)) == len(ids):
        return list(zip(ids, np.split(offsets, starts[1:])))
    return [(i, offsets[fragments == i]) for i in sorted(set(ids))]
