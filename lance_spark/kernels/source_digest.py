"""What determines the code of a kernel: its instructions, the values that they name, and the kernels that it calls.

It is taken from Python's bytecode, which numba compiles, too, so it works in archives without sources, and changes with Python's version.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

_NUMBERS = (int, float, complex, str, bytes, np.generic, type(None), type(Ellipsis))
"""The constants whose text tells all about them."""


class Role(enum.Enum):
    """Who calls a kernel, which determines what is kept of its code."""

    ENTRANCE = "called from Python"
    CALLED = "called from other kernels"


class Source:
    """A function that numba compiles, with LLVM's names for what its sums of floats permit."""

    def __init__(self, function: Callable[..., Any], relaxed: frozenset[str]) -> None:
        self.function, self.relaxed = function, relaxed
        self.name = f"{function.__module__}.{function.__qualname__}"

    @functools.cached_property
    def digest(self) -> str:
        """The same text for the same kernel, in every process of one version of Python."""
        digest = hashlib.sha256()
        for source in sorted(self._with_called(), key=lambda source: source.name):
            digest.update(repr((source.name, source._own)).encode())
        return digest.hexdigest()

    def _with_called(self) -> Iterable[Source]:
        found = {self.name: self}
        waiting = [self]
        while waiting:
            for called in waiting.pop()._called:
                if called.name not in found:
                    found[called.name] = called
                    waiting.append(called)
        return found.values()

    @functools.cached_property
    def _named(self) -> dict[str, Any]:
        """The values of the module that the function names."""
        places = self.function.__globals__
        names = sorted(set(_names(self.function.__code__)))
        return {name: places[name] for name in names if name in places}

    @functools.cached_property
    def _called(self) -> list[Source]:
        sources = (getattr(value, "source", None) for value in self._named.values())
        return [source for source in sources if isinstance(source, Source)]

    @functools.cached_property
    def _own(self) -> str:
        cells = [cell.cell_contents for cell in self.function.__closure__ or ()]
        named = [(name, _described(value)) for name, value in self._named.items()]
        code = _described(self.function.__code__)
        return repr((code, _described(self.function.__defaults__), named, _described(tuple(cells)), sorted(self.relaxed)))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _described(value: Any) -> str:
    """A text that is the same for equal values in every process. Raises TypeError for other kinds than kernels name."""
    match value:
        case _ if isinstance(getattr(value, "source", None), Source):
            return f"kernel {value.source.name}"
        case types.CodeType():
            variables = (value.co_varnames, value.co_freevars, value.co_cellvars)
            counts = (value.co_argcount, value.co_kwonlyargcount, value.co_flags)
            instructions = (value.co_code, value.co_exceptiontable, value.co_names)
            return repr((instructions, variables, counts, _described(value.co_consts)))
        case types.ModuleType():
            return f"module {value.__name__}"
        case type() | types.FunctionType() | types.BuiltinFunctionType():
            return f"{value.__module__}.{value.__qualname__}"
        case np.ndarray():
            return repr((value.dtype.str, value.shape, value.tobytes()))
        case tuple():
            return repr([_described(part) for part in value])
        case frozenset():
            return repr(sorted(_described(part) for part in value))
        case _ if isinstance(value, _NUMBERS):
            return f"{type(value).__name__} {value!r}"
    raise TypeError(f"a kernel cannot name a {type(value).__name__}: {value!r}")
