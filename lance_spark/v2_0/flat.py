"""Flat: fixed-width values back to back in one buffer, which may be compressed as a whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark import spans as sp
from lance_spark.byte_ranges import ByteRange, Bytes
from lance_spark.columns import Steps
from lance_spark.encodings.general import decompress
from lance_spark.errors import CorruptFileError
from lance_spark.spans import Spans
from lance_spark.v2_0.encoding import bit_width, fixed_width_array


@dataclass(frozen=True)
class Flat:
    """Values of `bits` bits each, 1 or a multiple of 8. `compression` is the scheme of the buffer, None for raw bytes."""

    bits: int
    buffer: ByteRange
    compression: str | None = None

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values; only a compressed buffer is read whole."""
        if bit_width(t) != self.bits:
            raise CorruptFileError(f"values of {self.bits} bits in a column of {t}")
        if self.compression is None:
            data = yield from read_bits(self.buffer, self.bits, spans)
        else:
            (packed,) = yield [self.buffer]
            data = cut_bits(decompress(self.compression, packed), self.bits, spans)
        return fixed_width_array(t, sp.count(spans), data)


def read_bits(buffer: ByteRange, bits: int, spans: Spans) -> Steps[Bytes]:
    """The bytes of the values of `spans`, joined; bits are moved so that the first value starts in bit 0."""
    check_spans(bits, spans, buffer.stop - buffer.start)
    first, stop = spans[:, 0] * bits // 8, (spans[:, 1] * bits + 7) // 8
    parts = yield [ByteRange(buffer.start + a, buffer.start + b) for a, b in zip(first.tolist(), stop.tolist())]
    if bits % 8 == 0:
        return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.uint8)])
    return join_bits(parts, bits, spans)


def cut_bits(data: Bytes, bits: int, spans: Spans) -> Bytes:
    """As `read_bits`, from a buffer that is in memory."""
    check_spans(bits, spans, len(data))
    first, stop = spans[:, 0] * bits // 8, (spans[:, 1] * bits + 7) // 8
    parts = [data[a:b] for a, b in zip(first.tolist(), stop.tolist())]
    if bits % 8 == 0:
        return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.uint8)])
    return join_bits(parts, bits, spans)


def check_spans(bits: int, spans: Spans, size: int) -> None:
    """Raise CorruptFileError unless the values of `spans` lie in a buffer of `size` bytes."""
    last = int(spans[-1, 1]) if len(spans) else 0
    if (last * bits + 7) // 8 > size:
        raise CorruptFileError(f"{last} values of {bits} bits do not fit a buffer of {size} bytes")


def join_bits(parts: list[Bytes], bits: int, spans: Spans) -> Bytes:
    """The bits of `spans` moved together, `parts` being the bytes that hold the values of each span."""
    skip = (spans[:, 0] * bits % 8).tolist()
    if len(parts) == 1 and skip == [0]:
        return parts[0]
    lengths = ((spans[:, 1] - spans[:, 0]) * bits).tolist()
    pieces = [np.unpackbits(p, bitorder="little")[s : s + n] for p, s, n in zip(parts, skip, lengths)]
    return np.packbits(np.concatenate([*pieces, np.empty(0, np.uint8)]), bitorder="little")
