"""The order of the suffixes of a text."""

from __future__ import annotations

import numpy as np

_KEY_BYTES = 8


def suffix_array(text: np.ndarray) -> np.ndarray:
    """The places of the suffixes of a text (uint8), in their order. Its last byte is 0, and the only one.

    They are sorted by 8 bytes; those that are equal then by the ranks of what follows, which tell twice as many bytes in each round.
    """
    count = len(text)
    padded = np.zeros(count + _KEY_BYTES, np.uint8)
    padded[:count] = text
    keys = np.zeros(count, np.uint64)
    for i in range(_KEY_BYTES):
        keys = keys << np.uint64(8) | padded[i : i + count]
    order = np.argsort(keys)
    ordered = keys[order]
    # A suffix has the rank of the first one that is equal so far.
    is_first = np.append(True, ordered[1:] != ordered[:-1])
    ranks = np.empty(count, np.int64)
    ranks[order] = np.maximum.accumulate(np.where(is_first, np.arange(count), 0))
    known = _KEY_BYTES
    while not is_first.all():
        alone = is_first & np.append(is_first[1:], True)
        which = np.flatnonzero(~alone)
        places = order[which]
        own, next_ = ranks[places], ranks[np.minimum(places + known, count - 1)]
        resorted = np.lexsort((next_, own))
        order[which] = places = places[resorted]
        own, next_ = own[resorted], next_[resorted]
        begins = np.append(True, (own[1:] != own[:-1]) | (next_[1:] != next_[:-1]))
        is_first[which] = begins
        ranks[places] = np.maximum.accumulate(np.where(begins, which, 0))
        known *= 2
    return order
