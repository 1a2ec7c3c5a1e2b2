"""Requests to an implementation from `lance_namespace.connect`, if that package is installed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lance_spark.errors import InvalidOptionError, NamespaceError, UnsupportedFeatureError
from lance_spark.namespace.error_codes import from_code
from lance_spark.namespace.protocol import shown


@dataclass(frozen=True)
class Library:
    """An implementation, by its name or class for `lance_namespace.connect`, and its properties, which may contain credentials."""

    implementation: str
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def call(self, operation: str, id: tuple[str, ...], request: Mapping[str, object]) -> Mapping[str, Any]:
        """Call one method of the implementation. Raises the error for its error code."""
        client = connected(os.getpid(), self)
        import lance_namespace

        model = getattr(lance_namespace, "".join(word.title() for word in operation.split("_")) + "Request")
        try:
            answer = getattr(client, operation)(model(id=list(id), **request))
        except Exception as e:  # an implementation of anybody raises anything
            code = getattr(e, "code", None)
            known = int(code) if isinstance(code, int) else NamespaceError.code
            raise from_code(known, f"{operation} of {shown(id)} by {self.implementation}: {e}") from e
        return answer.model_dump() if answer is not None else {}


@lru_cache(maxsize=32)
def connected(pid: int, library: Library) -> Any:
    """The implementation's client, one for each process."""
    try:
        import lance_namespace
    except ImportError:
        raise UnsupportedFeatureError(
            f"the namespace {library.implementation!r} needs the package lance-namespace: pip install lance-namespace"
        ) from None
    try:
        return lance_namespace.connect(library.implementation, dict(library.properties))
    except Exception as e:  # a constructor of anybody raises anything
        raise InvalidOptionError(f"the namespace {library.implementation!r} cannot be opened: {e}") from e
