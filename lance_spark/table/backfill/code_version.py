"""The version of a function that has none of its own: a hash of its code and of the values that this refers to."""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from lance_spark.table.backfill.function import LanceFunction

_DIGITS = 16


def version_of(function: LanceFunction) -> str:
    """The version that the function was given, or else a hash of its code.

    The hash covers the code of the function or class, its defaults, the variables that it captures, and, as far, the functions, classes
    and values of its own module that it names. Code of other modules is not covered, since it changes with every update of a library.
    """
    if function.version is not None:
        return function.version
    digest = hashlib.sha256()
    for part in _of_value(function.function, set()):
        digest.update(part)
    for part in _of_value(function.arguments, set()):
        digest.update(part)
    return f"code {digest.hexdigest()[:_DIGITS]}"


def _of_value(value: Any, seen: set[int]) -> Iterator[bytes]:
    """What a value is, as bytes that are the same in each process."""
    if isinstance(value, FunctionType | type | list | dict):
        if id(value) in seen:
            return
        seen.add(id(value))
    if isinstance(value, ModuleType):
        yield value.__name__.encode()
    elif isinstance(value, FunctionType):
        yield from _of_function(value, seen)
    elif isinstance(value, type):
        yield value.__qualname__.encode()
        for name, part in sorted(vars(value).items()):
            if isinstance(part, FunctionType | staticmethod | classmethod | property) or not name.startswith("__"):
                yield name.encode()
                yield from _of_value(inspect.unwrap(part) if callable(part) else getattr(part, "fget", part), seen)
    elif isinstance(value, functools.partial):
        yield from _of_value([value.func, value.args, value.keywords], seen)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _of_value(item, seen)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield repr(key).encode()
            yield from _of_value(item, seen)
    elif hasattr(value, "__dict__") and isinstance(vars(type(value)).get("__call__"), FunctionType):
        yield from _of_value(type(value), seen)
        yield from _of_value(vars(value), seen)
    else:
        yield _pickled(value)


def _of_function(function: FunctionType, seen: set[int]) -> Iterator[bytes]:
    yield from _of_code(function.__code__)
    yield from _of_value(function.__defaults__, seen)
    yield from _of_value(function.__kwdefaults__, seen)
    for cell in function.__closure__ or ():
        yield from _of_value(cell.cell_contents, seen)
    for name in sorted(set(_names(function.__code__))):
        found = function.__globals__.get(name)
        own = getattr(found, "__module__", function.__module__) == function.__module__
        if found is not None and (own or isinstance(found, ModuleType)):
            yield name.encode()
            yield from _of_value(found, seen)


def _of_code(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _of_code(constant)
        else:
            # The order of a set differs between processes.
            yield repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant).encode()


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _pickled(value: object) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception:  # noqa: BLE001 (objects raise anything when they are pickled)
        return type(value).__qualname__.encode()
