"""Finite state transducers that map tokens to their numbers: version 3 of the format of the Rust crate `fst`.

A node's address is that of its last byte, and its bytes are read backwards. Nodes refer to nodes before them by distance. The value of
a key is the sum of the outputs on its path. A 16-byte header comes first; the number of keys, the address of the root and a checksum are
at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lance_spark.errors import CorruptFileError
from lance_spark.kernels.kernel import kernel

VERSION = 3
"""The version of the format."""
_HEADER, _FOOTER = 16, 20
COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
"""The inputs that a node of a single transition has in its first byte."""

MOST_BYTES = 1 << 16
"""Tokens are not longer."""

_ONE_NEXT, _ONE = 3, 2
"""The upper bits of nodes with one transition: to the node before, and to any."""

INDEXED = 32
"""Nodes with more transitions have an index of 256 bytes."""


@dataclass(frozen=True)
class Fst:
    """A transducer; `data` are its bytes (uint8), `length` is the number of keys."""

    data: np.ndarray
    root: int
    length: int
    path: str

    def find(self, key: bytes) -> int | None:
        """The value of a key. Raises CorruptFileError."""
        found = _find(self.data, self.root, np.frombuffer(key, np.uint8), _INPUTS)
        if found == _INVALID:
            raise CorruptFileError(f"{self.path}: the transducer of the tokens has a node outside of its bytes")
        return None if found < 0 else int(found)

    def all_keys(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All keys in order: their bytes one after the other, the bounds of each, and the values. Raises CorruptFileError."""
        bounds, values = np.zeros(self.length + 1, np.int64), np.zeros(self.length, np.int64)
        size = _list(self.data, self.root, _INPUTS, np.empty(0, np.uint8), bounds, values)
        keys = np.empty(max(size, 0), np.uint8)
        if size < 0 or _list(self.data, self.root, _INPUTS, keys, bounds, values) != size:
            raise CorruptFileError(f"{self.path}: the transducer of the tokens is damaged")
        return keys, bounds, values


def open_fst(data: bytes, path: str, most_keys: int) -> Fst:
    """The transducer in the file at `path`, which has at most `most_keys` keys. Raises CorruptFileError."""
    array = np.frombuffer(data, np.uint8)
    if len(array) < _HEADER + _FOOTER or int.from_bytes(data[:8], "little") != VERSION:
        raise CorruptFileError(f"{path}: the tokens are no transducer of version {VERSION}")
    length, root = (int.from_bytes(data[at : at + 8], "little") for at in (len(data) - 20, len(data) - 12))
    if length > most_keys or (root and not _HEADER <= root < len(data) - _FOOTER):
        raise CorruptFileError(f"{path}: the transducer of the tokens has {length} keys and its root at {root}, which cannot be")
    return Fst(array, root, length, path)


_INPUTS = np.frombuffer(COMMON, np.uint8)
_MISSING, _INVALID = -1, -2
_TRANSITIONS = 256


@kernel
def _number(data: np.ndarray, at: int, size: int) -> Any:
    """The `size` bytes at `at` as a number."""
    value: Any = 0
    for i in range(size):
        value |= np.int64(data[at + i]) << (8 * i)
    return value


@kernel
def _node(data: np.ndarray, address: int, inputs: np.ndarray) -> Any:
    """A node: its number of transitions (negative if it is invalid), the places of their inputs, targets and outputs, its lowest address,
    the sizes of targets and outputs as 16 * targets + outputs, and whether it is final. A single transition has its input as the place.
    """
    if address == 0:
        return 0, 0, 0, 0, 0, 0, True
    if address < 16 or address >= len(data) - 20:
        return -1, 0, 0, 0, 0, 0, False
    state = np.int64(data[address])
    at: Any = address
    if state >> 6 >= 2:
        common = state & 63
        if common:
            byte = np.int64(inputs[common - 1])
        else:
            at -= 1
            byte = np.int64(data[at])
        if state >> 6 == 3:
            return 1, byte, -1, 0, at, 0, False
        at -= 1
        sizes = np.int64(data[at])
        targets = at - (sizes >> 4)
        outputs = targets - (sizes & 15)
        return (-1 if outputs < 16 or sizes >> 4 > 8 or sizes & 15 > 8 else 1), byte, targets, outputs, outputs, sizes, False
    final = bool(state & 64)
    count: Any = state & 63
    if count == 0:
        at -= 1
        count = np.int64(data[at])
        count = 256 if count == 1 else count
    at -= 1
    sizes = np.int64(data[at])
    at -= 256 if count > 32 else 0
    first = at - count
    targets = first - count * (sizes >> 4)
    outputs = targets - count * (sizes & 15)
    lowest = outputs - (sizes & 15 if final else 0)
    if lowest < 16 or sizes >> 4 > 8 or sizes & 15 > 8:
        return -1, 0, 0, 0, 0, 0, False
    return count, first, targets, outputs, lowest, sizes, final


