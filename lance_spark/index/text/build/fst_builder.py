"""Building transducers from sorted keys; see `fst` for their form.

Keys come in ascending order. The nodes of the last key, which may still get transitions, wait on a stack; those that the next key does not
share are written. Nodes like one that was written are not written again, as far as a table of limited size remembers.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from lance_spark.buffers import crc32c
from lance_spark.index.text.fst import COMMON, INDEXED, VERSION
from lance_spark.kernels.kernel import kernel

_HEADER = struct.pack("<QQ", VERSION, 0)
_SLOTS, _MOST_SHARED = 1 << 16, 8
"""Nodes that are remembered, and their transitions: those of more are rarely alike."""

_TRANSITION_BYTES = 32
"""At most so many bytes for each byte of a key: its part of an index of 256 bytes, an input, a target, outputs, and the node's own ones."""


def fst_of(keys: np.ndarray, bounds: np.ndarray, values: np.ndarray) -> bytes:
    """The transducer that maps key i, `keys[bounds[i]:bounds[i + 1]]`, to `values[i]`. Keys ascend, each is there once."""
    place = np.zeros(256, np.uint8)
    place[np.frombuffer(COMMON, np.uint8)] = np.arange(1, len(COMMON) + 1)
    longest = int(np.diff(bounds).max(initial=0))
    size = int(bounds[-1] - bounds[0])
    out = np.empty(len(_HEADER) + _TRANSITION_BYTES * (size + 1), np.uint8)
    out[: len(_HEADER)] = np.frombuffer(_HEADER, np.uint8)
    used, root = _build(keys, bounds, values.astype(np.int64), place, longest, len(_HEADER), out)
    data = out[:used].tobytes() + struct.pack("<QQ", len(values), root)
    return data + struct.pack("<I", _masked(crc32c.crc32c(data)) if crc32c.available() else 0)


