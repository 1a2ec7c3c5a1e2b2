"""Namespaces of tables: the protocol, directory namespaces, and clients of other namespaces.

`lance_spark.namespace(...)` opens one. The package is callable, because the public function has its name.

In: a place or a catalog, with its properties. Out: ids and locations of tables, or of a partitioned namespace the rows of all its tables.
It may import `table/` and what is below, never Spark. Begin with `protocol.py`, what all namespaces do, and `directory.py`.
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
