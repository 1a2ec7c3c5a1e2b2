"""Decoding errors with their location: the file, the column, the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.reading.steps import Steps

T = TypeVar("T")


def checked(where: str, work: Callable[[], T]) -> T:
    """Return the result of `work`. Its errors name `where`, and those of numpy, Arrow and protobuf become CorruptFileError."""
    try:
        return work()
    except CorruptFileError as e:
        raise CorruptFileError(f"{where}: {e}") from e
    except UnsupportedFeatureError as e:
        raise UnsupportedFeatureError(f"{where}: {e}") from e
    except (ValueError, IndexError, OverflowError, DecodeError, pa.ArrowException) as e:
        # Decoders check their indices; numpy and Arrow report the rest with these.
        raise CorruptFileError(f"{where}: {type(e).__name__}: {e}") from e


def naming(where: str, steps: Steps[T]) -> Steps[T]:
    """Run `steps`; errors are those of `checked`."""
    answer: Sequence[Bytes] | None = None
    while True:
        try:
            wanted = checked(where, lambda answer=answer: steps.send(answer))  # type: ignore[misc]
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        answer = yield wanted
