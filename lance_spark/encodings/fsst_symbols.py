"""The symbol table of FSST: its stored form, and how one is chosen. Spec: "FSST".

It is chosen as in "FSST: Fast Random Access String Compression" (Boncz, Neumann, Leis; VLDB 2020). Stored as 2312 bytes: a u64 header with
the magic number, whether the strings are compressed, and the number of symbols; the symbols, 8 bytes each; their lengths, a byte each; the
rest is unused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.buffers.blocks import VariableWidth
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U, copy_ranges, load64

ESCAPE = 255
"""The escape code: the next byte is a literal. All other codes are symbols, so there are at most 255."""

_STORED_BYTES = 2312
_MAGIC = 0x46535354
_SAMPLE_BYTES = 1 << 15
_PIECE_BYTES = 512
"""The table is made from a sample of this size, of the beginnings of values: a few long ones must not fill it."""
_SHARES = (8, 38, 68, 98, 128)  # of 128: the share of the sample that each generation uses, from the paper's reference code


@dataclass(frozen=True)
class SymbolTable:
    """Code c represents the `lengths[c]` low bytes of `symbols[c]`, little endian. `on` is False if strings are not compressed.

    `symbols` is uint64 and `lengths` uint8, one for each code in use; the unused bytes of a symbol are 0.
    """

    symbols: np.ndarray
    lengths: np.ndarray
    on: bool = True

    @classmethod
    def from_bytes(cls, data: bytes) -> SymbolTable:
        """The table stored in `data`."""
        header = int.from_bytes(data[:8], "little")
        count = header & 0xFF
        if len(data) < 8 + 9 * count or header >> 32 != _MAGIC:
            raise CorruptFileError(f"invalid FSST symbol table: {len(data)} bytes that begin with {data[:8]!r}")
        symbols = np.frombuffer(data, "<u8", count, 8)
        lengths = np.frombuffer(data, np.uint8, count, 8 + 8 * count)
        if len(lengths) and (lengths.min() < 1 or lengths.max() > 8):
            raise CorruptFileError("an FSST symbol has an invalid length, expected 1 to 8 bytes")
        return cls(symbols, lengths, bool(header >> 24 & 1))

    def to_bytes(self) -> bytes:
        """The stored form."""
        header = _MAGIC << 32 | self.on << 24 | len(self.symbols)
        data = header.to_bytes(8, "little") + self.symbols.astype("<u8").tobytes() + self.lengths.tobytes()
        return data.ljust(_STORED_BYTES, b"\0")


@dataclass(frozen=True)
class Matcher:
    """Finds the longest symbol at the start of 8 bytes.

    Try the entries from `first[two low bytes]`: the first one whose bytes under `masks` equal `values` is the longest symbol, since symbols
    with the same first two bytes are adjacent, the longest first. The last entry of a group always matches: the first byte alone. `codes`
    is the code of an entry, or 256 if it must be escaped.
    """

    first: np.ndarray
    masks: np.ndarray
    values: np.ndarray
    lengths: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, table: SymbolTable) -> Matcher:
        """The matcher of `table`."""
        codes = np.arange(len(table.symbols), dtype=np.uint16)
        alone = np.full(256, 256, np.uint16)
        single = table.lengths == 1
        alone[table.symbols[single].astype(np.uint8)] = codes[single]
        prefixes = (table.symbols & U(0xFFFF)).astype(np.int64)
        order = np.lexsort((-table.lengths.astype(np.int8), prefixes))
        order = order[table.lengths[order] > 1]
        heads, starts = np.unique(prefixes[order], return_index=True)
        # One more entry ends each group: it is inserted before the start of the next group.
        ends = np.append(starts[1:], len(order))
        first = np.tile(np.arange(256, dtype=np.uint16), 256)
        first[heads] = 256 + starts + np.arange(len(heads))

        def grouped(of_symbols: np.ndarray, of_bytes: np.ndarray) -> np.ndarray:
            return np.concatenate([of_bytes, np.insert(of_symbols[order], ends, of_bytes[heads & 0xFF])])

        masks = U(0xFFFFFFFFFFFFFFFF) >> (U(64) - U(8) * table.lengths.astype(np.uint64))
        nothing = np.zeros(256, np.uint64)
        sizes = grouped(table.lengths, np.ones(256, np.uint8))
        return cls(first, grouped(masks, nothing), grouped(table.symbols, nothing), sizes, grouped(codes, alone))


def train(block: VariableWidth) -> SymbolTable:
    """A table for strings like those of `block`.

    Five generations: compress a growing sample with the current symbols, count the symbols and adjacent pairs, and keep the 255 symbols or
    joined pairs that would save most.
    """
    sample, bounds = _sample(block)
    table = SymbolTable(np.empty(0, np.uint64), np.empty(0, np.uint8))
    for share in _SHARES:
        pieces = -(-(len(bounds) - 1) * share // 128)
        counts = np.zeros(512, np.uint32)
        pairs = np.zeros(512 * 512, np.uint32)
        seen = np.empty(2 * int(bounds[pieces]), np.int64)
        m = Matcher.of(table)
        symbols = m.first, m.masks, m.values, m.lengths, m.codes
        count = _count(sample, bounds[: pieces + 1], *symbols, counts, pairs, seen)
        seen = seen[:count]
        table = _next_generation(table, counts, seen, pairs[seen], share)
    return table


def _sample(block: VariableWidth) -> tuple[np.ndarray, np.ndarray]:
    """A sample of pieces from the whole block, with the start and end of each piece; 8 spare bytes follow the last one.

    A generation uses the first pieces of the sample, so they are in random order.
    """
    sizes = np.minimum(np.diff(block.offsets), _PIECE_BYTES)
    wanted = int(np.ceil(_SAMPLE_BYTES / max(1.0, float(sizes.mean()) if len(sizes) else 1.0)))
    random = np.random.default_rng(0)
    last, count = max(block.count - 1, 0), min(wanted, block.count)
    evenly = np.unique(np.linspace(0, last, count).astype(np.int64))
    chosen = random.permutation(evenly)
    sizes = sizes[chosen].astype(np.int64)
    slack = np.diff(block.offsets)[chosen] - sizes
    starts = block.offsets[chosen] + random.integers(0, slack + 1)
    bounds = np.zeros(len(chosen) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    sample = np.zeros(int(bounds[-1]) + 8, np.uint8)
    copy_ranges(block.data, starts, sizes, sample)
    return sample, bounds


def _next_generation(table: SymbolTable, counts: np.ndarray, pairs: np.ndarray, pair_counts: np.ndarray, share: int) -> SymbolTable:
    """The best of the counted symbols (`counts`) and, except in the last generation, of their `pairs`."""
    symbols = np.concatenate([np.arange(256, dtype=np.uint64), table.symbols])
    lengths = np.concatenate([np.ones(256, np.int64), table.lengths.astype(np.int64)])
    seen = np.flatnonzero(counts[: len(symbols)])
    # Symbols of one byte get a higher gain, because each one avoids escapes.
    weights = counts[seen].astype(np.int64) * np.where(lengths[seen] == 1, 8, 1)
    found = [(symbols[seen], lengths[seen], weights)]
    if share < 128:
        left, right = pairs >> 9, pairs & 511
        short = lengths[left] < 8
        left, right = left[short], right[short]
        joined = symbols[left] | symbols[right] << (U(8) * lengths[left].astype(np.uint64))
        joined_lengths = np.minimum(lengths[left] + lengths[right], 8)
        found.append((joined, joined_lengths, pair_counts[short].astype(np.int64)))
    values, sizes, counted = (np.concatenate(parts) for parts in zip(*found))
    # As in the reference code, rare candidates are dropped before equal ones are added up, for speed.
    often = counted >= 5 * share // 128
    values, sizes, counted = values[often], sizes[often], counted[often]
    order = np.lexsort((sizes, values))
    values, sizes, counted = values[order], sizes[order], counted[order]
    differs = (values[1:] != values[:-1]) | (sizes[1:] != sizes[:-1])
    new = np.flatnonzero(np.append(True, differs)[: len(values)])
    gains = np.add.reduceat(counted, new) * sizes[new] if len(new) else counted
    best = new[np.argsort(-gains, kind="stable")[:ESCAPE]]
    return SymbolTable(values[best], sizes[best].astype(np.uint8))


@kernel
def _count(
    sample: np.ndarray,
    bounds: np.ndarray,
    first: np.ndarray,
    masks: np.ndarray,
    values: np.ndarray,
    lengths: np.ndarray,
    codes: np.ndarray,
    counts: np.ndarray,
    pairs: np.ndarray,
    seen: np.ndarray,
) -> int:
    """Count symbols and pairs in the compressed sample. A literal byte has its own value as number, symbol c has number 256 + c.

    The pair of a and b has number 512 * a + b. `seen` gets the numbers of the pairs that occur; returns how many occur.
    """
    different = 0
    for piece in range(len(bounds) - 1):
        at = U(bounds[piece])
        end = U(bounds[piece + 1])
        before = np.int64(-1)
        while at < end:
            word = load64(sample, at)
            entry = U(first[word & U(0xFFFF)])
            while (word & masks[entry]) != values[entry] or lengths[entry] > end - at:
                entry += U(1)
            byte = np.int64(word & U(255))
            code = byte if codes[entry] == 256 else np.int64(256) + np.int64(codes[entry])
            counts[code] += 1
            # Also count the alternative in which only the first byte of a longer symbol is used, and the pair with it.
            if lengths[entry] > 1:
                counts[byte] += 1
            if before >= 0:
                different = _count_pair(512 * before + code, pairs, seen, different)
                if lengths[entry] > 1:
                    different = _count_pair(512 * before + byte, pairs, seen, different)
            before = code
            at += U(lengths[entry])
    return different


@kernel
def _count_pair(pair: np.int64, pairs: np.ndarray, seen: np.ndarray, different: int) -> int:
    if pairs[pair] == 0:
        seen[different] = pair
        different += 1
    pairs[pair] += 1
    return different
