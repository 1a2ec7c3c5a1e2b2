"""Namespaces of tables: the protocol, directory namespaces, and clients of other namespaces.

`lance_spark.namespace(...)` opens one. The package is callable, because the public function has its name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """This package as a callable, with the arguments of `lance_spark.namespace.connect.namespace`."""

    def __call__(
        self, uri_or_implementation: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None, **properties: Any
    ) -> Any:
        from lance_spark.namespace.connect import namespace

        return namespace(uri_or_implementation, storage_options=storage_options, **properties)


sys.modules[__name__].__class__ = _Package
