"""What stays in memory between reads, bounded by its bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Cache:
    """Values by key, at most `most` bytes of them: those that were not used for the longest time are dropped. Safe in threads.

    Its pickle is empty.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Cache, (self._most,)

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """The value of `key`, made if it is not there; `size` tells its bytes."""
        known: T | None = self.known(key)
        if known is not None:
            return known
        value = make()
        self.keep(key, value, size(value))
        return value

    def known(self, key: Hashable) -> Any:
        """The value of `key`, None if it is not there."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def keep(self, key: Hashable, value: object, size: int) -> None:
        """Keep a value of `size` bytes, instead of another one of the `key`, unless it is too large."""
        with self._lock:
            self._bytes -= self._values.pop(key, (None, 0))[1]
            if size <= self._most // 2:
                self._values[key] = value, size
                self._bytes += size
                while self._bytes > self._most:
                    self._bytes -= self._values.popitem(last=False)[1][1]
