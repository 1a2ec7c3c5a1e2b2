"""Tokens within an edit distance: insertions, deletions and replacements of characters, each counting one."""

from __future__ import annotations

from typing import Any

import numpy as np

from lance_spark.errors import InvalidOptionError
from lance_spark.kernels.kernel import kernel

_MOST_CHARACTERS = 1 << 10
"""Longer words would take memory and time by the square of their length."""


def near(keys: np.ndarray, bounds: np.ndarray, token: str, fuzziness: int, prefix_length: int) -> np.ndarray:
    """The numbers of those of the sorted keys (UTF-8) that are within the distance of the token, and start with its first characters.

    Keys at `bounds` are the bytes of each. Work is shared among keys with a common start.
    """
    wanted = np.array([ord(c) for c in token], np.int64)
    prefix = np.frombuffer(token[:prefix_length].encode(), np.uint8)
    longest = int(np.diff(bounds).max(initial=0))
    if len(wanted) > longest + fuzziness:
        return np.empty(0, np.int64)
    if len(wanted) > _MOST_CHARACTERS:
        raise InvalidOptionError(f"a fuzzy word has {len(wanted)} characters; at most {_MOST_CHARACTERS} are compared with tokens")
    # A key that has more characters than the token and the distance is given up at the next one.
    longest = min(longest, len(wanted) + fuzziness + 1)
    out = np.empty(len(bounds) - 1, np.int64)
    count = _near(keys, bounds, wanted, fuzziness, prefix, np.empty((longest + 1, len(wanted) + 1), np.int64), out)
    return out[:count]


@kernel
def _near(
    keys: np.ndarray, bounds: np.ndarray, wanted: np.ndarray, fuzziness: int, prefix: np.ndarray, rows: np.ndarray, out: np.ndarray
) -> int:
    """Row i of `rows` has the distances of the first i characters of a key to all starts of the token."""
    count = 0
    ends = np.zeros(len(rows) + 1, np.int64)  # the bytes of the first i characters
    done = 0  # the rows that are valid for the key before
    for j in range(rows.shape[1]):
        rows[0, j] = j
    for k in range(len(bounds) - 1):
        start, size = bounds[k], bounds[k + 1] - bounds[k]
        shared = 0
        if k:
            before, most = bounds[k - 1], min(size, bounds[k] - bounds[k - 1])
            while shared < most and keys[start + shared] == keys[before + shared]:
                shared += 1
        i = done
        while i and ends[i] > shared:
            i -= 1
        at = ends[i]
        possible = i + 1 < len(rows)  # or the key before was given up at the last row
        while at < size and possible:
            character, width = _character(keys, start + at, start + size)
            at += width
            i += 1
            ends[i] = at
            rows[i, 0] = i
            least = i
            for j in range(1, rows.shape[1]):
                changed = rows[i - 1, j - 1] + (0 if wanted[j - 1] == character else 1)
                rows[i, j] = min(changed, rows[i - 1, j] + 1, rows[i, j - 1] + 1)
                least = min(least, rows[i, j])
            possible = least <= fuzziness
        done = i
        if not possible or rows[i, rows.shape[1] - 1] > fuzziness or size < len(prefix):
            continue
        starts = True
        for b in range(len(prefix)):
            starts &= keys[start + b] == prefix[b]
        if starts:
            out[count] = k
            count += 1
    return count


@kernel
def _character(data: np.ndarray, at: int, stop: int) -> Any:
    """The character at `at` and its bytes; a byte that is no UTF-8 counts as a character of its own."""
    first = np.int64(data[at])
    width = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if width == 1 or at + width > stop:
        return first, 1
    value = first & (0x7F >> width)
    for i in range(1, width):
        value = value << 6 | (np.int64(data[at + i]) & 0x3F)
    return value, width
