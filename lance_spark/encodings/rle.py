"""Rle: the value and the length of every run. Spec: "Run length encoding".

Mini-block chunk: the values take the first buffers, the lengths the others. Block: the byte size of the values (u64), the values, the
lengths. A run that is too long for the type of the lengths is stored as several.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lance_spark.buffers.blocks import Chunks, EncodedBuffer, EncodedChunks, Encoding, FixedWidth
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.buffers.limits import check_bytes
from lance_spark.buffers.memory import empty
from lance_spark.encodings import out_of_line_bitpacking
from lance_spark.encodings.fastlanes import word_type
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.general import General
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import load64

LONGEST_RUN = 255
"""Lengths of one byte, which all versions of the format can read."""

LONGEST_LONG_RUN = 65535
"""Lengths of two bytes, which 2.3 can read."""

STRIDE = 16
"""Values written together when runs are expanded."""


@dataclass(frozen=True)
class Rle(Encoding):
    """Run values and run lengths, each with an encoding of its own."""

    values: Encoding
    run_lengths: Encoding

    @property
    def num_buffers(self) -> int:
        """The number of buffers of the values and of the lengths."""
        return self.values.num_buffers + self.run_lengths.num_buffers

    def decode_chunks(self, chunks: Chunks) -> FixedWidth:
        """The values, each repeated by the length of its run."""
        split = self.values.num_buffers
        return self._expand(chunks.select(0, split), chunks.select(split, self.num_buffers), chunks.counts)

    def decode_blocks(self, chunks: Chunks) -> FixedWidth:
        """The values of blocks that hold the size of the run values, the run values and the run lengths."""
        if self.values.num_buffers > 1 or self.run_lengths.num_buffers > 1:
            raise self._refusal("blocks with values or lengths in several buffers")
        if not self.num_buffers:
            return self._expand(chunks.select(0, 0), chunks.select(0, 0), chunks.counts)
        if (chunks.sizes[0] < 8).any():
            raise CorruptFileError("a run-length block is too short for the size of its values")
        starts, room = chunks.starts[0] + 8, chunks.sizes[0] - 8
        sizes = np.empty(len(starts), np.int64)
        if not _read_sizes(chunks.data, chunks.starts[0], room, sizes):
            raise CorruptFileError("a run-length block is shorter than its run values")
        values = replace(chunks, starts=starts[None], sizes=sizes[None])
        lengths = replace(chunks, starts=(starts + sizes)[None], sizes=(room - sizes)[None])
        values, lengths = values.select(0, self.values.num_buffers), lengths.select(0, self.run_lengths.num_buffers)
        return self._expand(values, lengths, chunks.counts)

    def _expand(self, value_chunks: Chunks, length_chunks: Chunks, counts: np.ndarray) -> FixedWidth:
        value_encoding, value_chunks = _decompress(self.values, value_chunks)
        length_encoding, length_chunks = _decompress(self.run_lengths, length_chunks)
        runs = _count_run_parts((value_encoding, value_chunks), (length_encoding, length_chunks))
        if runs is None:
            runs = _count_runs_of_lengths(length_encoding, length_chunks, counts)
        values = value_encoding.decode_chunks(replace(value_chunks, counts=runs))
        lengths = length_encoding.decode_chunks(replace(length_chunks, counts=runs))
        if not isinstance(values, FixedWidth) or values.bits % 8:
            raise UnsupportedFeatureError("runs of values that are not a fixed number of bytes are not supported")
        # Sums of 64-bit lengths could wrap around and hide an excessive run.
        if not isinstance(lengths, FixedWidth) or lengths.bits not in (8, 16, 32):
            raise UnsupportedFeatureError("only run lengths of 8, 16 or 32 bits are supported")
        run_lengths = _fitted(lengths.view(word_type(lengths.bits)), runs, counts)
        total = int(counts.sum())
        check_bytes(total * values.bits / 8, "runs")
        if values.bits in (8, 16, 32, 64):
            out = empty(total + STRIDE, word_type(values.bits))
            _repeat(values.view(out.dtype), run_lengths, out)
            out = out[:total]
        else:
            out = np.repeat(values.view(np.dtype((np.void, values.bits // 8))), run_lengths.astype(np.int64))
        return FixedWidth(values.bits, out.view(np.uint8), total)


def count_runs(block: FixedWidth) -> int:
    """The number of runs of equal values (of 8, 16, 32 or 64 bits), however long."""
    return int(_count_changes(block.view(word_type(block.bits)))) + 1 if block.count else 0


def longest_run(block: FixedWidth) -> int:
    """The number of values in the longest run."""
    return int(_longest(block.view(word_type(block.bits))))


def encode_chunks(block: FixedWidth, counts: np.ndarray, longest: int = LONGEST_RUN) -> EncodedChunks:
    """`counts` values (of 8, 16, 32 or 64 bits) in each chunk as runs of at most `longest`, which determines the type of the lengths."""
    source = block.view(word_type(block.bits))
    stops = np.cumsum(counts)
    bounds = np.zeros(len(counts) + 1, np.int64)
    _bound_runs(source, stops, longest, bounds)
    width = 1 if longest == LONGEST_RUN else 2
    values = np.empty(bounds[-1], source.dtype)
    lengths = np.empty(bounds[-1], word_type(8 * width))
    _find_runs(source, stops, longest, values, lengths)
    value_buffer = EncodedBuffer(values.view(np.uint8), bounds * (block.bits // 8))
    length_buffer = EncodedBuffer(lengths.view(np.uint8), bounds * width)
    return EncodedChunks(Rle(Flat(block.bits), Flat(8 * width)), counts, (value_buffer, length_buffer))


def encode_packed_chunks(block: FixedWidth, counts: np.ndarray) -> EncodedChunks:
    """`encode_chunks` with the smallest lengths, and with the values or the lengths bit-packed if that is smaller (2.3)."""
    chunks = min((encode_chunks(block, counts, longest) for longest in (LONGEST_RUN, LONGEST_LONG_RUN)), key=_size)
    node = chunks.encoding
    assert isinstance(node, Rle)
    assert isinstance(node.run_lengths, Flat)
    values, lengths = chunks.buffers
    packed_values, packed_lengths = _packed(values, block.bits), _packed(lengths, node.run_lengths.bits_per_value)
    # Readers learn the number of runs from the size of the flat part.
    with_values = replace(chunks, encoding=Rle(packed_values.encoding, node.run_lengths), buffers=(packed_values.buffers[0], lengths))
    with_lengths = replace(chunks, encoding=Rle(node.values, packed_lengths.encoding), buffers=(values, packed_lengths.buffers[0]))
    return min((chunks, with_values, with_lengths), key=_size)


def _packed(buffer: EncodedBuffer, bits: int) -> EncodedChunks:
    runs = np.diff(buffer.bounds) // (bits // 8)
    return out_of_line_bitpacking.encode_chunks(FixedWidth(bits, buffer.data, int(runs.sum())), runs)


def _size(chunks: EncodedChunks) -> int:
    return sum(len(buffer.data) for buffer in chunks.buffers)


def encode_blocks(block: FixedWidth, counts: np.ndarray, longest: int = LONGEST_RUN) -> EncodedChunks:
    """`counts` values of each block as runs of at most `longest`, values and lengths in one buffer."""
    chunks = encode_chunks(block, counts, longest)
    values, lengths = chunks.buffers
    bounds = np.arange(len(lengths.bounds)) * 8 + values.bounds + lengths.bounds
    data = np.empty(bounds[-1], np.uint8)
    sizes = np.diff(values.bounds)
    # The position of each byte of each part: its number plus the bytes before it in the blocks.
    before = np.arange(len(counts)) * 8 + 8
    data[(bounds[:-1, None] + np.arange(8)).ravel()] = sizes.view(np.uint8)
    before_values = np.repeat(before + lengths.bounds[:-1], sizes)
    data[np.arange(len(values.data)) + before_values] = values.data
    before_lengths = np.repeat(before + values.bounds[1:], np.diff(lengths.bounds))
    data[np.arange(len(lengths.data)) + before_lengths] = lengths.data
    return EncodedChunks(chunks.encoding, counts, (EncodedBuffer(data, bounds),))


def encode_block(block: FixedWidth) -> tuple[Encoding, Bytes]:
    """The values of one block as runs."""
    chunks = encode_blocks(block, np.array([block.count]))
    return chunks.encoding, chunks.buffers[0].data


def _decompress(encoding: Encoding, chunks: Chunks) -> tuple[Encoding, Chunks]:
    """`encoding` and `chunks` without general compression, so that buffer sizes determine the number of values."""
    while isinstance(encoding, General):
        chunks, encoding = encoding.decompress_chunks(chunks), encoding.values
    return encoding, chunks


def _count_run_parts(*parts: tuple[Encoding, Chunks]) -> np.ndarray | None:
    """The number of runs in each chunk, from the size of flat values or flat lengths; if both are flat, they must agree."""
    known = [encoding.count_chunks(chunks) for encoding, chunks in parts if isinstance(encoding, Flat)]
    if not known:
        return None
    wrong = known[0] != known[-1]
    if wrong.any():
        i = int(wrong.argmax())
        runs = f"{known[0][i]} run values but {known[-1][i]} run lengths"
        raise CorruptFileError(f"chunk {i} of {len(wrong)} has {runs}")
    return known[0]


def _count_runs_of_lengths(lengths: Encoding, chunks: Chunks, counts: np.ndarray) -> np.ndarray:
    """The number of runs in each chunk if a formula gives the lengths: runs that begin before all values are complete."""
    if lengths.num_buffers:
        raise UnsupportedFeatureError("run-length encoding is not supported if neither values nor lengths are flat")
    block = lengths.decode_chunks(replace(chunks, counts=counts))
    if not isinstance(block, FixedWidth) or block.bits not in (8, 16, 32):
        raise UnsupportedFeatureError("only run lengths of 8, 16 or 32 bits are supported")
    each = block.view(word_type(block.bits)).astype(np.int64)
    starts, first = np.cumsum(each) - each, np.cumsum(counts) - counts
    chunk = np.repeat(np.arange(len(counts)), counts)
    if not len(each):
        return np.zeros(len(counts), np.int64)
    first_of_chunk = starts[np.minimum(first, len(starts) - 1)]
    begun = starts - first_of_chunk[chunk] < counts[chunk]
    return np.bincount(chunk[begun], minlength=len(counts)).astype(np.int64)


def _fitted(lengths: np.ndarray, runs: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The lengths, after checking that they add up to the `counts` values of each chunk, since they determine the allocation.

    Writers of late 2025 split chunks within runs: the last run of a chunk may be too long, and its excess is repeated in the next chunk.
    """
    made, wanted = np.empty(len(runs), np.uint64), counts.astype(np.uint64)
    _add_up(lengths, runs, made)
    long = np.flatnonzero(made > wanted)
    if len(long):
        last = np.cumsum(runs)[long] - 1
        beyond = made[long] - wanted[long]
        cut = beyond < lengths[last]
        lengths = lengths.copy()
        lengths[last[cut]] -= beyond[cut].astype(lengths.dtype)
        made[long[cut]] = wanted[long[cut]]
    wrong = made != wanted
    if wrong.any():
        i = int(wrong.argmax())
        raise CorruptFileError(f"the run lengths of chunk {i} of {len(wrong)} add up to {made[i]}, expected {counts[i]} values")
    return lengths


