"""A partition of an FM-index: one file, for the texts of some rows.

Its text is that of all rows, each followed by 0xFF, and a last 0. The suffixes of the text are in order; the file has the byte before
each of them (in a wavelet tree), and the places of every 32nd. Its metadata has the rest, in hexadecimal digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.buffers.limits import check_bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.index.files import IndexFile, unsigned
from lance_spark.index.fm.tree import BYTES, Shape, Tree, bytes_in, ones_before, tree_of
from lance_spark.kernels.kernel import kernel

RATE = 32
"""The place in the text of each 32nd suffix is stored."""
SEPARATOR, END = 0xFF, 0
BRANCH_BYTES = 5
"""A branch of a node in the metadata: 1 for a byte, 0 for a node, and its number (u32)."""


@dataclass(frozen=True)
class Partition:
    """An open partition.

    `firsts` (int64) tells for each byte where the suffixes begin that begin with it. `samples` are the places in the text of every
    32nd suffix; the text of `rows[i]` begins at `begins[i]`.
    """

    path: str
    tree: Tree
    lengths: np.ndarray
    firsts: np.ndarray
    samples: np.ndarray
    begins: np.ndarray
    rows: np.ndarray

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self.tree.nbytes + self.samples.nbytes + self.begins.nbytes + self.rows.nbytes

    def suffixes(self, part: bytes) -> tuple[int, int]:
        """The first and the last (exclusive) of the suffixes that begin with a text."""
        tree, pattern = self.tree, np.frombuffer(part, np.uint8)
        if not len(self.lengths):
            return 0, 0
        first, last = _suffixes(pattern, tree.words, tree.starts, tree.ones, tree.taken, tree.nodes, self.firsts)
        return int(first), int(last)

    def rows_of(self, first: int, last: int) -> np.ndarray:
        """The rows (uint64) whose texts have these suffixes, each once. Raises CorruptFileError if a suffix has no place."""
        tree = self.tree
        places = np.empty(last - first, np.int64)
        given = (tree.words, tree.starts, tree.ones, tree.taken, tree.nodes, self.firsts, tree.shape.branches)
        if not _places(first, *given, self.samples, places):
            raise CorruptFileError(f"{self.path}: the order of the suffixes does not lead to all of them")
        documents = np.unique(np.searchsorted(self.begins, places, side="right") - 1)
        return self.rows[documents]

    def texts(self) -> pa.Array:
        """The texts of the rows, as the index has them. Raises CorruptFileError if the suffixes are not those of one text."""
        before = bytes_in(self.tree, self.lengths)
        if not len(before):
            return pa.array([], pa.large_binary())
        # The suffix that follows each: that before which its first byte is, the i-th for the i-th.
        follow = np.argsort(before, kind="stable")
        text = _text(before[follow], follow)
        is_separator = text == SEPARATOR
        ends = np.flatnonzero(is_separator)
        if not np.array_equal(np.append(0, ends + 1)[:-1], self.begins) or text[-1] != END:
            raise CorruptFileError(f"{self.path}: the texts do not begin where the metadata says")
        plain = text[:-1][~is_separator[:-1]]
        bounds = np.append(0, ends - np.arange(len(ends))).astype(np.int64)
        return pa.Array.from_buffers(pa.large_binary(), len(ends), [None, pa.py_buffer(bounds), pa.py_buffer(plain)])


def open_partition(file: IndexFile) -> Partition:
    """Read a partition, whose parts must fit to each other. Raises CorruptFileError or UnsupportedFeatureError."""
    path = file.path
    if file.number("sa_sample_rate", RATE) != RATE:
        raise UnsupportedFeatureError(f"{path}: an FM-index with the place of every {file.number('sa_sample_rate')}th suffix")
    count, rows = file.number("num_bwt_nodes"), file.number("total_wavelet_rows")
    length, blocks = file.number("bwt_len"), file.number("num_sa_blocks")
    if rows + blocks != file.num_rows or count > rows:
        raise CorruptFileError(f"{path}: {file.num_rows} rows, but {rows} for nodes and {blocks} for places")
    shape = _shape(_hex(file, "tree_topology"), path)
    if len(shape.branches) != count:
        raise CorruptFileError(f"{path}: {count} nodes, but {len(shape.branches)} pairs of branches")
    check_bytes(12 * length // 8, path)
    words, lengths = _nodes(file, count, rows)
    tree, counts = tree_of(shape, words, lengths, path)
    firsts = np.append(0, np.cumsum(counts))
    if length != firsts[-1] or not np.array_equal(_numbers(file, "c_table"), firsts.astype(np.uint64)):
        raise CorruptFileError(f"{path}: the bytes of the texts are not as many as the metadata says")
    samples = _samples(file, rows, blocks).astype(np.int64)
    wanted = file.number("sa_samples_len")
    if wanted != len(samples) or wanted != -(-length // RATE) or ((samples < 0) | (samples >= length)).any():
        raise CorruptFileError(f"{path}: expected the places of {-(-length // RATE)} suffixes, found {len(samples)}")
    begins, numbers = _numbers(file, "doc_start_positions").astype(np.int64), _numbers(file, "row_ids")
    in_order = len(begins) == len(numbers) and (np.diff(begins) > 0).all()
    if not in_order or (len(begins) > 0) != (length > 0) or (len(begins) and (begins[0] != 0 or begins[-1] >= length)):
        raise CorruptFileError(f"{path}: the texts of {len(numbers)} rows do not begin at {len(begins)} places in order")
    return Partition(path, tree, lengths, firsts, samples, begins, numbers)


def _hex(file: IndexFile, key: str) -> bytes:
    try:
        return bytes.fromhex(file.metadata[key])
    except (KeyError, ValueError) as e:
        raise CorruptFileError(f"{file.path}: the metadata {key!r} is missing or not hexadecimal") from e


def _numbers(file: IndexFile, key: str) -> np.ndarray:
    found = _hex(file, key)
    if len(found) % 8:
        raise CorruptFileError(f"{file.path}: the metadata {key!r} has {len(found)} bytes, which are not numbers of 8")
    return np.frombuffer(found, "<u8")


def _shape(told: bytes, path: str) -> Shape:
    count = int.from_bytes(told[:4], "little")
    if len(told) != 4 + 2 * BRANCH_BYTES * count:
        raise CorruptFileError(f"{path}: the metadata 'tree_topology' has {len(told)} bytes for {count} nodes")
    branches = np.frombuffer(told, np.dtype([("is_byte", "u1"), ("number", "<u4")]), offset=4)
    number = branches["number"].astype(np.int64)
    if (branches["is_byte"] > 1).any() or (number[branches["is_byte"] == 1] >= BYTES).any():
        raise CorruptFileError(f"{path}: the metadata 'tree_topology' has branches of an unknown form")
    return Shape(np.where(branches["is_byte"] == 1, -1 - number, number).reshape(count, 2))


def _nodes(file: IndexFile, count: int, rows: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The words of each node, and how many bits it has."""
    batch = file.read(["node_id", "bit_len", "words"], range(rows))
    nodes = unsigned(batch.column(0), file.path).astype(np.int64)
    if (np.diff(nodes) < 0).any() or not np.array_equal(np.unique(nodes), np.arange(count)):
        raise CorruptFileError(f"{file.path}: the nodes from 0 to {count} are not in order")
    first = np.searchsorted(nodes, np.arange(count + 1))
    words, bounds = _words(batch.column(2), file.path)
    found = [words[bounds[first[node]] : bounds[first[node + 1]]] for node in range(count)]
    return found, unsigned(batch.column(1), file.path).astype(np.int64)[first[:-1]]


