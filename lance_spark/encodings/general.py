"""General: buffers of another encoding compressed with LZ4 or zstd. Spec: "General".

LZ4: u32 size before compression, LZ4 block. zstd: u64 size before compression, zstd frame; older writers omitted the size.
Mini-block: buffer 0 of each chunk is compressed. Block: the buffer. Full zip: each value is compressed separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa

from lance_spark.arrow.views import INLINE_BYTES
from lance_spark.buffers import limits
from lance_spark.buffers.blocks import Block, Chunks, EncodedBuffer, EncodedChunks, Encoding, VariableWidth
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.buffers.memory import empty
from lance_spark.encodings.byte_stream_split import ByteStreamSplit
from lance_spark.encodings.flat import Flat, bytes_for, copy_together
from lance_spark.errors import CorruptFileError
from lance_spark.kernels import lz4
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U32, U, load32, load64, store32

Scheme = Literal["lz4", "zstd"]

_PREFIX: dict[Scheme, int] = {"lz4": 4, "zstd": 8}
_ZSTD_MAGIC = 0xFD2FB528
# A zstd block yields at most 128 KiB and takes at least 4 bytes.
_MAX_RATIO: dict[Scheme, int] = {"lz4": lz4.MAX_RATIO, "zstd": 1 << 15}
# Buffers may be padded before they are compressed.
_PADDING = 8
_LEAST_FRAME = 32
"""The bytes of the longest header of a value that is stored as it is, and of a few bytes of it."""
_STREAM_BYTES = 1 << 16
"""Read at a time, so that a stream which claims less than it has is stopped early."""


@dataclass(frozen=True)
class General(Encoding):
    """The buffers of `values`, compressed with `scheme`; `level` is the writer's compression level (None: default)."""

    scheme: Scheme
    level: int | None
    values: Encoding

    @property
    def num_buffers(self) -> int:
        """The number of buffers of `values`."""
        return self.values.num_buffers

    def decode_chunks(self, chunks: Chunks) -> Block:
        """The values of all chunks."""
        return self.values.decode_chunks(self.decompress_chunks(chunks))

    def decode_blocks(self, chunks: Chunks) -> Block:
        """The values of several blocks."""
        return self.values.decode_blocks(self.decompress_chunks(chunks))

    def decode_block(self, data: Bytes, count: int) -> Block:
        """The values of a block."""
        chunks = self.decompress_chunks(Chunks.of_block(data, count))
        return self.values.decode_block(chunks.data, count)

    def decode_values(self, values: Block) -> Block:
        """The decompressed values."""
        if not isinstance(values, VariableWidth):
            raise CorruptFileError("expected compressed values of variable width, found a fixed width")
        offsets = values.offsets.astype(np.int64)
        most = np.full(values.count, limits.MAX_BYTES)
        data, bounds = self._decompress(values.data, offsets[:-1], np.diff(offsets), most)
        small = bounds[-1] < 2**31 and values.offsets.dtype == np.int32
        return self.values.decode_values(VariableWidth(bounds.astype(np.int32) if small else bounds, data))

    def decompress_chunks(self, chunks: Chunks) -> Chunks:
        """`chunks` as encoded by `values`; a chunk's count bounds the size of its buffer 0."""
        if not len(chunks.starts):
            raise CorruptFileError(f"{self.scheme} compression of an encoding that has no buffers")
        most = _largest(self.values, chunks.counts)
        data, bounds = self._decompress(chunks.data, chunks.starts[0], chunks.sizes[0], most)
        starts, sizes = chunks.starts + len(data), chunks.sizes.copy()
        starts[0], sizes[0] = bounds[:-1], np.diff(bounds)
        if len(starts) > 1:
            data = np.concatenate([data, chunks.data])
        return Chunks(data, starts, sizes, chunks.counts)

    def _decompress(self, data: Bytes, starts: np.ndarray, sizes: np.ndarray, largest: np.ndarray) -> tuple[Bytes, np.ndarray]:
        """All buffers decompressed and concatenated, and the bounds of each; `largest` is the maximum size of each."""
        prefix = _PREFIX[self.scheme]
        short = np.flatnonzero(sizes < prefix)
        if len(short):
            raise CorruptFileError(f"{self.scheme} buffer {short[0]} has {sizes[short[0]]} bytes, too few for its header")
        heads = data[starts[:, None] + np.arange(prefix)].view(f"<u{prefix}").ravel()
        if self.scheme == "zstd" and (heads & np.uint64(0xFFFFFFFF) == _ZSTD_MAGIC).any():
            return _decompress_bare_frames(data, starts, sizes, largest)
        bad = np.flatnonzero(heads > np.minimum(largest, sizes * _MAX_RATIO[self.scheme]).astype(np.uint64))
        if len(bad):
            raise CorruptFileError(
                f"{self.scheme} buffer {bad[0]} of {sizes[bad[0]]} bytes declares a decompressed size of {heads[bad[0]]} bytes"
            )
        limits.check_bytes(float(heads.sum(dtype=np.float64)), f"{self.scheme} buffers")
        bounds = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(heads.astype(np.int64), out=bounds[1:])
        if self.scheme == "zstd":
            return _decompress_frames(data, starts + prefix, sizes - prefix, bounds), bounds
        out = empty(int(bounds[-1]))
        failed = lz4.decompress_blocks(data, starts + prefix, sizes - prefix, out, bounds)
        if failed >= 0:
            raise CorruptFileError(f"lz4 buffer {failed} does not decompress to the {heads[failed]} bytes that it declares")
        return out, bounds


