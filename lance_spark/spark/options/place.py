"""The options that say where a table is, of reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_spark.options.field import option

STORAGE = "storage."
NAMESPACE = "namespace."


@dataclass(frozen=True)
class Place:
    """At a path, or where a namespace says."""

    path: str | None = option(
        None,
        "text",
        "The location of the table: a local path or a URI (s3://, gs://, az://, ...). `load` and `save` set it.",
    )
    table: tuple[str, ...] | None = option(
        None,
        "id",
        "The id of a table of the namespace at `path`, or of `namespace`: its names, separated by dots (see [namespaces](namespaces.md)).",
    )
    namespace: str | None = option(
        None,
        "text",
        "The namespace of `table`: a URI, `dir`, `rest` or a class, as in `lance_spark.namespace` (default: the namespace at `path`).",
    )
    namespace_properties: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