@kernel
def _transition(data: np.ndarray, node: Any, i: int, address: int) -> Any:
    """The input, the target (negative if it is invalid) and the output of a transition, which are numbered in ascending order of inputs."""
    count, first, targets, outputs, lowest, sizes, _ = node
    if targets == -1:
        return first, lowest - 1, 0
    single = data[address] >> np.uint8(6) == 2
    place = count - 1 - i
    width, out = sizes >> 4, sizes & 15
    byte = first if single else np.int64(data[first + place])
    distance = _number(data, targets + place * width, width)
    target = lowest - distance if distance else 0
    return byte, (-1 if target < 0 or (target and target < 16) else target), _number(data, outputs + place * out, out)


@kernel
def _final_output(data: np.ndarray, node: Any) -> Any:
    _, _, _, outputs, lowest, sizes, final = node
    return _number(data, lowest, sizes & 15) if final and lowest < outputs else 0


@kernel
def _find(data: np.ndarray, root: int, key: np.ndarray, inputs: np.ndarray) -> int:
    address: Any = root
    value: Any = 0
    for k in range(len(key)):
        node = _node(data, address, inputs)
        if node[0] < 0:
            return _INVALID
        low, high = 0, node[0]
        while low < high:  # the inputs are in order
            middle = (low + high) // 2
            if _transition(data, node, middle, address)[0] < key[k]:
                low = middle + 1
            else:
                high = middle
        if low == node[0]:
            return _MISSING
        byte, target, output = _transition(data, node, low, address)
        if byte != key[k]:
            return _MISSING
        if target < 0 or target >= address:
            return _INVALID
        value += output
        address = target
    node = _node(data, address, inputs)
    if node[0] < 0:
        return _INVALID
    return value + _final_output(data, node) if node[6] else _MISSING


@kernel
def _list(data: np.ndarray, root: int, inputs: np.ndarray, keys: np.ndarray, bounds: np.ndarray, values: np.ndarray) -> int:
    """Write all keys, unless `keys` is empty, their bounds and values; the number of bytes of the keys, negative if a node is invalid."""
    addresses, next_, sums = np.zeros(MOST_BYTES, np.int64), np.zeros(MOST_BYTES, np.int64), np.zeros(MOST_BYTES, np.int64)
    path = np.zeros(MOST_BYTES, np.uint8)
    depth, size, count = 0, 0, 0
    addresses[0] = root
    while depth >= 0:
        address = addresses[depth]
        node = _node(data, address, inputs)
        if node[0] < 0:
            return _INVALID
        if next_[depth] == 0 and node[6]:
            if count == len(values) or (len(keys) and size + depth > len(keys)):
                return _INVALID
            values[count] = sums[depth] + _final_output(data, node)
            for i in range(depth if len(keys) else 0):
                keys[size + i] = path[i]
            size += depth
            count += 1
            bounds[count] = size
        if next_[depth] == node[0]:
            depth -= 1
            continue
        byte, target, output = _transition(data, node, next_[depth], address)
        next_[depth] += 1
        if target < 0 or target >= address or depth + 1 == MOST_BYTES:
            return _INVALID
        path[depth] = byte
        depth += 1
        addresses[depth], next_[depth], sums[depth] = target, 0, sums[depth - 1] + output
    return size if count == len(values) else _INVALID
