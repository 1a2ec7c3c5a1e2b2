"""Decoding errors with their location: the file, the column, the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.reading.steps import Steps

T = TypeVar("T")

_FAULTS = (CorruptFileError, UnsupportedFeatureError, ValueError, IndexError, OverflowError, DecodeError, pa.ArrowException)
"""Decoders check their indices; numpy and Arrow report the rest with these."""


def checked(where: str, work: Callable[[], T]) -> T:
    """Return the result of `work`. Its errors name `where`, and those of numpy, Arrow and protobuf become CorruptFileError."""
    try:
        return work()
    except _FAULTS as e:
        raise _named(where, e) from e


def naming(where: str, steps: Steps[T]) -> Steps[T]:
    """Run `steps`; errors are those of `checked`. Errors of reading the bytes are raised outside of `steps` (see `run`)."""
    try:
        return (yield from steps)
    except _FAULTS as e:
        raise _named(where, e) from e


def _named(where: str, error: Exception) -> CorruptFileError | UnsupportedFeatureError:
    if isinstance(error, UnsupportedFeatureError):
        return UnsupportedFeatureError(f"{where}: {error}")
    return CorruptFileError(f"{where}: {error}" if isinstance(error, CorruptFileError) else f"{where}: {type(error).__name__}: {error}")
