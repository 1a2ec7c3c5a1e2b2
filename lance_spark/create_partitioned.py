"""The public functions of partitioned namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import pyarrow as pa

from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
from lance_spark.namespace.partitioned.spec import FieldDefinition, Form


def create_partitioned_namespace(
    uri: str | PathLike[str],
    schema: Any,
    fields: Sequence[FieldDefinition],
    storage_options: Mapping[str, str] | None = None,
    guard: bool = True,
    form: Form = "published",
) -> PartitionedNamespace:
    """Create a partitioned namespace: one logical table whose rows are divided among many tables by partition values.

    `schema` is a schema of pyarrow or of Spark. Each of `fields` is a column (partitioned by its values), or a transform, a column and
    a parameter: ("year", "ts"), also month, day and hour; ("truncate", "name", 3); ("bucket", "id", 16);
    or SQL: ("expression", "name", "lower(col)"). With `guard`, other writers that would drop the partition values from `__manifest` refuse
    to write (a writer feature flag). `form` is that of the specs, see docs/partitioned.md. Raises
    NamespaceAlreadyExistsError, TableAlreadyExistsError, InvalidOptionError and UnsupportedFeatureError.

    Examples:
        >>> import lance_spark, pyarrow as pa
        >>> schema = pa.schema([("id", pa.int64()), ("country", pa.string())])
        >>> events = lance_spark.create_partitioned_namespace("/tmp/visits", schema, ["country"])
        >>> events = events.write(pa.table({"id": [1, 2], "country": ["DE", "US"]}))
        >>> events.scan(filter="country = 'DE'").to_table().num_rows
        1
    """
    if not isinstance(schema, pa.Schema):
        from lance_spark.spark.columns.types import stored  # needs pyspark, which other callers need not have

        schema = stored(schema, {})
    return PartitionedNamespace.create(uri, schema, fields, storage_options=storage_options, guard=guard, form=form)