def _samples(file: IndexFile, rows: int, blocks: int) -> np.ndarray:
    return _words(file.read(["words"], range(rows, rows + blocks)).column(0), file.path)[0]


def _words(column: pa.Array, path: str) -> tuple[np.ndarray, np.ndarray]:
    """The numbers (uint64) in binary values, one after the other, and the bounds of each value."""
    if not pa.types.is_large_binary(column.type) or column.null_count:
        raise CorruptFileError(f"{path}: expected binary values without nulls, found {column.null_count} nulls in {column.type}")
    values = column.to_pylist()
    sizes = np.array([len(value) for value in values], np.int64)
    if (sizes % 8).any():
        raise CorruptFileError(f"{path}: binary values are not numbers of 8 bytes")
    return np.frombuffer(b"".join(values), "<u8"), np.append(0, np.cumsum(sizes // 8))


@kernel
def _suffixes(
    pattern: np.ndarray,
    words: np.ndarray,
    starts: np.ndarray,
    ones: np.ndarray,
    taken: np.ndarray,
    nodes: np.ndarray,
    firsts: np.ndarray,
) -> tuple[int, int]:
    """The suffixes that begin with the pattern, from its last byte on."""
    first, last = 0, int(firsts[256])
    for i in range(len(pattern) - 1, -1, -1):
        byte = pattern[i]
        if taken[byte, 0] < 0:
            return 0, 0
        low, high = first, last
        for level in range(taken.shape[1]):
            branch = taken[byte, level]
            if branch < 0:
                break
            start = int(starts[nodes[byte, level]])
            right_low = ones_before(words, ones, start, low)
            right_high = ones_before(words, ones, start, high)
            low = right_low if branch == 1 else low - right_low
            high = right_high if branch == 1 else high - right_high
        first, last = int(firsts[byte]) + low, int(firsts[byte]) + high
        if first >= last:
            return 0, 0
    return first, last


@kernel
def _places(
    first: int,
    words: np.ndarray,
    starts: np.ndarray,
    ones: np.ndarray,
    taken: np.ndarray,
    nodes: np.ndarray,
    firsts: np.ndarray,
    branches: np.ndarray,
    samples: np.ndarray,
    out: np.ndarray,
) -> bool:
    """Store the places in the text of the suffixes from `first` on; False if one leads to no place that is stored."""
    length = int(firsts[256])
    for i in range(len(out)):
        at, steps = first + i, 0
        while at % 32 != 0:
            # The suffix that is one byte longer: the byte before this one, and how many suffixes before have the same.
            node, place = 0, at
            while node >= 0:
                start = int(starts[node])
                right = ones_before(words, ones, start, place)
                side = int((words[start + (place >> 6)] >> np.uint64(place & 63)) & np.uint64(1))
                place = right if side == 1 else place - right
                node = int(branches[node, side])
            at = int(firsts[-1 - node]) + place
            steps += 1
            if steps > length:
                return False
        out[i] = (samples[at >> 5] + steps) % length
    return True


@kernel
def _text(first_bytes: np.ndarray, follow: np.ndarray) -> np.ndarray:
    """The text, from the first byte of each suffix and the suffix that follows it; the first suffix is that of the last byte."""
    out = np.empty(len(follow), np.uint8)
    at = 0
    for i in range(len(follow)):
        at = follow[at]
        out[i] = first_bytes[at]
    return out
