"""Names of arguments: other ones for the same argument, and what is said of those that do not exist."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from inspect import CO_VARKEYWORDS, unwrap
from types import CodeType, FunctionType
from typing import Any, TypeVar

from lance_spark.display.words import nearest

Class = TypeVar("Class", bound=type)
Method = TypeVar("Method", bound=Callable[..., Any])
_OTHER_NAMES = "_other_names"


def other_names(**names: str) -> Callable[[Method], Method]:
    """Let a method of a class with `known_arguments` be called with other names: `@other_names(condition="predicate")`."""

    def named(method: Method) -> Method:
        setattr(method, _OTHER_NAMES, names)
        return method

    return named


def known_arguments(cls: Class) -> Class:
    """A class whose public methods and constructor say what a mistyped argument may be, and take those with `other_names`."""
    for name, member in list(vars(cls).items()):
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if (name.startswith("_") and name != "__init__") or not isinstance(function, FunctionType):
            continue
        if _code(function).co_flags & CO_VARKEYWORDS and not hasattr(function, _OTHER_NAMES):
            continue  # what it calls knows the arguments
        checked = _checked(function)
        setattr(cls, name, type(member)(checked) if isinstance(member, classmethod | staticmethod) else checked)
    return cls


def _code(function: FunctionType) -> CodeType:
    """What the function runs in the end, which has the names of the arguments, if others are around it."""
    code: CodeType = unwrap(function).__code__
    return code


def _checked(function: FunctionType) -> Callable[..., Any]:
    code = _code(function)
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    others: Mapping[str, str] = getattr(function, _OTHER_NAMES, {})
    takes_all = bool(code.co_flags & CO_VARKEYWORDS)
    own = frozenset(known)

    @functools.wraps(function)
    def checked(*args: Any, **named: Any) -> Any:
        if named and not named.keys() <= own:
            named = {_name(function, name, named, others): value for name, value in named.items()}
            if not takes_all and (unknown := [name for name in named if name not in own]):
                said = nearest(unknown[0], (*known, *others))
                raise TypeError(f"{function.__qualname__}() has no argument {unknown[0]!r}{said or _all_of(known)}")
        return function(*args, **named)

    return checked


def _name(function: FunctionType, name: str, named: Mapping[str, Any], others: Mapping[str, str]) -> str:
    """The own name of an argument."""
    if name not in others:
        return name
    if others[name] in named:
        raise TypeError(f"{function.__qualname__}() has one argument with the names {name!r} and {others[name]!r}; give one of them")
    return others[name]


def _all_of(known: tuple[str, ...]) -> str:
    names = [name for name in known if name not in ("self", "cls")]
    return f"; it has {', '.join(names)}" if names else "; it has none"
