"""Many tables in namespaces: the protocol, directories of tables, and clients of other namespaces.

`lance_spark.namespace(...)` opens one: the package can be called, since it has the name of the public function.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """This package, which is called like the function `lance_spark.namespace.connect.namespace`."""

    def __call__(
        self, uri_or_implementation: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None, **properties: Any
    ) -> Any:
        from lance_spark.namespace.connect import namespace

        return namespace(uri_or_implementation, storage_options=storage_options, **properties)


sys.modules[__name__].__class__ = _Package
