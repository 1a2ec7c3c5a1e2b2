"""Many tables in namespaces: the protocol, directories of tables, and clients of other namespaces.

`lance_spark.namespace(...)` opens one: the package can be called, since it has the name of the public function.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """This package, which is called like the function `lance_spark.namespace.connect.namespace`."""

    def __call__(self, *args: Any, **properties: Any) -> Any:
        from lance_spark.namespace.connect import namespace

        return namespace(*args, **properties)


sys.modules[__name__].__class__ = _Package