def _masked(checksum: int) -> int:
    """The checksum as it is stored: rotated, and with a constant added, so that data with checksums in it has another one."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


@kernel
def _build(keys: np.ndarray, bounds: np.ndarray, values: np.ndarray, place: np.ndarray, longest: int, at: int, out: np.ndarray) -> Any:
    """Write all nodes; the end of them, and the address of the root."""
    depths = longest + 2
    # Transitions of the waiting nodes, one node after the other; node d has those from first[d] to first[d + 1], the last one being open.
    inputs, targets, outputs = np.zeros(depths + 256 * 2, np.uint8), np.zeros(depths + 512, np.int64), np.zeros(depths + 512, np.int64)
    first = np.zeros(depths + 1, np.int64)
    final, final_output = np.zeros(depths, np.bool_), np.zeros(depths, np.int64)
    known = np.zeros((_SLOTS, _MOST_SHARED, 3), np.int64)
    known_node = np.full((_SLOTS, 4), -1, np.int64)  # the number of transitions, whether it is final, the final output, the address
    state = np.array([at, -1], np.int64)  # the end of the nodes, and the address of the last one
    depth = 0
    for k in range(len(bounds)):
        is_end = k == len(bounds) - 1
        start = bounds[k]
        size = 0 if is_end else bounds[k + 1] - start
        value: Any = 0 if is_end else values[k]
        shared = 0
        while shared < depth and shared < size and inputs[first[shared + 1] - 1] == keys[start + shared]:
            last = first[shared + 1] - 1
            rest = outputs[last] - min(outputs[last], value)
            outputs[last] -= rest
            value -= outputs[last]
            shared += 1
            if rest:  # what the keys do not share goes to the next node
                for i in range(first[shared], first[shared + 1]):
                    outputs[i] += rest
                final_output[shared] += rest if final[shared] else 0
        while depth > shared:
            address = _written(
                inputs,
                targets,
                outputs,
                first[depth],
                first[depth + 1],
                final[depth],
                final_output[depth],
                known,
                known_node,
                place,
                state,
                out,
            )
            final[depth], final_output[depth] = False, 0
            depth -= 1
            targets[first[depth + 1] - 1] = address
        if is_end:
            break
        if len(inputs) < first[depth + 1] + size + 2:
            inputs, targets, outputs = _longer(inputs), _longer(targets), _longer(outputs)
        if size == shared:
            final[depth], final_output[depth] = True, value
        for i in range(shared, size):
            end = first[depth + 1]
            inputs[end], targets[end], outputs[end] = keys[start + i], 0, value
            value = 0
            first[depth + 1] = end + 1
            depth += 1
            first[depth + 1] = end + 1
            final[depth], final_output[depth] = i == size - 1, 0
    root = _written(inputs, targets, outputs, first[0], first[1], final[0], final_output[0], known, known_node, place, state, out)
    return state[0], root


@kernel
def _longer(values: np.ndarray) -> np.ndarray:
    out = np.zeros(2 * len(values), values.dtype)
    out[: len(values)] = values
    return out


@kernel
def _written(
    inputs: np.ndarray,
    targets: np.ndarray,
    outputs: np.ndarray,
    low: int,
    high: int,
    final: bool,
    final_output: int,
    known: np.ndarray,
    known_node: np.ndarray,
    place: np.ndarray,
    state: np.ndarray,
    out: np.ndarray,
) -> Any:
    """The address of a node with these transitions, which is written unless there is one like it."""
    count = high - low
    if count == 0 and final and final_output == 0:
        return 0
    slot: Any = -1
    if count <= _MOST_SHARED:
        value = np.uint64(count) << np.uint64(1) | np.uint64(final)
        value = (value ^ np.uint64(final_output)) * np.uint64(0x9E3779B97F4A7C15)
        for i in range(low, high):
            for part in (np.uint64(inputs[i]), np.uint64(targets[i]), np.uint64(outputs[i])):
                value = (value ^ part) * np.uint64(0x9E3779B97F4A7C15)
                value ^= value >> np.uint64(31)
        slot = np.int64(value & np.uint64(_SLOTS - 1))
        same = known_node[slot, 0] == count and known_node[slot, 1] == final and known_node[slot, 2] == final_output
        for i in range(count):
            if same:
                same = (
                    known[slot, i, 0] == inputs[low + i] and known[slot, i, 1] == targets[low + i] and known[slot, i, 2] == outputs[low + i]
                )
        if same:
            return known_node[slot, 3]
    _write(inputs, targets, outputs, low, high, final, final_output, place, state, out)
    if slot >= 0:
        known_node[slot, 0], known_node[slot, 1], known_node[slot, 2], known_node[slot, 3] = count, final, final_output, state[1]
        for i in range(count):
            known[slot, i, 0], known[slot, i, 1], known[slot, i, 2] = inputs[low + i], targets[low + i], outputs[low + i]
    return state[1]


@kernel
def _write(
    inputs: np.ndarray,
    targets: np.ndarray,
    outputs: np.ndarray,
    low: int,
    high: int,
    final: bool,
    final_output: int,
    place: np.ndarray,
    state: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write a node, and set its address and its end in `state`."""
    start, count = state[0], high - low
    at: Any = start
    common = np.int64(place[inputs[low]]) if count == 1 else 0
    if count == 1 and not final and outputs[low] == 0 and targets[low] == state[1]:
        if not common:
            out[at] = inputs[low]
            at += 1
        out[at] = 0xC0 | common
        state[0], state[1] = at + 1, at
        return
    farthest: Any = np.int64(0)
    largest: Any = np.int64(final_output)
    for i in range(low, high):
        farthest = max(farthest, start - targets[i] if targets[i] else np.int64(0))
        largest = max(largest, outputs[i])
    width, output_width = _bytes_in(farthest), _bytes_in(largest) if largest else 0
    if final:
        at = _put(final_output, output_width, out, at)
    for i in range(count):
        at = _put(outputs[high - 1 - i], output_width, out, at)
    for i in range(count):
        target: Any = targets[high - 1 - i]
        distance: Any = start - target if target else np.int64(0)
        at = _put(distance, width, out, at)
    sizes = width << 4 | output_width
    if count == 1 and not final:
        out[at] = sizes
        at += 1
        if not common:
            out[at] = inputs[low]
            at += 1
        out[at] = 0x80 | common
        state[0], state[1] = at + 1, at
        return
    for i in range(count):
        out[at + i] = inputs[high - 1 - i]
    at += count
    if count > INDEXED:
        out[at : at + 256] = 0xFF
        for i in range(count):
            out[at + np.int64(inputs[low + i])] = i
        at += 256
    out[at] = sizes
    at += 1
    if count == 0 or count > 63:
        out[at] = 1 if count == 256 else count
        at += 1
    out[at] = (0x40 if final else 0) | (count if count <= 63 else 0)
    state[0], state[1] = at + 1, at


@kernel
def _bytes_in(value: int) -> int:
    size = 1
    while value >> (8 * size):
        size += 1
    return size


@kernel
def _put(value: int, size: int, out: np.ndarray, at: int) -> int:
    for i in range(size):
        out[at + i] = value >> (8 * i) & 255
    return at + size
