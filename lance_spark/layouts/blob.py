"""Blobs: values that lie outside of pages, which hold only where to find them.

Version 1 (2.1) implements "Blob Page Layout" of the file encoding page: position and size in the same file; of size 0 the position is 0
for an empty value, else definition level << 16 | repetition level. Version 2 (from 2.2 on) stores a packed struct (`arrow.BLOB_V2`)
and knows other places: a file beside the data file that is shared (packed) or the blob's own (dedicated), or any URI (external).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.byte_ranges import ByteRange
from lance_spark.columns import Steps
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts import assemble
from lance_spark.layouts.arrow import BLOB_V1
from lance_spark.layouts.assemble import Path, nest
from lance_spark.layouts.levels import unravel
from lance_spark.layouts.tree import Blob

INLINE, PACKED, DEDICATED, EXTERNAL = range(4)
"""Where a blob of version 2 lies, as its descriptor's `kind` says."""


class SidecarRange(ByteRange):
    """Bytes of the file that belongs to the data file and holds the blob, or the packed blobs, with this id."""

    blob_id: int

    @classmethod
    def of(cls, blob_id: int, start: int, stop: int) -> SidecarRange:
        """Bytes `start` to `stop` (exclusive) of the file with this id."""
        made = cls(start, stop)
        made.blob_id = blob_id
        return made


def locate(layout: Blob, descriptors: pa.Array, path: Path) -> pa.Array:
    """The nested array of a page's descriptors of version 1, whose positions also carry the definition levels."""
    if layout.structure.num_lists:
        raise UnsupportedFeatureError("lists of blobs in a blob page")
    positions, sizes = descriptors.field(0).to_numpy(), descriptors.field(1).to_numpy()
    levels = np.where(sizes == 0, positions >> np.uint64(16), np.uint64(0))
    if len(levels) and levels.max() > 0xFFFF:
        raise CorruptFileError(f"a blob descriptor with the definition level {levels.max()}")
    slots = unravel(layout.structure, None, levels.astype(np.uint16), len(levels))
    validity = None if slots[0].validity is None else pa.py_buffer(slots[0].validity)
    children = [descriptors.field(0), descriptors.field(1)]
    return nest(path, slots, pa.Array.from_buffers(BLOB_V1, len(levels), [validity], children=children))


def load(path: Path, array: pa.Array) -> Steps[pa.Array]:
    """`array`, a column of the fields `path`, with bytes in the place of its leaf's descriptors."""
    if len(path) == 1:
        return (yield from _values(array))
    field, child = path[0], path[1]
    validity = [assemble.validity_of(array)]
    if assemble.is_list(field):
        offsets, items = assemble.extents_of(array)
        validity.append(pa.py_buffer(offsets))
    elif assemble.is_fixed_size_list(field):
        items = assemble.list_items(array)
    else:
        items = array.field(0)
    items = yield from load(path[1:], items)
    inner = pa.field(child.name, items.type, child.nullable, dict(child.metadata) or None)
    if pa.types.is_struct(array.type):
        t = pa.struct([inner])
    elif pa.types.is_fixed_size_list(array.type):
        t = pa.list_(inner, array.type.list_size)
    else:
        t = pa.large_list(inner) if pa.types.is_large_list(array.type) else pa.list_(inner)
    return pa.Array.from_buffers(t, len(array), validity, children=[items])


def _values(descriptors: pa.Array) -> Steps[pa.Array]:
    valid = np.asarray(descriptors.is_valid())
    columns = {f.name: descriptors.field(i).fill_null(0).to_numpy() for i, f in enumerate(descriptors.type) if f.type != pa.string()}
    positions, sizes = columns["position"], np.where(valid, columns["size"], np.uint64(0))
    there = np.flatnonzero(sizes)
    if (positions[there] >= 2**62).any() or (sizes[there] >= 2**62).any():
        raise CorruptFileError("a blob beyond any file's end")
    wanted = [ByteRange(p, p + s) for p, s in zip(positions[there].tolist(), sizes[there].tolist())]
    if "kind" in columns:
        kinds, ids = columns["kind"], columns["blob_id"]
        if (valid & (kinds == EXTERNAL)).any():
            raise UnsupportedFeatureError("blobs that are stored at a URI of their own (external)")
        if (valid & (kinds > EXTERNAL)).any():
            raise UnsupportedFeatureError(f"a blob of kind {kinds[valid].max()}")
        beside = kinds[there] != INLINE
        wanted = [SidecarRange.of(i, *r) if b else r for i, r, b in zip(ids[there].tolist(), wanted, beside.tolist())]
    answers = (yield wanted) if wanted else []
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes.astype(np.int64), out=offsets[1:])
    data = np.concatenate([*answers, np.empty(0, np.uint8)])
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), [validity, pa.py_buffer(offsets), pa.py_buffer(data)])
