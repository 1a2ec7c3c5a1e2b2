"""Remainders of many integers by one: a product with the reciprocal is several times as fast as a division."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.kernel import kernel

_EXACT = 1 << 52
"""Integers below it, and quotients of them up to 1, are exact in floating point."""
_FEW = 1 << 12
"""Of fewer values, numpy takes the remainders sooner than a kernel is loaded."""


def remainders(values: np.ndarray, divisor: int) -> np.ndarray:
    """The remainders of signed integers by `divisor`, not 0, whose sign does not count; they have the sign of the dividend, as in Java."""
    size, known = abs(divisor), len(values) >= _FEW and abs(divisor) < _EXACT
    out = np.empty_like(values)
    if known and _by_reciprocal(values, size, out):
        return out
    # The size of the smallest integer is not one of its type.
    np.fmod(values, values.dtype.type(size if size <= np.iinfo(values.dtype).max else divisor), out=out)
    return out


@kernel
def _by_reciprocal(values: np.ndarray, divisor: int, out: np.ndarray) -> bool:
    """Fill `out` with the remainders. False if the size of a value is not below `_EXACT`."""
    reciprocal, bits = 1.0 / divisor, np.int64(0)
    for i in range(len(values)):
        value = np.int64(values[i])
        size = abs(value)
        bits |= size
        rest = size - np.int64(np.float64(size) * reciprocal) * divisor
        # The rounded quotient may be one too large or too small.
        rest += divisor if rest < 0 else 0
        rest -= divisor if rest >= divisor else 0
        out[i] = rest if value >= 0 else -rest
    # The smallest integer has no positive size.
    return bool(0 <= bits < _EXACT)
