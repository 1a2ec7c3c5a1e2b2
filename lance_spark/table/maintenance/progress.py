"""Progress bars of long operations: verify, cleanup, deep clones. They need tqdm, an optional dependency."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from lance_spark.errors import UnsupportedFeatureError

_DELAY = 0.5
"""Seconds before a bar appears that was not requested."""

T = TypeVar("T")


class Track(Protocol):
    """Yields `items`, and may show how many of `total` (None: unknown) are done."""

    def __call__(self, items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]: ...


def untracked(items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """Return `items` without a bar."""
    return items


def tracker(progress: bool | None) -> Track:
    """Return a tracker with bars on stderr (True), without bars (False), or with bars if tqdm is installed and stderr is a terminal (None).

    Raises UnsupportedFeatureError if `progress` is True and tqdm is not installed.
    """
    if progress is False or (progress is None and not sys.stderr.isatty()):
        return untracked
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        if progress is None:
            return untracked
        raise UnsupportedFeatureError("progress=True needs tqdm: pip install 'lance-spark[progress]'") from None

    def track(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
        yield from tqdm(items, desc=what, total=total, leave=False, delay=0 if progress else _DELAY)

    return track
