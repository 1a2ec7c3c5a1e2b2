"""CRC-32C (Castagnoli) of bytes, by a library that uses the processor's instruction."""

from __future__ import annotations

import logging
import operator
import warnings
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TypeAlias

import numpy as np

MAGIC = b"LCRC-32C"
"""The magic number before the checksum of a file's end or of a whole small file."""

_LOG = logging.getLogger(__name__)

Data: TypeAlias = bytes | memoryview | np.ndarray


@cache
def _library() -> ModuleType | None:
    """google_crc32c, imported at the first use; None if it is missing or not compiled, which is logged once."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import google_crc32c
    except ImportError:
        _LOG.warning("google-crc32c is not installed: files are written without checksums and read without verification")
        return None
    library: ModuleType = google_crc32c
    if library.implementation != "c":
        _LOG.warning("google-crc32c is not compiled here: files are written without checksums and read without verification")
        return None
    return library


def available() -> bool:
    """True if a fast implementation of the checksum is available."""
    return _library() is not None


def is_magic(data: bytes) -> bool:
    """True if a checksum follows `data`. Half of the magic number is sufficient, so that damage to the other half is found."""
    return list(map(operator.eq, data, MAGIC)).count(True) >= len(MAGIC) // 2


def crc32c(data: Data, before: int = 0) -> int:
    """The CRC-32C of bytes with the checksum `before`, followed by `data`."""
    library = _library()
    assert library is not None, "callers ask `available` first"
    return int(library.extend(before, _readable(data)))


def crc32c_of_blocks(pieces: Sequence[Data], block: int) -> list[int]:
    """The CRC-32C of each block of `block` bytes of each piece; the last block of a piece may be shorter."""
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
    """`data` as a type that the library accepts; it rejects a memoryview."""
    return np.frombuffer(data, np.uint8) if isinstance(data, memoryview) else data
