"""SipHash-1-3 with the keys 0 and 0, which Rust's `DefaultHasher` is, of many values at once (https://github.com/veorq/SipHash)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.arrow.texts import bytes_of

_START = tuple(np.uint64(word) for word in (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573))
_WORD = 8
_FINAL_ROUNDS = 3


def sip_hashes(values: pa.Array) -> np.ndarray:
    """The hash (uint64) of each of these bytes, which are not null."""
    data, offsets = bytes_of(values)
    starts, sizes = offsets[:-1], np.diff(offsets)
    state = [np.full(len(sizes), word) for word in _START]
    longer = np.arange(len(sizes))
    for number in range(int(sizes.max(initial=0)) // _WORD):
        longer = longer[sizes[longer] >= (number + 1) * _WORD]  # of many short values and a long one, only this is looked at
        _absorb(state, longer, _words(data, starts[longer] + number * _WORD, np.full(len(longer), _WORD)))
    whole = sizes // _WORD * _WORD
    last = _words(data, starts + whole, sizes - whole) | (sizes.astype(np.uint64) & np.uint64(0xFF)) << np.uint64(56)
    _absorb(state, np.arange(len(sizes)), last)
    state[2] ^= np.uint64(0xFF)
    for _ in range(_FINAL_ROUNDS):
        state = _round(*state)
    found: np.ndarray = state[0] ^ state[1] ^ state[2] ^ state[3]
    return found


def _words(data: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The little-endian numbers of up to eight bytes each."""
    words = np.zeros(len(starts), np.uint64)
    for place in range(int(sizes.max(initial=0))):
        there = np.flatnonzero(sizes > place)
        words[there] |= data[starts[there] + place].astype(np.uint64) << np.uint64(8 * place)
    return words


def _absorb(state: list[np.ndarray], rows: np.ndarray, words: np.ndarray) -> None:
    """Mix a word into the state of each of these rows."""
    own = [part[rows] for part in state]
    own[3] ^= words
    own = _round(*own)
    own[0] ^= words
    for part, changed in zip(state, own, strict=True):
        part[rows] = changed


def _round(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> list[np.ndarray]:
    a, c = a + b, c + d
    b, d = _rotated(b, 13) ^ a, _rotated(d, 16) ^ c
    a = _rotated(a, 32)
    a, c = a + d, c + b
    d, b = _rotated(d, 21) ^ a, _rotated(b, 17) ^ c
    return [a, b, _rotated(c, 32), d]


def _rotated(words: np.ndarray, by: int) -> np.ndarray:
    return words << np.uint64(by) | words >> np.uint64(64 - by)
