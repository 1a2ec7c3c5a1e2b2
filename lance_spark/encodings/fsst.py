"""FSST: strings compressed one by one with a table of up to 255 symbols of 1 to 8 bytes, one table per page. Spec: "FSST".

Code c below 255 stands for symbol c; 255 escapes the byte that follows. The compressed strings are again a block of strings, so FSST works
in every context that the encoding of its values supports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lance_spark.buffers.blocks import Block, Chunks, EncodedChunks, Encoding, VariableWidth
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.buffers.memory import empty
from lance_spark.encodings import variable
from lance_spark.encodings.fsst_symbols import ESCAPE, SymbolTable
from lance_spark.encodings.fsst_symbols import train as train_table
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U, load64, store64


@dataclass(frozen=True)
class Fsst(Encoding):
    """Strings compressed with `symbol_table` (its stored form), then encoded by `values`."""

    symbol_table: bytes
    values: Encoding

    @property
    def num_buffers(self) -> int:
        """The number of buffers of the compressed strings."""
        return self.values.num_buffers

    def decode_chunks(self, chunks: Chunks) -> VariableWidth:
        """The values of all chunks."""
        return self._decompress(self.values.decode_chunks(chunks))

    def pick_values(self, chunks: Chunks, chunk_of: np.ndarray, at: np.ndarray) -> VariableWidth | None:
        """The values at positions `at` of the chunks `chunk_of`."""
        picked = self.values.pick_values(chunks, chunk_of, at)
        return None if picked is None else self._decompress(picked)

    def decode_block(self, data: Bytes, count: int) -> VariableWidth:
        """The values of a block."""
        return self._decompress(self.values.decode_block(data, count))

    def decode_values(self, values: Block) -> VariableWidth:
        """The decompressed values."""
        return self._decompress(self.values.decode_values(values))

    def _decompress(self, block: Block) -> VariableWidth:
        strings = _strings(block)
        return strings if self._codes is None else _decompress(strings, *self._codes)

    @cached_property
    def _codes(self) -> tuple[np.ndarray, np.ndarray, int] | None:
        """The symbol and the length of each code, 0 if it is unused, and the largest length; None if strings are not compressed."""
        table = SymbolTable.from_bytes(self.symbol_table)
        symbols, lengths = np.zeros(256, np.uint64), np.zeros(256, np.uint8)
        symbols[: len(table.symbols)], lengths[: len(table.lengths)] = table.symbols, table.lengths
        return (symbols, lengths, max(1, int(lengths.max()))) if table.on else None


def _strings(block: Block) -> VariableWidth:
    """`block`, which a damaged file may say to be numbers."""
    if not isinstance(block, VariableWidth):
        raise CorruptFileError("expected strings below FSST, found values of fixed width")
    return block


def _decompress(block: VariableWidth, symbols: np.ndarray, lengths: np.ndarray, longest: int) -> VariableWidth:
    most = int(block.offsets[-1]) * longest
    out = np.empty(most + 8, np.uint8)
    offsets = np.zeros(len(block.offsets), block.offsets.dtype if most < 2**31 else np.int64)
    bad = _decompress_all(block.data, block.offsets, symbols, lengths, out, offsets)
    if bad >= 0:
        raise CorruptFileError(f"FSST string {bad} has a code that is not in the symbol table, or ends with an escape")
    # Shrink the array: untouched worst-case memory is free, but must not be kept.
    out.resize(int(offsets[-1]), refcheck=False)
    return VariableWidth(offsets, out)


def decompress_parts(block: Block, encodings: Sequence[Fsst], counts: Sequence[int]) -> VariableWidth:
    """The strings of `block`, of which each of `encodings` has compressed the next of `counts`."""
    ends, strings = np.cumsum(counts), _strings(block)
    offsets, parts = strings.offsets, []
    for encoding, start, stop in zip(encodings, (ends - counts).tolist(), ends.tolist()):
        own = offsets[start : stop + 1]
        compressed = VariableWidth(own - own[0], strings.data[own[0] : own[-1]])
        parts.append(encoding.decode_values(compressed))
    sizes = np.concatenate([[0], *(np.diff(part.offsets) for part in parts)])
    return VariableWidth(np.cumsum(sizes), np.concatenate([part.data for part in parts]))


@kernel
def _decompress_all(
    data: np.ndarray, offsets: np.ndarray, symbols: np.ndarray, lengths: np.ndarray, out: np.ndarray, out_offsets: np.ndarray
) -> int:
    """Decompress every string; returns the first invalid one, or -1.

    Every symbol is written as 8 bytes, and the next one overwrites the surplus; `out` has 8 spare bytes.
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
                # Checked after the loop: a branch here costs half the speed.
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
    middle = int(np.searchsorted(block.offsets, most // 4, side="right")) - 1
    out = empty(most + 1)
    offsets = np.zeros(len(block.offsets), block.offsets.dtype if most < 2**31 else np.int64)
    data = block.data if len(block.data) >= _WORD else np.append(block.data, np.zeros(_WORD, np.uint8))
    _compress_all(data, block.offsets, middle, f.keys, f.found, f.short, f.single, out, offsets)
    # The position at which the second half was written, and its final position.
    start, end = 2 * int(block.offsets[middle]), int(offsets[middle])
    second = out[start : int(offsets[-1])]
    offsets[middle + 1 :] -= start - end
    return VariableWidth(offsets, np.concatenate([out[:end], second], out=empty(end + len(second))))


_WORD = 8
_SLOT_BITS = U(10)
_FACTOR = U(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class _Finder:
    """Finds the longest symbol at the start of 8 bytes; the result is code | length << 8.

    For each length from three to eight bytes, `keys` and `found` have 1024 slots. The key of a symbol is its bytes at the high end of a
    word, its slot the hash of the key; of two symbols with the same slot only the one that saves more is kept. Shorter symbols are in
    `short` by their two bytes and in `single` by their one byte, where ESCAPE is the code of a byte without a symbol.
    """

    keys: np.ndarray
    found: np.ndarray
    short: np.ndarray
    single: np.ndarray

    @classmethod
    def of(cls, table: SymbolTable) -> _Finder:
        """The finder of `table`, whose symbols are sorted by savings, largest first."""
        lengths = table.lengths.astype(np.int64)
        coded = (np.arange(len(lengths)) | lengths << 8).astype(np.uint16)
        single = np.full(256, ESCAPE | 1 << 8, np.uint16)
        single[table.symbols[lengths == 1].astype(np.int64)] = coded[lengths == 1]
        short = np.tile(single, 256)
        short[table.symbols[lengths == 2].astype(np.int64)] = coded[lengths == 2]
        keys = np.zeros((6, 1 << _SLOT_BITS), np.uint64)  # one table for each length from 3 to 8
        found = np.zeros(keys.shape, np.uint16)
        keys[:, 0] = 1  # an empty slot must not hold a valid key, as 0 would be in the first
        long = np.flatnonzero(lengths > 2)[::-1]
        own_keys = table.symbols[long] << (U(64) - U(8) * lengths[long].astype(np.uint64))
        slots = lengths[long] - 3, (own_keys * _FACTOR >> (U(64) - _SLOT_BITS)).astype(np.int64)
        keys[slots], found[slots] = own_keys, coded[long]
        return cls(keys.reshape(-1), found.reshape(-1), short, single)


@kernel
def _compress_all(
    data: np.ndarray,
    offsets: np.ndarray,
    middle: int,
    keys: np.ndarray,
    found: np.ndarray,
    short: np.ndarray,
    single: np.ndarray,
    out: np.ndarray,
    out_offsets: np.ndarray,
) -> None:
    """Compress every string with the longest symbol at each position; the finder's arrays are described in its class.

    Each position depends on the symbol before it, which stalls the processor. So the strings before `middle` and the others are compressed
    in turn, one symbol each; the others are written to `out` from twice their offset. For the same reason no branch depends on the symbols.
    Every code is written together with the byte that it would escape; `out` has one spare byte, `data` at least 8 bytes.
    """
    strings = np.array([0, middle])
    stops = np.array([middle, len(offsets) - 1])
    at = np.array([offsets[0], offsets[middle]]).astype(np.uint64)
    end = at.copy()
    place = at * U(2)
    last_word = U(len(data) - _WORD)
    busy = True
    while busy:
        busy = False
        for half in range(U(2)):
            here = at[half]
            while here == end[half] and strings[half] < stops[half]:
                out_offsets[U(strings[half])] = place[half]
                strings[half] += 1
                end[half] = offsets[U(strings[half])]
            left = end[half] - here
            if left == U(0):
                continue
            busy = True
            word = load64(data, here) if here <= last_word else load64(data, last_word) >> ((here - last_word) << U(3))
            one = U(single[word & U(0xFF)])
            best = U(short[word & U(0xFFFF)])
            # The compiler would turn a test of `left` > 1 into a branch.
            best = best if best >> U(8) <= left else one
            for k in range(U(6)):
                key = word << (U(40) - (U(k) << U(3)))
                slot = key * _FACTOR >> (U(64) - _SLOT_BITS) | U(k) << _SLOT_BITS
                longer = U(found[slot])
                best = longer if (keys[slot] == key) & (U(k) + U(3) <= left) else best
            to = place[half]
            code = best & U(255)
            out[to] = code
            out[to + U(1)] = word & U(255)
            place[half] = to + U(1) + U(code == U(ESCAPE))
            at[half] = here + (best >> U(8))
    out_offsets[U(middle)] = place[0]
    out_offsets[U(len(offsets) - 1)] = place[1]
