"""The fast rotation of RQ: four rounds of changing signs and a Walsh-Hadamard transform."""

from __future__ import annotations

import numpy as np

from lance_spark.errors import CorruptFileError

_ROUNDS = 4


def fast_rotation(flips: np.ndarray, dimensions: int, size: int, what: str) -> np.ndarray:
    """The rotation as a matrix (float32) with `size` rows and `dimensions` columns; dimensions beyond those of the vectors are zero.

    `flips` are the bits (1: change the sign) of each round, one round after another, the first dimension in the lowest bit.
    """
    width = -(-size // 8)
    if len(flips) != _ROUNDS * width:
        raise CorruptFileError(f"{what}: expected the signs of {_ROUNDS} rounds of {size} dimensions, found {len(flips)} bytes")
    negative = np.unpackbits(flips.reshape(_ROUNDS, width), axis=1, bitorder="little")[:, :size].astype(np.bool_)
    rows = np.eye(dimensions, size, dtype=np.float32)
    power = 1 << (size.bit_length() - 1)
    for number, changed in enumerate(negative):
        rows[:, changed] *= -1
        part = slice(0, power) if number % 2 == 0 else slice(size - power, size)
        rows[:, part] = _transformed(rows[:, part])
        if power != size:
            half = size // 2
            left, right = rows[:, :half].copy(), rows[:, half : 2 * half].copy()
            rows[:, :half], rows[:, half : 2 * half] = left + right, left - right
    if power != size:
        rows *= np.float32(0.25)  # each of the four rounds has doubled the squared length
    return np.ascontiguousarray(rows.T)


def _transformed(rows: np.ndarray) -> np.ndarray:
    """The Walsh-Hadamard transform of each row, which keeps lengths."""
    count, size = rows.shape
    found, width = rows, 1
    while width < size:
        pairs = found.reshape(count, -1, 2, width)
        found = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(count, size)
        width *= 2
    return np.asarray(found / np.float32(np.sqrt(size)))