@kernel
def _read_sizes(data: np.ndarray, starts: np.ndarray, room: np.ndarray, sizes: np.ndarray) -> bool:
    """Read the u64 at each of `starts` into `sizes`; whether each fits the `room` after it."""
    for i in range(len(starts)):
        size = load64(data, np.uint64(starts[i]))
        if size > np.uint64(room[i]):
            return False
        sizes[i] = size
    return True


@kernel
def _add_up(lengths: np.ndarray, runs: np.ndarray, sums: np.ndarray) -> None:
    """The sum of the `runs[c]` lengths of each chunk c."""
    at = np.uint64(0)
    for c in range(len(runs)):
        total = np.uint64(0)
        stop = at + np.uint64(runs[c])
        for i in range(at, stop):
            total += np.uint64(lengths[i])
        sums[c] = total
        at = stop


@kernel
def _repeat(values: np.ndarray, lengths: np.ndarray, out: np.ndarray) -> None:
    at = np.uint64(0)
    for run in range(len(values)):
        value = values[run]
        stop = at + np.uint64(lengths[run])
        # Most runs are short: writing past the end, which the next run overwrites, avoids a mispredicted branch.
        for i in range(STRIDE):
            out[at + np.uint64(i)] = value
        for i in range(at + np.uint64(STRIDE), stop):
            out[i] = value
        at = stop