def _largest(values: Encoding, counts: np.ndarray) -> np.ndarray:
    """The maximum size in bytes of buffer 0 of `counts` values."""
    while isinstance(values, ByteStreamSplit):
        values = values.values
    if isinstance(values, Flat):
        sizes: np.ndarray = np.minimum(bytes_for(counts, values.bits_per_value) + _PADDING, limits.MAX_BYTES)
        return sizes
    return np.full(len(counts), limits.MAX_BYTES)


def _decompress_frames(data: Bytes, starts: np.ndarray, sizes: np.ndarray, bounds: np.ndarray) -> Bytes:
    # Use one stream for all frames: creating the library's context takes longer than decompressing most chunks.
    if len(starts) > 1 and np.array_equal(_content_sizes(data, starts), np.diff(bounds)):
        compressed, _ = copy_together(data, starts, sizes)
        out = empty(int(bounds[-1]))
        try:
            with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(compressed)), "zstd") as stream:
                if stream.readinto(out) == len(out) and not stream.read(1):
                    return out
        except OSError as error:
            raise CorruptFileError(f"zstd buffers: {error}") from error
        raise CorruptFileError(f"zstd buffers do not decompress to the {len(out)} bytes that they declare")
    # Join at the end, because the declared sizes may be far too large.
    codec, frames = pa.Codec("zstd"), pa.py_buffer(data)
    parts = []
    for i, (start, size, expected) in enumerate(zip(starts.tolist(), sizes.tolist(), np.diff(bounds).tolist())):
        try:
            parts.append(codec.decompress(frames.slice(start, size), expected, asbytes=True))
        except OSError as error:
            raise CorruptFileError(f"zstd buffer {i} does not decompress to the {expected} bytes that it declares") from error
    return np.frombuffer(b"".join(parts), np.uint8)


def _content_sizes(data: Bytes, starts: np.ndarray) -> np.ndarray:
    """The content size in each frame's header, which the library checks when it decompresses; -1 if there is none.

    RFC 8878, 3.1.1.1: magic, descriptor, window descriptor (0 or 1 byte), dictionary (0 to 4), size (0 to 8).
    """
    heads = data[np.minimum(starts[:, None] + np.arange(18), len(data) - 1)]
    descriptor = heads[:, 4]
    single, flag = (descriptor >> 5) & 1, descriptor >> 6
    at = 5 + (1 - single) + np.array([0, 1, 2, 4])[descriptor & 3]
    width = np.where(flag == 0, single, np.array([0, 2, 4, 8])[flag])
    numbers = np.take_along_axis(heads, at[:, None] + np.arange(8), axis=1)
    used = np.where(np.arange(8) < width[:, None], numbers, 0).astype(np.uint8)
    numbers = used.view("<u8").ravel()
    # A size of two bytes is stored minus 256.
    added = np.where(width == 2, 256, 0).astype(np.uint64)
    sizes: np.ndarray = np.where(width == 0, -1, (numbers + added).astype(np.int64))
    return sizes


def _decompress_bare_frames(data: Bytes, starts: np.ndarray, sizes: np.ndarray, largest: np.ndarray) -> tuple[Bytes, np.ndarray]:
    parts, bounds = [], [0]
    for i, (start, size, most) in enumerate(zip(starts.tolist(), sizes.tolist(), largest.tolist())):
        decompressed = 0
        try:
            with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data[start : start + size])), "zstd") as stream:
                while part := stream.read(_STREAM_BYTES):
                    decompressed += len(part)
                    if decompressed > most:
                        raise CorruptFileError(f"zstd frame {i} decompresses to more than {most} bytes")
                    parts.append(part)
        except OSError as error:
            raise CorruptFileError(f"zstd frame {i}: {error}") from error
        bounds.append(bounds[-1] + decompressed)
        limits.check_bytes(bounds[-1], "zstd frames")
    return np.frombuffer(b"".join(parts), np.uint8), np.array(bounds, np.int64)


