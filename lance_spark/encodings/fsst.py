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
from lance_spark.encodings.symbol_table import ESCAPE, SymbolTable
from lance_spark.encodings.symbol_table import train as train_table
from lance_spark.encodings.words import U, load64, store64
from lance_spark.errors import CorruptFileError
from lance_spark.memory import empty


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
    f = _Finder.of(SymbolTable.from_bytes(node.symbol_table))
    most = 2 * int(block.offsets[-1])
    out = empty(most + 1)
    offsets = np.zeros(len(block.offsets), block.offsets.dtype if most < 2**31 else np.int64)
    data = np.append(block.data, np.zeros(8, np.uint8))
    _compress_all(data, block.offsets, f.eights, f.eights_found, f.first, f.masks, f.values, f.found, f.short, f.single, out, offsets)
    return VariableWidth(offsets, out[: int(offsets[-1])].copy())  # which gives back what was not needed


_BUCKETS = 4096
_FACTOR = U(2971215073)
_FACTOR_OF_WORDS = U(0x9E3779B97F4A7C15)
_NONE = 0xFFFF


@dataclass(frozen=True)
class _Finder:
    """Finds the code of the longest symbol at the head of 8 bytes, mostly at the first try; what is found is code | length << 8.

    Many of eight bytes begin alike, so most of them have a place of their own: `eights[hash of the word]` is the word if it is a
    symbol, and `eights_found` what is found. Other symbols of three bytes and more: try the entries from `first[hash of three bytes]`
    on until the bytes under `masks` are `values`; the longest come first, and last one that always fits, for which `found` is _NONE.
    Then `short` knows by the first two bytes, and `single` by the first, where ESCAPE is the code of what has no symbol.
    """

    eights: np.ndarray
    eights_found: np.ndarray
    first: np.ndarray
    masks: np.ndarray
    values: np.ndarray
    found: np.ndarray
    short: np.ndarray
    single: np.ndarray

    @classmethod
    def of(cls, table: SymbolTable) -> _Finder:
        """The finder of `table`."""
        lengths = table.lengths.astype(np.int64)
        found = (np.arange(len(lengths)) | lengths << 8).astype(np.uint16)
        single = np.full(256, ESCAPE | 1 << 8, np.uint16)
        single[table.symbols[lengths == 1].astype(np.int64)] = found[lengths == 1]
        short = np.tile(single, 256)
        short[table.symbols[lengths == 2].astype(np.int64)] = found[lengths == 2]
        eights, eights_found = np.zeros(_BUCKETS, np.uint64), np.full(_BUCKETS, _NONE, np.uint16)
        whole = np.flatnonzero(lengths == 8)
        places = (table.symbols[whole] * _FACTOR_OF_WORDS >> U(52)).astype(np.int64)
        eights[places], eights_found[places] = table.symbols[whole], found[whole]
        placed = np.zeros(len(lengths), np.bool_)
        placed[whole] = eights[places] == table.symbols[whole]
        buckets = ((table.symbols & U(0xFFFFFF)) * _FACTOR >> U(15)).astype(np.int64) % _BUCKETS
        order = np.lexsort((-lengths, buckets))
        order = order[(lengths[order] > 2) & ~placed[order]]
        used, starts = np.unique(buckets[order], return_index=True)
        ends = np.append(starts[1:], len(order))
        first = np.zeros(_BUCKETS, np.uint16)
        first[used] = 1 + starts + np.arange(len(used))
        masks = U(0xFFFFFFFFFFFFFFFF) >> (U(64) - U(8) * table.lengths.astype(np.uint64))

        def grouped(of_symbols: np.ndarray, last: int) -> np.ndarray:
            return np.insert(np.insert(of_symbols[order], ends, last), 0, last)  # entry 0 is that of unused buckets

        return cls(eights, eights_found, first, grouped(masks, 0), grouped(table.symbols, 0), grouped(found, _NONE), short, single)


@kernel
def _compress_all(
    data: np.ndarray,
    offsets: np.ndarray,
    eights: np.ndarray,
    eights_found: np.ndarray,
    first: np.ndarray,
    masks: np.ndarray,
    values: np.ndarray,
    found: np.ndarray,
    short: np.ndarray,
    single: np.ndarray,
    out: np.ndarray,
    out_offsets: np.ndarray,
) -> None:
    """Compress every string with the longest symbol at each place; the arrays of the finder are as they are described there.

    `data` has 8 bytes more than the strings. Every code is written with the byte that it would escape behind it; `out` has a byte
    more than can be needed.
    """
    place = U(0)
    for i in range(U(len(offsets) - 1)):
        at = U(offsets[i])
        end = U(offsets[i + U(1)])
        while at < end:
            word = load64(data, at)
            place_of_word = word * _FACTOR_OF_WORDS >> U(52)
            best = U(eights_found[place_of_word])
            if eights[place_of_word] != word or best == U(_NONE) or end - at < U(8):
                entry = U(first[((word & U(0xFFFFFF)) * _FACTOR >> U(15)) & U(_BUCKETS - 1)])
                while (word & masks[entry]) != values[entry]:
                    entry += U(1)
                # Looked up in any case: whether it is needed is more than the processor can guess.
                other = U(short[word & U(0xFFFF)])
                best = U(found[entry])
                best = other if best == U(_NONE) else best
                if best >> U(8) > end - at:
                    best = _fitting(word, entry, end - at, masks, values, found, short, single)
            code = best & U(255)
            out[place] = code
            out[place + U(1)] = word & U(255)
            place += U(1) + U(code == U(ESCAPE))
            at += best >> U(8)
        out_offsets[i + U(1)] = place


@kernel
def _fitting(
    word: np.uint64,
    entry: np.uint64,
    left: np.uint64,
    masks: np.ndarray,
    values: np.ndarray,
    found: np.ndarray,
    short: np.ndarray,
    single: np.ndarray,
) -> np.uint64:
    """What is found from `entry` on where only `left` bytes are left of the string: shorter symbols stand behind longer ones."""
    while found[entry] != _NONE and ((word & masks[entry]) != values[entry] or U(found[entry]) >> U(8) > left):
        entry += U(1)
    best = U(found[entry])
    if best == U(_NONE):
        best = U(short[word & U(0xFFFF)])
    return best if best >> U(8) <= left else U(single[word & U(255)])
