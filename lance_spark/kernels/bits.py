"""Positions of the ones in bitmaps, such as those of Arrow's booleans."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U


def ones(words: np.ndarray, count: int) -> np.ndarray:
    """The positions (int64), ascending, of the `count` ones in `words` (uint64), whose lowest bits are first."""
    out = np.empty(count, np.int64)
    found = _ones(words, out)
    assert found == count, "the caller has counted the ones"
    return out


@kernel
def _ones(words: np.ndarray, out: np.ndarray) -> int:
    """Fill `out` with the positions of the ones; returns how many there are, at most one more than `out` has room for."""
    done = U(0)
    for i in range(U(len(words))):
        left = words[i]
        while left:
            if done == U(len(out)):
                return int(done + U(1))
            # The bits below the lowest one are as many as its position.
            below = (left & (~left + U(1))) - U(1)
            below -= below >> U(1) & U(0x5555555555555555)
            below = (below & U(0x3333333333333333)) + (below >> U(2) & U(0x3333333333333333))
            below = (below + (below >> U(4))) & U(0x0F0F0F0F0F0F0F0F)
            out[done] = i * U(64) + (below * U(0x0101010101010101) >> U(56))
            done += U(1)
            left &= left - U(1)
    return int(done)
