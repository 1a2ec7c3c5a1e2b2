"""The maximum size of a decoded page.

The stored size limits most pages, but a few bytes can represent any number of repetitions. Writers end pages after a few megabytes of
unencoded values, so valid pages are far below the limit.
"""

from __future__ import annotations

from lance_spark.errors import CorruptFileError

MAX_BYTES = 1 << 31
"""Maximum size in bytes of the values of a page, a dictionary or a compressed buffer."""


def check_bytes(size: float, what: str) -> None:
    """Raise CorruptFileError if the values of `what` take more than `MAX_BYTES` bytes."""
    if size > MAX_BYTES:
        raise CorruptFileError(f"{what}: {size:.4g} bytes when decoded, expected at most {MAX_BYTES}")
