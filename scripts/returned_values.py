"""The classes whose values public classes return, for the documentation: found by the types of their methods, wherever they are defined."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from typing import Any


def returned_values(*classes: type) -> list[type]:
    """The classes that public methods and properties of `classes` return, and what those give in turn; without `classes` themselves."""
    found = list(classes)
    for cls in found:
        found += [other for other in dict.fromkeys(_given_by(cls)) if other not in found]
    return found[len(classes) :]


def _given_by(cls: type) -> Iterator[type]:
    """What methods and properties return. A class without methods is a plain value, whose fields count too."""
    own = [base for base in cls.__mro__ if base.__module__.startswith("lance_spark.")]  # Dataset has methods of its bases
    public = {name: member for base in reversed(own) for name, member in vars(base).items() if not name.startswith("_")}
    methods = [function for member in public.values() if inspect.isfunction(function := getattr(member, "__func__", member))]
    properties = [member.fget for member in public.values() if isinstance(member, property)]
    for function in [*methods, *properties]:
        yield from _ours(typing.get_type_hints(function).get("return"))
    for base in getattr(cls, "__orig_bases__", ()):
        yield from _ours(base)  # what a list holds
    if not methods:
        for hint in typing.get_type_hints(cls).values():
            yield from _ours(hint)


def _ours(hint: Any) -> Iterator[type]:
    """The classes of this package in a type."""
    for part in typing.get_args(hint):
        yield from _ours(part)
    if inspect.isclass(hint) and hint.__module__.startswith("lance_spark."):
        yield hint
