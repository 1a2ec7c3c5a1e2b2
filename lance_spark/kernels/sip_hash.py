"""SipHash-1-3 with the keys 0 and 0, which Rust's `DefaultHasher` is (https://github.com/veorq/SipHash)."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import BYTE, U, load64

_START_A, _START_B = U(0x736F6D6570736575), U(0x646F72616E646F6D)
_START_C, _START_D = U(0x6C7967656E657261), U(0x7465646279746573)
_State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


@kernel
def sip_hash(data: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """Store in `out` (uint64) the hash of each value; value i is `data[offsets[i]:offsets[i + 1]]`.

    `data` are bytes; `offsets` (int64) ascend and lie within `data`.
    """
    for i in range(len(out)):
        at, stop = U(offsets[i]), U(offsets[i + 1])
        size = stop - at
        state = _START_A, _START_B, _START_C, _START_D
        while stop - at >= U(8):
            state = _absorbed(state, load64(data, at))
            at += U(8)
        last = (size & BYTE) << U(56)
        for place in range(stop - at):
            last |= U(data[at + U(place)]) << (U(8) * U(place))
        a, b, c, d = _absorbed(state, last)
        state = _round((a, b, c ^ BYTE, d))
        a, b, c, d = _round(_round(state))
        out[i] = a ^ b ^ c ^ d


@kernel
def _absorbed(state: _State, word: np.uint64) -> _State:
    """The state after a word."""
    a, b, c, d = state
    a, b, c, d = _round((a, b, c, d ^ word))
    return a ^ word, b, c, d


@kernel
def _round(state: _State) -> _State:
    a, b, c, d = state
    a, c = a + b, c + d
    b, d = _rotated(b, U(13)) ^ a, _rotated(d, U(16)) ^ c
    a = _rotated(a, U(32))
    a, c = a + d, c + b
    d, b = _rotated(d, U(21)) ^ a, _rotated(b, U(17)) ^ c
    return a, b, _rotated(c, U(32)), d


@kernel
def _rotated(word: np.uint64, by: np.uint64) -> np.uint64:
    return word << by | word >> (U(64) - by)
