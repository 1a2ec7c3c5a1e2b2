"""A wavelet tree in the form of a Huffman code: the bytes of a text, and how often each comes before a place.

A node has a bit for each byte below it: the branch where the byte is. The numbers of nodes ascend from the root, 0.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lance_spark.errors import CorruptFileError
from lance_spark.kernels.kernel import kernel

BYTES = 256
MOST_BITS = 32
"""A code has at most so many bits: files have four bytes for one."""


@dataclass(frozen=True)
class Shape:
    """The branches of each node (int64, two columns): another node, or, negative, -1 minus a byte."""

    branches: np.ndarray

    def codes(self, what: str) -> tuple[np.ndarray, np.ndarray]:
        """The branches that lead to each byte, and the nodes at which they are taken; -1 after the last.

        Both have a row of `MOST_BITS` for each byte (int64). Raises CorruptFileError for what is no tree.
        """
        taken = np.full((BYTES, MOST_BITS), -1, np.int64)
        nodes = np.full((BYTES, MOST_BITS), -1, np.int64)
        waiting: list[tuple[int, tuple[tuple[int, int], ...]]] = [(0, ())] if len(self.branches) else []
        met = set[int]()
        while waiting:
            node, path = waiting.pop()
            if node in met or len(path) >= MOST_BITS:
                raise CorruptFileError(f"{what}: the nodes of the index are not a tree of at most {MOST_BITS} levels")
            met.add(node)
            for side, below in enumerate(self.branches[node].tolist()):
                longer = (*path, (node, side))
                if below >= 0:
                    if below >= len(self.branches):
                        raise CorruptFileError(f"{what}: a node of the index leads to {below}, but there are {len(self.branches)}")
                    waiting.append((below, longer))
                    continue
                byte = -1 - below
                if taken[byte, 0] >= 0:
                    raise CorruptFileError(f"{what}: the byte {byte} has two places in the index")
                nodes[byte, : len(longer)] = [at for at, _ in longer]
                taken[byte, : len(longer)] = [branch for _, branch in longer]
        if len(met) != len(self.branches):
            raise CorruptFileError(f"{what}: {len(self.branches) - len(met)} nodes of the index have no parent")
        return taken, nodes


@dataclass(frozen=True)
class Tree:
    """A tree in memory, as kernels take it.

    The bits of node i are from the word `starts[i]` of `words` (uint64) on; `ones` are the numbers of ones in a node before each
    of its words (int64). `taken` and `nodes` are the codes of `Shape`.
    """

    shape: Shape
    words: np.ndarray
    starts: np.ndarray
    ones: np.ndarray
    taken: np.ndarray
    nodes: np.ndarray

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self.words.nbytes + self.ones.nbytes + self.taken.nbytes + self.nodes.nbytes


def tree_of(shape: Shape, words: Sequence[np.ndarray], lengths: np.ndarray, what: str) -> tuple[Tree, np.ndarray]:
    """The tree of nodes that have these words (uint64) and so many bits, and how often each byte is in it.

    Raises CorruptFileError if nodes have not as many bits as their parents say: kernels do not check places.
    """
    taken, nodes = shape.codes(what)
    if len(words) != len(shape.branches) or any(len(own) * 64 < bits for own, bits in zip(words, lengths.tolist())):
        raise CorruptFileError(f"{what}: nodes of the index lack bits")
    starts = np.cumsum([0, *(len(own) + 1 for own in words)])  # one word more: a rank may be asked for the end
    joined = np.zeros(int(starts[-1]), np.uint64)
    ones = np.zeros(len(joined), np.int64)
    counts = np.zeros(BYTES, np.int64)
    for node, own in enumerate(words):
        start, stop = int(starts[node]), int(starts[node + 1])
        joined[start : stop - 1] = own
        ones[start + 1 : stop] = np.cumsum(np.bitwise_count(own))
        below = (int(lengths[node]) - int(ones[stop - 1]), int(ones[stop - 1]))
        for branch, count in zip(shape.branches[node].tolist(), below):
            if branch < 0:
                counts[-1 - branch] = count
            elif count != lengths[branch]:
                raise CorruptFileError(f"{what}: node {branch} of the index has {lengths[branch]} bits, but its parent says {count}")
    return Tree(shape, joined, starts, ones, taken, nodes), counts


def huffman(counts: np.ndarray) -> Shape:
    """The tree of bytes that come so often: the rarer, the deeper."""
    # Two subtrees are never compared: their numbers differ.
    heap = [(count, byte, -1 - byte) for byte, count in enumerate(counts.tolist()) if count]
    if not heap:
        return Shape(np.empty((0, 2), np.int64))
    if len(heap) == 1:
        heap.append((0, BYTES, -1 if heap[0][2] != -1 else -2))  # another byte, which does not come
    heapq.heapify(heap)
    pairs: list[tuple[int, int]] = []
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        pairs.append((first[2], second[2]))
        heapq.heappush(heap, (first[0] + second[0], BYTES + len(pairs), len(pairs) - 1))
    # The last pair is the root.
    last = len(pairs) - 1
    branches = np.array(pairs[::-1], np.int64)
    return Shape(np.where(branches >= 0, last - branches, branches))


def branch_bits(shape: Shape, text: np.ndarray, what: str) -> list[np.ndarray]:
    """The bits of each node of a tree, for the bytes of a text, as masks."""
    taken, nodes = shape.codes(what)
    found: list[np.ndarray] = [np.empty(0, np.bool_)] * len(shape.branches)
    waiting = [(0, 0, text)] if len(shape.branches) else []
    while waiting:
        node, level, own = waiting.pop()
        is_right = np.zeros(BYTES, np.bool_)
        below = nodes[:, level] == node
        is_right[below] = taken[below, level] == 1
        found[node] = is_right[own]
        for side, branch in enumerate(shape.branches[node].tolist()):
            if branch >= 0:
                waiting.append((branch, level + 1, own[found[node] == bool(side)]))
    return found


def bytes_in(tree: Tree, lengths: np.ndarray) -> np.ndarray:
    """The bytes of the text of a tree, whose nodes have so many bits."""
    found: dict[int, np.ndarray] = {}
    for node in _children_first(tree.shape):
        start, count = int(tree.starts[node]), int(lengths[node])
        bits = np.unpackbits(tree.words[start : start + -(-count // 64)].view(np.uint8), count=count, bitorder="little")
        own = np.empty(count, np.uint8)
        for side, branch in enumerate(tree.shape.branches[node].tolist()):
            own[bits == side] = -1 - branch if branch < 0 else found.pop(branch)
        found[node] = own
    return found.get(0, np.empty(0, np.uint8))


def _children_first(shape: Shape) -> list[int]:
    order, waiting = list[int](), [0] if len(shape.branches) else []
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += [branch for branch in shape.branches[node].tolist() if branch >= 0]
    return order[::-1]


@kernel
def ones_before(words: np.ndarray, ones: np.ndarray, start: int, place: int) -> int:
    """The number of ones in a node before a place; its words begin at `start`."""
    at = start + (place >> 6)
    left = words[at] & ((np.uint64(1) << np.uint64(place & 63)) - np.uint64(1))
    # The sum of the bits of a word, in parallel.
    left = left - ((left >> np.uint64(1)) & np.uint64(0x5555555555555555))
    left = (left & np.uint64(0x3333333333333333)) + ((left >> np.uint64(2)) & np.uint64(0x3333333333333333))
    left = (left + (left >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int(ones[at]) + int((left * np.uint64(0x0101010101010101)) >> np.uint64(56))
