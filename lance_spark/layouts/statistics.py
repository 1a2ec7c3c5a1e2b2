"""What the choice of an encoding depends on: is it one value, how often do values change, which are distinct."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lance_spark.encodings.bitpacking import word_type
from lance_spark.encodings.blocks import Block, FixedWidth, VariableWidth
from lance_spark.encodings.kernel import kernel
from lance_spark.encodings.words import copy_ranges, load64
from lance_spark.layouts.shred import Shredded

WORDS = (8, 16, 32, 64)
"""Widths in bits that are one machine word."""


def with_nulls_filled(page: Shredded) -> Shredded:
    """The page with the value before it in the place of each null, which makes runs of what may be anything.

    Only for values that are one machine word; others stay as they are.
    """
    values = page.values
    if page.definition is None or not isinstance(values, FixedWidth) or values.bits not in WORDS:
        return page
    words = values.view(word_type(values.bits)).copy()
    _fill(words, page.definition, page.max_visible)
    return replace(page, values=FixedWidth(values.bits, words.view(np.uint8), values.count))


def valid_slots(page: Shredded) -> np.ndarray | None:
    """Which of the values are valid: a bool for each, or None when all are."""
    if page.definition is None:
        return None
    visible = page.definition if page.num_visible == page.num_events else page.definition[page.definition <= page.max_visible]
    return visible == 0


def constant(page: Shredded) -> FixedWidth | VariableWidth | None:
    """The value, as a block of one, that all valid values of the page are; None if they differ or are of a nested type."""
    if isinstance(page.values, FixedWidth):
        return _constant_fixed(page.values, valid_slots(page))
    if isinstance(page.values, VariableWidth):
        return _constant_variable(page.values, valid_slots(page))
    return None


def _constant_fixed(values: FixedWidth, valid: np.ndarray | None) -> FixedWidth | None:
    if values.bits == 1:
        bits = np.unpackbits(values.data, count=values.count, bitorder="little")
        bits = bits if valid is None else bits[valid]
        return FixedWidth(1, bits[:1].copy(), 1) if (bits == bits[0]).all() else None
    rows = values.data[: values.count * values.bits // 8].reshape(values.count, -1)
    first = 0 if valid is None else int(valid.argmax())
    # Few pages are constant: compare some values before all of them.
    for some in (slice(None, None, max(1, values.count // 64)), slice(None)):
        same = (rows[some] == rows[first]).all(axis=1)
        if not (same if valid is None else same | ~valid[some]).all():
            return None
    return FixedWidth(values.bits, rows[first].copy(), 1)


def _constant_variable(values: VariableWidth, valid: np.ndarray | None) -> VariableWidth | None:
    lengths = np.diff(values.offsets)
    first = 0 if valid is None else int(valid.argmax())
    length = int(lengths[first])
    same = lengths == length
    if not (same if valid is None else same | ~valid).all():
        return None
    if valid is not None and lengths[~valid].any():
        return None  # null slots with bytes in them are too rare to be looked through
    rows = values.data[: values.offsets[-1]].reshape(-1, length) if length else np.empty((1, 0), dtype=np.uint8)
    if not (rows == rows[0]).all():
        return None
    return VariableWidth(np.array([0, length], dtype=values.offsets.dtype), rows[0].copy())


@kernel
def _fill(words: np.ndarray, definition: np.ndarray, max_visible: int) -> None:
    slot = np.uint64(0)
    last = words[0]
    found = False
    for e in range(len(definition)):
        if definition[e] > max_visible:
            continue
        if definition[e] == 0:
            last = words[slot]
            if not found:
                words[:slot] = last
                found = True
        else:
            words[slot] = last
        slot += np.uint64(1)


def deduplicate(values: Block, limit: int) -> tuple[np.ndarray, Block] | None:
    """For each value the number of the distinct value that it is (uint32), and the distinct values in order of appearance.

    None when there are more than `limit` of them, or for a type that has no dictionaries.
    """
    indices = np.empty(values.count, dtype=np.uint32)
    firsts = np.empty(limit, dtype=np.int64)
    table = np.zeros(1 << max(4, (2 * limit).bit_length()), dtype=np.uint32)
    if isinstance(values, FixedWidth) and values.bits in (64, 128):
        words = values.view(np.uint64).reshape(values.count, -1)
        found = _distinct_words(words, indices, firsts, table)
        if found <= limit:
            items = np.ascontiguousarray(words[firsts[:found]]).view(np.uint8).reshape(-1)
            return indices, FixedWidth(values.bits, items, found)
    elif isinstance(values, VariableWidth):
        found = _distinct_strings(values.offsets, values.data, indices, firsts, table)
        if found <= limit:
            return indices, take_variable(values, firsts[:found])
    return None


def take_variable(values: VariableWidth, rows: np.ndarray) -> VariableWidth:
    """The values with these numbers."""
    lengths = values.offsets[rows + 1] - values.offsets[rows]
    offsets = np.zeros(len(rows) + 1, dtype=values.offsets.dtype)
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(int(offsets[-1]), dtype=np.uint8)
    copy_ranges(values.data, values.offsets[rows].astype(np.int64), lengths.astype(np.int64), data)
    return VariableWidth(offsets, data)


# Both look each value up in an open-addressing table that holds the number of a distinct value plus one, and give up, with
# the number of distinct values so far, when there are more than `firsts` has room for.


@kernel
def _distinct_words(words: np.ndarray, indices: np.ndarray, firsts: np.ndarray, table: np.ndarray) -> int:
    mask = np.uint64(len(table) - 1)
    found = 0
    for i in range(words.shape[0]):
        h = np.uint64(0)
        for k in range(words.shape[1]):
            h = (h ^ words[i, k]) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(32)
        at = h & mask
        while True:
            entry = table[at]
            if entry == 0:
                if found == len(firsts):
                    return found + 1
                firsts[found] = i
                found += 1
                table[at] = found
                indices[i] = found - 1
                break
            same = True
            for k in range(words.shape[1]):
                same &= words[firsts[entry - 1], k] == words[i, k]
            if same:
                indices[i] = entry - 1
                break
            at = (at + np.uint64(1)) & mask
    return found


@kernel
def _distinct_strings(offsets: np.ndarray, data: np.ndarray, indices: np.ndarray, firsts: np.ndarray, table: np.ndarray) -> int:
    mask = np.uint64(len(table) - 1)
    found = 0
    for i in range(len(offsets) - 1):
        start = np.uint64(offsets[i])
        size = np.uint64(offsets[i + 1]) - start
        h = size
        at = np.uint64(0)
        while at < size:
            if at + np.uint64(8) <= size:
                word = load64(data, start + at)
                at += np.uint64(8)
            else:
                word = np.uint64(0)
                while at < size:
                    word = word << np.uint64(8) | np.uint64(data[start + at])
                    at += np.uint64(1)
            h = (h ^ word) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(32)
        at = h & mask
        while True:
            entry = table[at]
            if entry == 0:
                if found == len(firsts):
                    return found + 1
                firsts[found] = i
                found += 1
                table[at] = found
                indices[i] = found - 1
                break
            other = np.uint64(offsets[firsts[entry - 1]])
            same = np.uint64(offsets[firsts[entry - 1] + 1]) - other == size
            k = np.uint64(0)
            while same and k < size:
                same = data[start + k] == data[other + k]
                k += np.uint64(1)
            if same:
                indices[i] = entry - 1
                break
            at = (at + np.uint64(1)) & mask
    return found
