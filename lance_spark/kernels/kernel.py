"""The decorator for loops that touch every value: numba, whose code is kept on disk (see `store`).

numba is imported by the first call of a kernel, since importing it takes longer than many tasks.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from lance_spark.kernels.source_digest import Role, Source

F = TypeVar("F", bound=Callable[..., Any])
_ANY_ORDER = frozenset({"reassoc", "contract"})
"""LLVM's names of what a sum in any order permits. NaN and infinity remain what they are."""


def kernel(function: F) -> F:
    """Compile `function` to native code on first call, without the GIL.

    Kernels have no bounds checks: every index must be checked before the call, or in the loop, which then returns a status. Set
    NUMBA_BOUNDSCHECK=1 to have numba check every index, NUMBA_DISABLE_JIT=1 to run the plain Python.
    """
    return cast(F, Kernel(function, frozenset()))


def summing(function: F) -> F:
    """As `kernel`, for sums of floats in any order: the processor adds several numbers at once. Last digits may differ between machines."""
    return cast(F, Kernel(function, _ANY_ORDER))


class Kernel:
    """A function that is compiled on its first call. Two threads may both prepare it, which numba allows.

    It has two forms. Python calls the one whose arrays are all of the same kind (see `entrance`) and of which only machine code is kept.
    Other kernels call the one that is compiled into them.
    """

    def __init__(self, function: Callable[..., Any], relaxed: frozenset[str]) -> None:
        functools.update_wrapper(self, function)
        self.source = Source(function, relaxed)

    def __call__(self, *arguments: Any) -> Any:
        return self._compiled(*arguments)

    @functools.cached_property
    def _compiled(self) -> Callable[..., Any]:
        """The kernel that Python calls."""
        return self._dispatcher(Role.ENTRANCE)

    @functools.cached_property
    def _called(self) -> Callable[..., Any]:
        """The kernel that other kernels call."""
        return self._dispatcher(Role.CALLED)

    @property
    def _numba_type_(self) -> Any:
        """The type of a kernel that another kernel names."""
        return cast(Any, self._called)._numba_type_

    def _dispatcher(self, role: Role) -> Callable[..., Any]:
        with _no_collection():
            import numba
            from numba.core import config

        settings: Any = config  # its attributes are created at import
        source = self.source
        compiled: Any = numba.njit(nogil=True, fastmath=set(source.relaxed))(source.function)
        if settings.DISABLE_JIT:
            return cast(Callable[..., Any], compiled)
        from lance_spark.kernels.entrance import entrance_types
        from lance_spark.kernels.store import KernelStore

        compiled._cache = store = KernelStore(source, role)
        compile_numbas = compiled.compile
        known: set[tuple[Any, ...]] = set()
        adding = threading.Lock()

        def compile_kept(signature: Any) -> Any:
            with _no_collection(), store.compiling():
                return compile_numbas(signature)

        def compile_entrance(given: tuple[Any, ...]) -> Any:
            types = entrance_types(given)
            code = compile_kept(types)
            with adding:
                if types != given and given not in known:
                    # The types that the dispatcher has found in the arguments lead to the same code from now on.
                    compiled._insert([type_._code for type_ in given], code, False)
                    known.add(given)
            return code

        # Extensions of numba, for which all installed packages are searched, are loaded when something is compiled.
        compiled._compilation_chain_init_hook = lambda: None
        compiled.compile = compile_entrance if role is Role.ENTRANCE else compile_kept
        return cast(Callable[..., Any], compiled)


def prepare() -> None:
    """Load what all kernels have in common, which takes longer than a kernel itself: processes that are forked from this one have it."""
    with _no_collection():
        from numba.core import registry
        from numba.core.runtime.nrt import rtsys

        from lance_spark.kernels import entrance, store  # noqa: F401

        runtime: Any = rtsys  # numba has no types
        runtime.initialize(registry.cpu_target.target_context)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collections, which take up to a fifth of the time of loading kernels, and find nothing: numba keeps what it makes."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
