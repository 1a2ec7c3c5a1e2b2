"""The first checks of a page: nulls, whose values are arbitrary, and constant values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lance_spark.buffers.blocks import FixedWidth, VariableWidth
from lance_spark.encodings.fastlanes import word_type
from lance_spark.kernels.kernel import kernel
from lance_spark.layouts.levels.shred import Shredded

WORDS = (8, 16, 32, 64)
"""Widths in bits of machine words."""


def with_nulls_filled(page: Shredded) -> Shredded:
    """The page with each null replaced by the value before it, which makes runs.

    Only for values of one machine word; others are unchanged.
    """
    values = page.values
    if page.definition is None or not isinstance(values, FixedWidth) or values.bits not in WORDS:
        return page
    words = values.view(word_type(values.bits)).copy()
    _fill(words, page.definition, page.max_visible)
    return replace(page, values=FixedWidth(values.bits, words.view(np.uint8), values.count))


def valid_slots(page: Shredded) -> np.ndarray | None:
    """Which values are valid: a bool for each, or None if all are."""
    if page.definition is None:
        return None
    all_visible = page.num_visible == page.num_events
    visible: np.ndarray = page.definition if all_visible else page.definition[page.definition <= page.max_visible]
    valid: np.ndarray = visible == 0
    return valid


def constant(page: Shredded) -> FixedWidth | VariableWidth | None:
    """The one value that all valid values equal, as a block of one; None if they differ or are of a nested type."""
    if isinstance(page.values, FixedWidth):
        return _constant_fixed(page.values, valid_slots(page))
    if isinstance(page.values, VariableWidth):
        return _constant_variable(page.values, valid_slots(page))
    return None


def _constant_fixed(values: FixedWidth, valid: np.ndarray | None) -> FixedWidth | None:
    if values.bits == 1:
        return _constant_bits(values, valid)
    rows = values.data[: values.count * values.bits // 8].reshape(values.count, -1)
    first = 0 if valid is None else int(valid.argmax())
    for some in _some_then_all(values.count):
        same = (rows[some] == rows[first]).all(axis=1)
        if not (same if valid is None else same | ~valid[some]).all():
            return None
    return FixedWidth(values.bits, rows[first].copy(), 1)


def _some_then_all(count: int) -> tuple[slice, slice]:
    """False if a few values show that the page is not constant."""
    return slice(None, None, max(1, count // 64)), slice(None)


def _constant_bits(values: FixedWidth, valid: np.ndarray | None) -> FixedWidth | None:
    whole = values.data[: values.count // 8]
    if valid is None and not (whole == whole[:1]).all():
        return None
    bits = np.unpackbits(values.data, count=values.count, bitorder="little")
    bits = bits if valid is None else bits[valid]
    return FixedWidth(1, bits[:1].copy(), 1) if (bits == bits[0]).all() else None


def _constant_variable(values: VariableWidth, valid: np.ndarray | None) -> VariableWidth | None:
    lengths = np.diff(values.offsets)
    first = 0 if valid is None else int(valid.argmax())
    length = int(lengths[first])
    if not (lengths == length if valid is None else (lengths == length) | ~valid).all():
        return None
    if valid is not None and lengths[~valid].any():
        return None  # null slots with bytes are too rare to be checked
    rows = np.empty((1, 0), dtype=np.uint8)
    if length:
        rows = values.data[: values.offsets[-1]].reshape(-1, length)
    for some in _some_then_all(len(rows)):
        if not (rows[some] == rows[0]).all():
            return None
    return VariableWidth(np.array([0, length], dtype=values.offsets.dtype), rows[0].copy())


@kernel
def _fill(words: np.ndarray, definition: np.ndarray, max_visible: int) -> None:
    slot = np.uint64(0)
    last = words[0]
    found = False
    for e in range(np.uint64(len(definition))):
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
