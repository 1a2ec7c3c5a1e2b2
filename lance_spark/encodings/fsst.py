"""FSST: strings compressed one by one with a table of up to 255 symbols of 1 to 8 bytes, one table a page. Spec: "FSST".

Code c below 255 stands for symbol c, 255 for the byte behind it. What it makes of a block is again a block of strings, so it
can be used wherever the encoding of its values can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lance_spark.byte_ranges import Bytes
from lance_spark.encodings import variable
from lance_spark.encodings.blocks import Block, Chunks, EncodedChunks, Encoding, VariableWidth
from lance_spark.encodings.kernel import kernel
from lance_spark.encodings.symbol_table import ESCAPE, Matcher, SymbolTable
from lance_spark.encodings.symbol_table import train as train_table
from lance_spark.encodings.words import U, load64, store64
from lance_spark.errors import CorruptFileError


@dataclass(frozen=True)
class Fsst(Encoding):
    """Strings compressed with `symbol_table` (its stored form), then encoded by `values`."""

    symbol_table: bytes
    values: Encoding

    @property
    def num_buffers(self) -> int:
        """As many as the compressed strings take."""
        return self.values.num_buffers

    def decode_chunks(self, chunks: Chunks) -> VariableWidth:
        """The values of all chunks."""
        return self._decompress(self.values.decode_chunks(chunks))

    def decode_block(self, data: Bytes, count: int) -> VariableWidth:
        """The values of a block."""
        return self._decompress(self.values.decode_block(data, count))

    def decode_values(self, values: Block) -> VariableWidth:
        """The values that were compressed one by one."""
        return self._decompress(self.values.decode_values(values))

    def _decompress(self, block: Block) -> VariableWidth:
        if not isinstance(block, VariableWidth):
            raise CorruptFileError("FSST of values that are no strings")
        table = SymbolTable.from_bytes(self.symbol_table)
        return _decompress(block, table) if table.on else block


def _decompress(block: VariableWidth, table: SymbolTable) -> VariableWidth:
    # Codes that are not in use have length 0.
    symbols, lengths = np.zeros(256, np.uint64), np.zeros(256, np.uint8)
    symbols[: len(table.symbols)], lengths[: len(table.lengths)] = table.symbols, table.lengths
    most = int(block.offsets[-1]) * max(1, int(lengths.max()))
    out = np.empty(most + 8, np.uint8)
    offsets = np.zeros(len(block.offsets), block.offsets.dtype if most < 2**31 else np.int64)
    bad = _decompress_all(block.data, block.offsets, symbols, lengths, out, offsets)
    if bad >= 0:
        raise CorruptFileError(f"FSST string {bad} has a code that the symbol table lacks, or ends after an escape")
    # Give back what was not needed: memory for the worst case costs nothing as long as nobody touches it, or keeps it.
    out.resize(int(offsets[-1]), refcheck=False)
    return VariableWidth(offsets, out)


@kernel
def _decompress_all(
    data: np.ndarray, offsets: np.ndarray, symbols: np.ndarray, lengths: np.ndarray, out: np.ndarray, out_offsets: np.ndarray
) -> int:
    """Decompress every string; returns the first that is bad, or -1.

    Every symbol is written as 8 bytes, of which the next one overwrites the surplus; `out` has 8 bytes more than can be needed.
    """
    place = U(0)
    unknown: np.bool_ = np.bool_(False)
    for i in range(len(offsets) - 1):
        at = U(offsets[i])
        end = U(offsets[i + 1])
        while at < end:
            code = data[at]
            at += U(1)
            if code == ESCAPE:
                if at == end:
                    return i
                out[place] = data[at]
                at += U(1)
                place += U(1)
            else:
                length = U(lengths[code])
                store64(out, place, symbols[code])
                place += length
                # Looked at only behind the loop: a branch here costs half the speed.
                unknown |= length == U(0)
        if unknown:
            return i
        out_offsets[i + 1] = place
    return -1


def train(block: VariableWidth) -> Fsst | None:
    """FSST with a symbol table for the strings of `block`, or None if there is nothing to compress."""
    table = train_table(block)
    return Fsst(table.to_bytes(), variable.encode_values(block)[0]) if len(table.symbols) else None


def encode_chunks(
    block: VariableWidth, node: Fsst, max_values: int = variable.MAX_CHUNK_VALUES, chunk_bytes: int = variable.CHUNK_BYTES
) -> EncodedChunks:
    """`block` compressed with the table of `node`, in chunks of at most `max_values` values and `chunk_bytes` bytes."""
    chunks = variable.encode_chunks(_compress(block, node), max_values, chunk_bytes)
    return replace(chunks, encoding=Fsst(node.symbol_table, chunks.encoding))


def encode_block(block: VariableWidth, node: Fsst) -> tuple[Fsst, bytes]:
    """`block` compressed with the table of `node`, as one buffer."""
    values, data = variable.encode_block(_compress(block, node))
    return Fsst(node.symbol_table, values), data


def encode_values(block: VariableWidth, node: Fsst) -> tuple[Fsst, VariableWidth]:
    """The strings of `block` compressed one by one with the table of `node`."""
    values, compressed = variable.encode_values(_compress(block, node))
    return Fsst(node.symbol_table, values), compressed


def _compress(block: VariableWidth, node: Fsst) -> VariableWidth:
    m = Matcher.of(SymbolTable.from_bytes(node.symbol_table))
    most = 2 * int(block.offsets[-1])
    out = np.empty(most + 1, np.uint8)
    offsets = np.zeros(len(block.offsets), block.offsets.dtype if most < 2**31 else np.int64)
    data = np.append(block.data, np.zeros(8, np.uint8))
    _compress_all(data, block.offsets, m.first, m.masks, m.values, m.lengths, m.codes, out, offsets)
    out.resize(int(offsets[-1]), refcheck=False)
    return VariableWidth(offsets, out)


@kernel
def _compress_all(
    data: np.ndarray,
    offsets: np.ndarray,
    first: np.ndarray,
    masks: np.ndarray,
    values: np.ndarray,
    lengths: np.ndarray,
    codes: np.ndarray,
    out: np.ndarray,
    out_offsets: np.ndarray,
) -> None:
    """Compress every string with the longest symbol at each place; the arrays of the Matcher are as they are described there.

    `data` has 8 bytes more than the strings. Every code is written with the byte that it would escape behind it; `out` has a byte
    more than can be needed.
    """
    place = U(0)
    for i in range(len(offsets) - 1):
        at = U(offsets[i])
        end = U(offsets[i + 1])
        while at < end:
            word = load64(data, at)
            entry = U(first[word & U(0xFFFF)])
            while (word & masks[entry]) != values[entry] or lengths[entry] > end - at:
                entry += U(1)
            escaped = codes[entry] == 256
            out[place] = ESCAPE if escaped else codes[entry]
            out[place + U(1)] = word & U(255)
            place += U(2) if escaped else U(1)
            at += U(lengths[entry])
        out_offsets[i + 1] = place
