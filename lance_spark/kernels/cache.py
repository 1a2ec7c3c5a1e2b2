"""numba's cache of compiled functions on disk, for processes that compile the same function at the same time, as workers of Spark do.

Each function has one index file, which numba rewrites whenever it adds a signature. If two processes add different signatures at the same
time, both take the same file name for the code, and the index may then name the code of the other signature.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import Any

from numba.core.caching import FunctionCache

from lance_spark.errors import logged

_PATIENCE_S = 60.0
"""If another process holds the lock for longer, the kernel is compiled without it."""
_POLL_S = 0.02


class LockedCache:
    """A cache whose functions only one process at a time compiles; the others wait for it, and load the result.

    Raises RuntimeError if numba finds no writable place.
    """

    def __init__(self, function: Any) -> None:
        make: Any = FunctionCache  # numba has no types
        self._cache = make(function)
        self.cache_path: str = self._cache.cache_path
        self._lock_path = os.path.join(self.cache_path, f"{self._cache._impl.filename_base}.lock")
        self._lock: int | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function, or None if it has to be compiled: then the lock is held until it is saved."""
        found = self._load(sig, target_context)
        if found is None and self._lock is None:
            self._lock = _locked(self._lock_path)
            found = self._load(sig, target_context)
            if found is not None:
                self._release_lock()
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        """The compiled function. A file that a crash of the machine or a full disk cut short is logged, and compiled anew."""
        with logged(f"loading a compiled function from {self.cache_path}"):
            return self._cache.load_overload(sig, target_context)
        with logged(f"removing damaged functions from {self.cache_path}"):
            self._cache.flush()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled function. Without a place for it, each process compiles it."""
        try:
            with logged(f"saving a compiled function to {self.cache_path}"):
                self._cache.save_overload(sig, data)
        finally:
            self._release_lock()

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None


def _locked(path: str) -> int | None:
    """The descriptor of the locked file; None if the file system has no locks, or if another process keeps the lock for too long."""
    try:
        lock = os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o666)
    except OSError:
        return None
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            time.sleep(_POLL_S)
        except OSError:
            break
    os.close(lock)
    return None