@kernel
def locate_stored(data: np.ndarray, first: int, last: int, views: np.ndarray, is_stored: np.ndarray) -> None:
    """Let views `first` to `last` of compressed values in `data` point to the values, where these are stored as they are.

    zstd stores what it cannot compress, such as pictures, in a frame of one raw block if it has at most 128 KiB (RFC 8878, 3.1.1).
    `is_stored` tells which views are of values; those of length 0 stay as they are.
    """
    for item in range(first, last):
        view = U(item * 16)
        size = np.int64(load32(views, view))
        if size < _LEAST_FRAME:
            is_stored[item] = size == 0
            continue
        start = np.int64(load32(views, view + U(12)))
        end = start + size
        descriptor = np.int64(data[start + 12])
        if np.int64(load32(data, U(start + 8))) != 0xFD2FB528 or descriptor & 15:
            continue  # no frame, or one with a checksum or a dictionary
        single, flag = (descriptor >> 5) & 1, descriptor >> 6
        at = start + 14 - single
        width = (1 << flag) if flag or single else 0
        content = np.int64(0)
        for i in range(width):
            content |= np.int64(data[at + i]) << (8 * i)
        content += 256 if width == 2 else 0
        at += width + 3
        block = np.int64(data[at - 3]) | np.int64(data[at - 2]) << 8 | np.int64(data[at - 1]) << 16
        length = block >> 3
        if block & 7 != 1 or at + length != end or length <= INLINE_BYTES or (width and content != length):
            continue
        if np.int64(load64(data, U(start))) != length:
            continue
        is_stored[item] = True
        store32(views, view, U32(length))
        store32(views, view + U(4), load32(data, U(at)))
        store32(views, view + U(12), U32(at))


def decompress_views(views: np.ndarray, buffers: Sequence[Bytes], are_compressed: np.ndarray) -> list[Bytes] | None:
    """Let views (int32 [n, 4]) of values that zstd has compressed point to the values, each in a buffer of its own.

    Returns all buffers; None for frames of older writers, which do not say how large the values are.
    """
    found, codec = list(buffers), pa.Codec("zstd")
    total = 0.0
    for i in np.flatnonzero(are_compressed).tolist():
        size, _, number, start = views[i].tolist()
        if size <= INLINE_BYTES:  # too few bytes for a frame, in the view itself
            return None
        data = buffers[number][start : start + size]
        declared = int.from_bytes(data[:8].tobytes(), "little")
        total += declared
        if declared & 0xFFFFFFFF == _ZSTD_MAGIC or declared > size * _MAX_RATIO["zstd"]:
            return None
        limits.check_bytes(total, "zstd buffers")
        try:
            value = np.frombuffer(codec.decompress(pa.py_buffer(data[8:]), declared), np.uint8)
        except OSError as error:
            raise CorruptFileError(f"zstd buffer {i} does not decompress to the {declared} bytes that it declares") from error
        views[i] = declared, 0, 0, 0
        if declared <= INLINE_BYTES:
            views[i].view(np.uint8)[4 : 4 + declared] = value
            continue
        views[i, 1:] = value[:4].view(np.int32)[0], len(found), 0
        found.append(value)
    return found


def encode_chunks(inner: EncodedChunks, scheme: Scheme, level: int | None = None) -> EncodedChunks:
    """`inner` with buffer 0 of each chunk compressed."""
    first = _compress(inner.buffers[0], scheme, level)
    return replace(inner, encoding=General(scheme, level, inner.encoding), buffers=(first, *inner.buffers[1:]))


def encode_block(inner: tuple[Encoding, bytes], scheme: Scheme, level: int | None = None) -> tuple[General, bytes]:
    """The compressed block `inner`."""
    encoding, data = inner
    buffer = EncodedBuffer(np.frombuffer(data, np.uint8), np.array([0, len(data)]))
    return General(scheme, level, encoding), _compress(buffer, scheme, level).data.tobytes()


def encode_values(inner: tuple[Encoding, VariableWidth], scheme: Scheme, level: int | None = None) -> tuple[General, VariableWidth]:
    """The encoded values `inner`, each compressed separately."""
    encoding, block = inner
    buffer = _compress(EncodedBuffer(block.data, block.offsets.astype(np.int64)), scheme, level)
    small = buffer.bounds[-1] < 2**31 and block.offsets.dtype == np.int32
    return General(scheme, level, encoding), VariableWidth(buffer.bounds.astype(np.int32) if small else buffer.bounds, buffer.data)


def _compress(buffer: EncodedBuffer, scheme: Scheme, level: int | None) -> EncodedBuffer:
    codec = pa.Codec("zstd", level) if scheme == "zstd" else pa.Codec("lz4_raw")
    prefix, raw, edges = _PREFIX[scheme], pa.py_buffer(buffer.data), buffer.bounds.tolist()
    parts = []
    for start, stop in pairwise(edges):
        parts += [(stop - start).to_bytes(prefix, "little"), codec.compress(raw.slice(start, stop - start), asbytes=True)]
    sizes = np.array([len(part) for part in parts], np.int64).reshape(-1, 2).sum(axis=1)
    bounds = np.zeros(len(edges), np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return EncodedBuffer(np.frombuffer(b"".join(parts), np.uint8), bounds)
