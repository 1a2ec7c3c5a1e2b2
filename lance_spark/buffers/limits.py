"""How much a page may come to when it is decoded.

What is stored limits most of that; but a few bytes can stand for any number of repetitions. Writers cut pages at some megabytes of
values before encoding, so no honest page comes near.
"""

from __future__ import annotations

from lance_spark.errors import CorruptFileError

MAX_BYTES = 1 << 31
"""Most bytes that the values of a page, of a dictionary or of a compressed buffer may take."""


def check_bytes(size: float, what: str) -> None:
    """Refuse `what` if its values take more than `MAX_BYTES` bytes."""
    if size > MAX_BYTES:
        raise CorruptFileError(f"{what} of {size:.4g} bytes, more than the {MAX_BYTES} that are read at once")
