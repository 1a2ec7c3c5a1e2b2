"""Views of a directory namespace: each is an entry of the metadata of the table `__manifest`.

The specification of namespaces has no views. pylance changes no namespace in which a row is neither a
table nor a namespace, but it keeps the metadata of `__manifest`, of which other readers see nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from lance_spark.namespace.manifest_rows import object_id
from lance_spark.namespace.manifest_table import ManifestTable
from lance_spark.namespace.protocol import DELIMITER

_PREFIX = "lance_spark.view."
"""How the keys of views begin, which the id follows as in the column `object_id`."""


def is_view(key: str) -> bool:
    """Whether a key of the metadata belongs to a view."""
    return key.startswith(_PREFIX)


def key_of(names: Sequence[str]) -> str:
    """The key of the view with this id."""
    return _PREFIX + object_id(names)


def views_below(table: ManifestTable, names: Sequence[str]) -> list[str]:
    """The ids of all views in a namespace, at any depth, without that of the namespace."""
    prefix = _PREFIX + "".join(name + DELIMITER for name in names)
    return [key.removeprefix(prefix) for key in table.metadata if key.startswith(prefix)]


def views_in(table: ManifestTable, names: Sequence[str]) -> list[str]:
    """The names of the views directly in a namespace, sorted."""
    return sorted(name for name in views_below(table, names) if DELIMITER not in name)
