"""Checksums of whole manifest and deletion files, stored in the file itself; docs/checksums.md has the position.

The checksum is between two parts of the file, where no message or position refers to it. Other readers skip it, and other writers do
not copy it to the next version of the file.
"""

from __future__ import annotations

from lance_spark.buffers.crc32c import MAGIC, available, crc32c, is_magic
from lance_spark.errors import CorruptFileError

CHECKSUM_SIZE = len(MAGIC) + 4
"""Size in bytes of the magic number and the checksum."""


def with_checksum(before: bytes, *after: bytes | memoryview) -> bytes:
    """The file of `before` and the pieces `after` with its checksum between them."""
    if not available():
        return b"".join((before, *after))
    checksum = crc32c(before + MAGIC)
    for piece in after:
        checksum = crc32c(piece, checksum)
    return b"".join((before, MAGIC, checksum.to_bytes(4, "little"), *after))


def verify_checksum(data: bytes, position: int) -> None:
    """Verify the checksum of a file if it has one at `position`. Raises CorruptFileError if it does not match."""
    if position < 0 or not is_magic(data[position : position + len(MAGIC)]) or not available():
        return
    start, stop = position + len(MAGIC), position + CHECKSUM_SIZE
    content = memoryview(data)
    expected = int.from_bytes(data[start:stop], "little")
    found = crc32c(content[stop:], crc32c(content[:start]))
    if found != expected or data[position:start] != MAGIC:
        raise CorruptFileError(f"expected the CRC-32C {expected:#010x}, found {found:#010x}: the file is corrupt; restore it from a copy")
