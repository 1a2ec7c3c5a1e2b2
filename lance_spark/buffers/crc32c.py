"""CRC-32C (Castagnoli) of bytes, by a library that uses the processor's own instruction for it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TypeAlias

import numpy as np

MAGIC = b"LCRC-32C"
"""Stands before the checksum of a file's end, or of a whole small file."""

_LOG = logging.getLogger(__name__)

Data: TypeAlias = bytes | memoryview | np.ndarray


@cache
def _library() -> ModuleType | None:
    """google_crc32c, imported at the first use; None where it is missing or not compiled, which is logged once."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import google_crc32c
    except ImportError:
        _LOG.warning("google-crc32c is not installed: files are written without checksums, and read without checking them")
        return None
    library: ModuleType = google_crc32c
    if library.implementation != "c":
        _LOG.warning("google-crc32c is not compiled here: files are written without checksums, and read without checking them")
        return None
    return library


def available() -> bool:
    """Whether checksums can be calculated fast enough to be of use."""
    return _library() is not None


def is_magic(data: bytes) -> bool:
    """Whether a checksum follows `data`. Half of the magic number is enough to say so, so that damage to the rest of it is found."""
    return sum(a == b for a, b in zip(data, MAGIC)) >= len(MAGIC) // 2


def crc32c(data: Data, before: int = 0) -> int:
    """The CRC-32C of the bytes of which `before` is the checksum, followed by `data`."""
    library = _library()
    assert library is not None, "callers ask `available` first"
    return int(library.extend(before, _readable(data)))


def crc32c_of_blocks(pieces: Sequence[Data], block: int) -> list[int]:
    """The CRC-32C of each `block` bytes of each piece and of what is left of it after them."""
    library = _library()
    assert library is not None, "callers ask `available` first"
    value = library.value
    sums: list[int] = []
    for piece in map(_readable, pieces):
        if len(piece) <= block:
            sums.append(value(piece))
        else:
            sums += [value(piece[start : start + block]) for start in range(0, len(piece), block)]
    return sums


def _readable(data: Data) -> bytes | np.ndarray:
    """`data` as the library takes it, which it does not for a memoryview."""
    return np.frombuffer(data, np.uint8) if isinstance(data, memoryview) else data
