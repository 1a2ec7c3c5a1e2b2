"""Blobs: values outside of pages; pages contain their descriptors.

Version 1 (2.1) implements "Blob Page Layout" of the file encoding page: position and size in the same file; if the size is 0, the position
is 0 for an empty value, else definition level << 16 | repetition level. Version 2 (since 2.2) stores a packed struct (`arrow.BLOB_V2`) and
has more places: a file beside the data file, shared (packed) or of one blob (dedicated), or any URI (external).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.arrow import views
from lance_spark.arrow.validity import validity_of
from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.levels import assemble
from lance_spark.layouts.levels.assemble import Path, nest
from lance_spark.layouts.levels.read import unravel
from lance_spark.layouts.nodes.page_layouts import Blob
from lance_spark.layouts.values.to_arrow import BLOB_V1
from lance_spark.reading.steps import Steps
from lance_spark.schema.blobs import BlobKind


class SidecarRange(ByteRange):
    """Bytes of the sidecar of the data file with this id, which holds one blob or several packed ones."""

    blob_id: int

    @classmethod
    def of(cls, blob_id: int, start: int, stop: int) -> SidecarRange:
        """Bytes `start` to `stop` (exclusive) of the file with this id."""
        made = cls(start, stop)
        made.blob_id = blob_id
        return made


class ExternalRange(ByteRange):
    """Bytes of the object at `uri`, which is relative to the base path `base_id` (0: absolute). An empty range goes to the end."""

    uri: str
    base_id: int

    @classmethod
    def of(cls, uri: str, base_id: int, start: int, stop: int) -> ExternalRange:
        """Bytes `start` to `stop` (exclusive) of the object."""
        made = cls(start, stop)
        made.uri, made.base_id = uri, base_id
        return made


class ManagedRange(ExternalRange):
    """Bytes of the file at the path `uri` below the root of the table that the data file belongs to."""


def locate(layout: Blob, descriptors: pa.Array, path: Path) -> pa.Array:
    """The nested array of a page's descriptors of version 1, whose positions also carry the definition levels."""
    if layout.structure.num_lists:
        raise UnsupportedFeatureError("lists of blobs are not supported in a blob page")
    positions, sizes = descriptors.field(0).to_numpy(), descriptors.field(1).to_numpy()
    levels = np.where(sizes == 0, positions >> np.uint64(16), np.uint64(0))
    if len(levels) and levels.max() > 0xFFFF:
        raise CorruptFileError(f"definition level {levels.max()} of a blob descriptor is out of bounds")
    slots = unravel(layout.structure, None, levels.astype(np.uint16), len(levels))
    validity = None if slots[0].validity is None else pa.py_buffer(slots[0].validity)
    children = [descriptors.field(0), descriptors.field(1)]
    return nest(path, slots, pa.Array.from_buffers(BLOB_V1, len(levels), [validity], children=children))


_LARGE_BLOB = 16 << 10
"""Blobs are viewed where they were read if they have so many bytes each; smaller ones are copied together first."""


def load(path: Path, array: pa.Array, as_views: bool = False) -> Steps[pa.Array]:
    """`array`, a column of the fields `path` whose leaf has descriptors, with bytes, or with the descriptors that users see, in their
    place. `as_views`: the bytes may be an array of `arrow.views`.
    """
    depth = len(path) - 1
    descriptors = assemble.leaf_of(array, depth)
    if path[-1].descriptors:
        leaf = described(descriptors, path[-1].type)
    else:
        leaf = yield from _values(descriptors, as_views)
    return assemble.with_leaf(array, depth, leaf)


def described(descriptors: pa.Array, t: pa.DataType) -> pa.Array:
    """Stored descriptors as type `t`, that of a field with `descriptors`."""
    validity = validity_of(descriptors)
    if [f.name for f in t] != [f.name for f in descriptors.type]:
        raise CorruptFileError("expected blobs of the column's version, found the other version")
    children = [_without_nulls(descriptors.field(i)).cast(f.type) for i, f in enumerate(t)]
    return pa.Array.from_buffers(t, len(descriptors), [validity], children=children)


def _without_nulls(part: pa.Array) -> pa.Array:
    return part.fill_null("" if pa.types.is_string(part.type) else 0) if part.null_count else part


def _values(descriptors: pa.Array, as_views: bool) -> Steps[pa.Array]:
    valid = np.asarray(descriptors.is_valid())
    columns = {f.name: _without_nulls(descriptors.field(i)) for i, f in enumerate(descriptors.type)}
    positions, sizes = columns["position"].to_numpy(), np.where(valid, columns["size"].to_numpy(), np.uint64(0))
    kinds = columns["kind"].to_numpy() if "kind" in columns else np.zeros(len(valid), np.uint8)
    if (kinds[valid] > BlobKind.MANAGED).any():
        raise UnsupportedFeatureError(f"a blob of kind {kinds[valid].max()} is not supported")
    there = np.flatnonzero((sizes > 0) | (valid & (kinds == BlobKind.EXTERNAL)))
    if (positions[there] >= 2**62).any() or (sizes[there] >= 2**62).any():
        raise CorruptFileError("the position or size of a blob is beyond the end of any file")
    places = zip(positions[there].tolist(), sizes[there].tolist())
    wanted = [ByteRange(position, position + size) for position, size in places]
    if kinds[there].any():
        wanted = _places(wanted, kinds[there], *(columns[name].take(pa.array(there)) for name in ("blob_id", "blob_uri")))
    answers = (yield wanted) if wanted else []
    lengths = np.zeros(len(sizes), np.int64)
    lengths[there] = [len(answer) for answer in answers]
    if as_views and len(answers) and min(map(len, answers)) >= _LARGE_BLOB and views.fit(answers):
        return _views(answers, there, valid)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = np.concatenate([*answers, np.empty(0, np.uint8)])
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def _views(blobs: Sequence[Bytes], there: np.ndarray, valid: np.ndarray) -> pa.Array:
    """Views of blobs, at the places `there`; the other values are empty, or null where `valid` is not set."""
    found = np.zeros((len(valid), 4), np.int32)
    found[there, 0] = [len(blob) for blob in blobs]
    found[there, 1] = np.concatenate([blob[:4] for blob in blobs]).view(np.int32)
    found[there, 2] = np.arange(len(blobs))
    return views.of_buffers(found, blobs, None if valid.all() else valid)


def _places(ranges: list[ByteRange], kinds: np.ndarray, ids: pa.Array, uris: pa.Array) -> list[ByteRange]:
    """The ranges of blobs of these kinds, each with the file that it is in."""
    return [place(r, *rest) for r, *rest in zip(ranges, kinds.tolist(), ids.to_pylist(), uris.to_pylist())]


def place(where: ByteRange, kind: int, blob_id: int, uri: str) -> ByteRange:
    """The range `where` in the file that contains a blob of version 2 of this kind."""
    if kind == BlobKind.EXTERNAL:
        return ExternalRange.of(uri, blob_id, *where)
    if kind == BlobKind.MANAGED:
        return ManagedRange.of(uri, 0, *where)
    return where if kind == BlobKind.INLINE else SidecarRange.of(blob_id, *where)
