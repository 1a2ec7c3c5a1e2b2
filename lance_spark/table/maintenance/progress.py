"""Progress bars of long operations: verify, cleanup, deep clones, backfills. They need tqdm, an optional dependency."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

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
    tqdm = _tqdm(progress)
    if tqdm is None:
        return untracked

    def track(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
        yield from tqdm(items, desc=what, total=total, leave=False, delay=0 if progress else _DELAY)

    return track


@contextlib.contextmanager
def bar(progress: bool | None, what: str, total: int) -> Iterator[Callable[[int, str], None] | None]:
    """A bar for work that others do: call it with what is done so far, and a remark. None without bars, see `tracker`."""
    tqdm = _tqdm(progress)
    if tqdm is None:
        yield None
        return
    with tqdm(desc=what, total=total, leave=False, delay=0 if progress else _DELAY, unit="rows", unit_scale=True) as shown:

        def move(rows_done: int, remark: str) -> None:
            shown.set_postfix_str(remark, refresh=False)
            shown.update(rows_done - shown.n)

        yield move


def _tqdm(progress: bool | None) -> Any:
    """The class of bars; None for none. Raises UnsupportedFeatureError if `progress` is True and tqdm is not installed."""
    if progress is False or (progress is None and not sys.stderr.isatty()):
        return None
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        if progress is None:
            return None
        raise UnsupportedFeatureError("progress=True needs tqdm: pip install 'lance-spark[progress]'") from None
    return tqdm
