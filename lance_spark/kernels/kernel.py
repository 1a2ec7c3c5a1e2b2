"""The decorator for loops that touch every value: numba, cached on disk if numba finds a writable directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import config

_SETTINGS: Any = config  # its attributes are created at import
_CACHE = not _SETTINGS.BOUNDSCHECK or bool(_SETTINGS.CACHE_DIR)
"""The cache does not distinguish code with bounds checks, so such code is cached only in a separate folder (NUMBA_CACHE_DIR)."""

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` to native code on first call, without the GIL.

    Kernels have no bounds checks: every index must be checked before the call, or in the loop, which then returns a status. Set
    NUMBA_BOUNDSCHECK=1 to have numba check every index, NUMBA_DISABLE_JIT=1 to run the plain Python.
    """
    try:
        return cast(F, numba.njit(cache=_CACHE, nogil=True)(function))
    except RuntimeError:  # no writable place for the cache, as in a zip import with a read-only home
        return cast(F, numba.njit(nogil=True)(function))
