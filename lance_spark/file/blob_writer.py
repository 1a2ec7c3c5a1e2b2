"""Writes the values of blob columns while a data file is written; pages get descriptors of their locations.

Version 1 stores all values in the data file. Version 2 stores small values there, larger ones together in separate files (packed), and the
largest ones in one file each (dedicated). Field metadata sets the limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa

from lance_spark.arrow.validity import validity_of
from lance_spark.file.checksums import SummedOutput
from lance_spark.layouts.choose.encoding_options import BlobThresholds
from lance_spark.layouts.levels import assemble
from lance_spark.layouts.values.to_arrow import BLOB_V1, BLOB_V2
from lance_spark.layouts.values.to_blocks import bytes_of
from lance_spark.schema.blobs import BlobKind
from lance_spark.schema.schema import Field

Put = Callable[[memoryview], tuple[int, int]]
"""Writes bytes to the data file, aligned, and returns their position and size."""


class Sidecars(Protocol):
    """The sidecar files of a data file."""

    def begin(self, blob_id: int) -> BinaryIO:
        """A new sidecar with this id, to write to until `end`."""

    def end(self, blob_id: int) -> None:
        """Finish a sidecar."""


@dataclass
class _Pack:
    """The current packed file of a column, and its size so far."""

    blob_id: int
    out: SummedOutput


class BlobWriter:
    """Writes the blobs of one data file."""

    def __init__(self, put: Put, sidecars: Sidecars | None) -> None:
        self._put = put
        self._sidecars = sidecars
        self._packs: dict[int, _Pack] = {}
        self._written: list[SummedOutput] = []

    def place(self, field: Field, array: pa.Array, *, version_2: bool) -> pa.Array:
        """Write the values of the blob column `field`. Returns `array`, one of those of `split`, with descriptors instead of values."""
        depth = _depth(array.type)
        values = assemble.leaf_of(array, depth)
        offsets, data = _bytes(values)
        sizes = np.diff(offsets)
        if values.null_count:
            sizes[np.asarray(values.is_null())] = 0
        there = np.flatnonzero(sizes)
        pieces = [data[offsets[i] : offsets[i] + sizes[i]].data for i in there]
        if version_2:
            descriptors = self._place_2(field, sizes, pieces)
        else:
            positions = np.zeros(len(sizes), np.uint64)
            positions[sizes > 0] = [self._put(piece)[0] for piece in pieces]
            descriptors = [pa.array(positions), pa.array(sizes.astype(np.uint64))]
        validity = [validity_of(values)]
        made = pa.Array.from_buffers(BLOB_V2 if version_2 else BLOB_V1, len(values), validity, children=descriptors)
        return assemble.with_leaf(array, depth, made)

    def finish(self) -> None:
        """Finish the sidecars that are still open."""
        for pack in self._packs.values():
            self._end(pack.blob_id)
        self._packs = {}

    def sums(self) -> list[tuple[int, np.ndarray]]:
        """The size of each sidecar and the checksums of its blocks, by id from 1; call once, at the end."""
        return [(out.size, out.take_sums()) for out in self._written]

    def _place_2(self, field: Field, sizes: np.ndarray, pieces: list[memoryview]) -> list[pa.Array]:
        """The columns of descriptors."""
        limits = BlobThresholds.of(field)
        kinds = np.full(len(sizes), BlobKind.INLINE, np.uint8)
        kinds[sizes > limits.inline] = BlobKind.PACKED
        kinds[sizes > limits.dedicated] = BlobKind.DEDICATED
        positions, ids = np.zeros(len(sizes), np.uint64), np.zeros(len(sizes), np.uint32)
        for i, piece in zip(np.flatnonzero(sizes).tolist(), pieces):
            if kinds[i] == BlobKind.INLINE:
                positions[i] = self._put(piece)[0]
            elif kinds[i] == BlobKind.PACKED:
                ids[i], positions[i] = self._pack(field, piece, limits.pack)
            else:
                ids[i] = self._dedicate(piece)
        uris = pa.repeat("", len(sizes))
        return [pa.array(kinds), pa.array(positions), pa.array(sizes.astype(np.uint64)), pa.array(ids), uris]

    def _begin(self) -> tuple[int, SummedOutput]:
        assert self._sidecars is not None, "blobs of version 2 need a place for files beside the data file"
        blob_id = len(self._written) + 1
        self._written.append(SummedOutput(self._sidecars.begin(blob_id)))
        return blob_id, self._written[-1]

    def _end(self, blob_id: int) -> None:
        assert self._sidecars is not None
        self._written[blob_id - 1].flush()
        self._sidecars.end(blob_id)

    def _pack(self, field: Field, piece: memoryview, most: int) -> tuple[int, int]:
        """The id of the packed file that `piece` was written to, and the position in it."""
        pack = self._packs.get(field.id)
        if pack is not None and pack.out.size + len(piece) > most:
            self._end(pack.blob_id)
            pack = None
        if pack is None:
            pack = self._packs[field.id] = _Pack(*self._begin())
        at = pack.out.size
        pack.out.put(piece)
        return pack.blob_id, at

    def _dedicate(self, piece: memoryview) -> int:
        """The id of the dedicated file that `piece` was written to."""
        blob_id, out = self._begin()
        out.put(piece)
        self._end(blob_id)
        return blob_id


def _depth(t: pa.DataType) -> int:
    """The number of structs and lists around the values."""
    depth = 0
    while pa.types.is_nested(t):
        t, depth = t.field(0).type, depth + 1
    return depth


def _bytes(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The offsets of large_binary values, and the bytes that they refer to."""
    if not len(values):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    _, offsets, data = values.buffers()
    return np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1], bytes_of(data)
