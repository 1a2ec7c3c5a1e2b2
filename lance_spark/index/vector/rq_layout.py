"""The bits of RQ codes as they are stored: signs in groups of 32 rows, further bits in blocks of 64 dimensions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

_ROWS = 32
_ORDER = np.array([0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15])
"""The row of a group whose nibbles are in the low halves of the byte with each number; those of the row 16 later are in the high halves."""

_BLOCK = 64
_PLANE = np.array([8 * (b % 8) + 2 * k + b // 8 for k in range(4) for b in range(16)])
"""Where the bit of each dimension of a block is in a plane of 64 bits, which has one bit of each dimension."""


def signs(stored: np.ndarray) -> np.ndarray:
    """The signs of each row of a partition, 8 dimensions in a byte, the first in the lowest bit."""
    rows, width = stored.shape
    groups = rows // _ROWS
    flat, out = stored.reshape(-1), np.empty((rows, width), np.uint8)
    packed = flat[: groups * _ROWS * width].reshape(groups, width, 2, 16)
    low, high = packed[:, :, 0], packed[:, :, 1]
    grouped = np.empty((groups, _ROWS, width), np.uint8)
    grouped[:, _ORDER] = ((low & 15) | ((high & 15) << 4)).transpose(0, 2, 1)
    grouped[:, _ORDER + 16] = ((low >> 4) | (high & 0xF0)).transpose(0, 2, 1)
    out[: groups * _ROWS] = grouped.reshape(-1, width)
    out[groups * _ROWS :] = flat[groups * _ROWS * width :].reshape(width, -1).T
    return out


def ex_codes(stored: np.ndarray, bits: int, dimensions: int) -> np.ndarray:
    """The further `bits` (1 to 8) of each dimension of each row, as bytes."""
    blocks = stored.reshape(len(stored), -1, _BLOCK * bits // 8)
    codes = _DECODE[bits](blocks).reshape(len(stored), -1)
    return np.ascontiguousarray(codes[:, :dimensions])


def _plane(stored: np.ndarray) -> np.ndarray:
    """One bit of each dimension."""
    return np.asarray((stored[..., _PLANE // 8] >> (_PLANE % 8).astype(np.uint8)) & 1)


def _two(blocks: np.ndarray) -> np.ndarray:
    return np.concatenate([(blocks[..., :16] >> shift) & 3 for shift in (0, 2, 4, 6)], axis=-1)


def _four(blocks: np.ndarray) -> np.ndarray:
    halves = [[blocks[..., at : at + 8] & 15, blocks[..., at : at + 8] >> 4] for at in (0, 8, 16, 24)]
    return np.concatenate([half for pair in halves for half in pair], axis=-1)


def _five(blocks: np.ndarray) -> np.ndarray:
    low = [(blocks[..., at : at + 16] >> shift) & 15 for at in (0, 16) for shift in (0, 4)]
    return np.asarray(np.concatenate(low, axis=-1) | _plane(blocks[..., 32:40]) << 4)


def _six(blocks: np.ndarray) -> np.ndarray:
    thirds = [blocks[..., at : at + 16] for at in (0, 16, 32)]
    last = (thirds[0] >> 6) | (thirds[1] >> 6) << 2 | (thirds[2] >> 6) << 4
    return np.concatenate([*(third & 63 for third in thirds), last], axis=-1)


_DECODE: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    1: lambda blocks: np.unpackbits(blocks, axis=-1, bitorder="little"),
    2: _two,
    3: lambda blocks: _two(blocks) | _plane(blocks[..., 16:24]) << 2,
    4: _four,
    5: _five,
    6: _six,
    7: lambda blocks: _six(blocks) | _plane(blocks[..., 48:56]) << 6,
    8: lambda blocks: blocks,
}


def packed_signs(rows: np.ndarray) -> np.ndarray:
    """What `signs` reads as these rows."""
    count, width = rows.shape
    groups = count // _ROWS
    grouped = rows[: groups * _ROWS].reshape(groups, _ROWS, width)
    first, second = (grouped[:, order].transpose(0, 2, 1) for order in (_ORDER, _ORDER + 16))
    packed = np.stack([(first & 15) | ((second & 15) << 4), (first >> 4) | (second & 0xF0)], axis=2)
    return np.concatenate([packed.reshape(-1), rows[groups * _ROWS :].T.reshape(-1)]).reshape(count, width)


def packed_ex_codes(codes: np.ndarray, bits: int) -> np.ndarray:
    """What `ex_codes` reads as these codes: a row for each vector, filled up with zeros to whole blocks."""
    count, dimensions = codes.shape
    filled = np.zeros((count, -(-dimensions // _BLOCK), _BLOCK), np.uint8)
    filled.reshape(count, -1)[:, :dimensions] = codes
    packed = np.zeros((*filled.shape[:2], _BLOCK * bits // 8), np.uint8)
    for shift, which, mask in _shifts(bits):
        taken = np.take(filled, which, axis=-1)
        packed |= (taken << shift if shift >= 0 else taken >> -shift) & mask
    return packed.reshape(count, -1)


@cache
def _shifts(bits: int) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """How the bytes of a stored block follow from its codes: bits of a code are moved up by `shift`; which code each byte has bits of, and
    which of its bits these are.
    """
    single = np.packbits(np.eye(_BLOCK * bits, dtype=np.uint8), axis=1, bitorder="little")
    decoded = _DECODE[bits](single[:, None, :])[:, 0]
    places = np.unpackbits(decoded[..., None], axis=-1, count=bits, bitorder="little").reshape(len(decoded), -1).argmax(axis=1)
    (byte, at), (code, bit) = np.divmod(np.arange(len(places)), 8), np.divmod(places, bits)
    found = []
    for shift in np.unique(at - bit).tolist():
        own = at - bit == shift
        which, mask = np.zeros(_BLOCK * bits // 8, np.intp), np.zeros(_BLOCK * bits // 8, np.uint8)
        which[byte[own]] = code[own]
        np.bitwise_or.at(mask, byte[own], (1 << at[own]).astype(np.uint8))
        found.append((shift, which, mask))
    return found
