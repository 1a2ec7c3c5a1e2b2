"""The maximum size of a decoded page.

The stored size limits most pages, but a few bytes can stand for any number of repetitions. Writers cut pages at some megabytes of values
before encoding, so valid pages are far below the limit.
"""

from __future__ import annotations

from lance_spark.errors import CorruptFileError

MAX_BYTES = 1 << 31
"""Most bytes that the values of a page, of a dictionary or of a compressed buffer may take."""


def check_bytes(size: float, what: str) -> None:
    """Raise CorruptFileError if the values of `what` take more than `MAX_BYTES` bytes."""
    if size > MAX_BYTES:
        raise CorruptFileError(f"{what}: {size:.4g} bytes when decoded, more than the maximum of {MAX_BYTES} per page")
