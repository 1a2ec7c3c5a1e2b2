"""Bitpacked and BitpackedForNonNeg: integers packed to fewer bits, an option of writers before version 0.21."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.buffers.limits import check_bytes
from lance_spark.encodings.fastlanes import BLOCK, block_words, unpack_blocks, word_type
from lance_spark.errors import CorruptFileError
from lance_spark.reading import spans as sp
from lance_spark.reading.flat_buffers import bit_width, fixed_width_array, read_bits
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps


@dataclass(frozen=True)
class Bitpacked:
    """`packed` bits of each integer of `bits` bits, contiguous, low bits first; if `signed`, the top packed bit is the sign."""

    packed: int
    bits: int
    signed: bool
    buffer: ByteRange

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values, widened."""
        _check_type(t, self.bits)
        count = sp.count(spans)
        check_bytes(count * self.bits, "bit-packed values")  # temporarily one byte per bit
        joined = yield from read_bits(self.buffer, self.packed, spans)
        wide = np.zeros((count, self.bits), dtype=np.uint8)
        wide[:, : self.packed] = np.unpackbits(joined, count=count * self.packed, bitorder="little").reshape(count, self.packed)
        if self.signed:
            wide[:, self.packed :] = wide[:, self.packed - 1 : self.packed]
        return fixed_width_array(t, count, np.packbits(wide.reshape(-1), bitorder="little"))


@dataclass(frozen=True)
class BitpackedForNonNeg:
    """Blocks of 1024 integers of `bits` bits, packed to `packed` bits in FastLanes order; the last block is padded."""

    packed: int
    bits: int
    buffer: ByteRange

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values; whole blocks are read."""
        _check_type(t, self.bits)
        blocks = sp.merged(np.stack([spans[:, 0] // BLOCK, -(-spans[:, 1] // BLOCK)], axis=1), 0)
        count = sp.count(blocks)
        check_bytes(count * BLOCK * self.bits / 8, "bit-packed values")
        data = yield from read_bits(self.buffer, self.packed * BLOCK, blocks)
        starts = np.arange(count, dtype=np.int64)
        words = np.frombuffer(data.tobytes(), dtype=word_type(self.bits))
        widths = np.full(count, self.packed, dtype=np.int64)
        values = unpack_blocks(words, starts * block_words(self.bits, self.packed), widths, starts * BLOCK, count * BLOCK)
        chosen = values[sp.positions(spans, blocks * BLOCK)]
        return fixed_width_array(t, len(chosen), chosen.view(np.uint8))


def _check_type(t: pa.DataType, bits: int) -> None:
    if bit_width(t) != bits:
        raise CorruptFileError(f"found packed integers of {bits} bits in a column of {t}")
