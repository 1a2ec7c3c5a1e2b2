"""The types of arguments with which Python calls a kernel: one form for all arrays of one element type, rank and order.

numba takes an array that can be written to and one that cannot for two types, so a kernel of three arrays could be asked for in eight
forms, of which it depends on the data which are needed. Their code is the same.
"""

from __future__ import annotations

from typing import Any

from numba.core import types


def entrance_types(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types of the code that serves arguments of the given ones: all arrays can be written to.

    numba does not refuse a result array that is read-only then: a caller of a kernel makes the arrays that the kernel fills.
    """
    return tuple(_writable(type_) for type_ in given)


def _writable(given: Any) -> Any:
    if isinstance(given, types.Array):
        return given.copy(readonly=False)
    if isinstance(given, types.BaseAnonymousTuple):
        made: Any = types.BaseTuple  # numba has no types
        parts: Any = given
        return made.from_types([_writable(part) for part in parts])
    return given