@kernel
def _count_changes(values: np.ndarray) -> int:
    changes = 0
    for i in range(np.uint64(1), np.uint64(len(values))):
        changes += values[i] != values[i - np.uint64(1)]
    return changes


@kernel
def _longest(values: np.ndarray) -> int:
    longest = begun = 0
    for i in range(1, len(values)):
        if values[np.uint64(i)] != values[np.uint64(i - 1)]:
            longest = max(longest, i - begun)
            begun = i
    return max(longest, len(values) - begun)


@kernel
def _run_stop(values: np.ndarray, start: int, stop: int, longest: int) -> int:
    """The end of the run that begins at `start`, at most `stop` and `longest` values."""
    end = start + 1
    stop = min(stop, start + longest)
    while end < stop and values[np.uint64(end)] == values[np.uint64(start)]:
        end += 1
    return end


@kernel
def _bound_runs(values: np.ndarray, stops: np.ndarray, longest: int, bounds: np.ndarray) -> None:
    """Set `bounds[c + 1]` to the number of runs in chunks 0 to c, which end at `stops`."""
    at = 0
    for chunk in range(len(stops)):
        runs = bounds[chunk]
        while at < stops[chunk]:
            at = _run_stop(values, at, stops[chunk], longest)
            runs += 1
        bounds[chunk + 1] = runs


@kernel
def _find_runs(values: np.ndarray, stops: np.ndarray, longest: int, run_values: np.ndarray, run_lengths: np.ndarray) -> None:
    run = 0
    at = 0
    for chunk in range(len(stops)):
        while at < stops[chunk]:
            end = _run_stop(values, at, stops[chunk], longest)
            run_values[run] = values[at]
            run_lengths[run] = end - at
            at = end
            run += 1
