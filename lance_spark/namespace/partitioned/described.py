"""A partitioned namespace in words: the names of its partitions, and its specs."""

from __future__ import annotations

from lance_spark.namespace.manifest_rows import as_text
from lance_spark.namespace.partitioned.leaves import Leaf, leaves_of
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.namespace.partitioned.spec import COLUMN, FIELD_ID, PartitionSpec

_SPECIAL = (*map(chr, range(1, 32)), *"\"#%'*/:=?\\{[]^\x7f")
_ESCAPED = str.maketrans({character: f"%{ord(character):02X}" for character in _SPECIAL})
"""The characters that Spark escapes in names of partitions."""


def partition_names(version: PartitionedVersion) -> list[str]:
    """The partition values of the tables as Spark writes them, `country=DE/ts_year=2024`, each
    once and in order."""
    return sorted({_name(leaf) for leaf in leaves_of(version, version.leaves)})


def _name(leaf: Leaf) -> str:
    return "/".join(f"{_escaped(f.column.removeprefix(COLUMN))}={_value(leaf, f.column)}" for f in leaf.spec.fields)


def _value(leaf: Leaf, column: str) -> str:
    values = leaf.values[column]
    value = values[0].as_py()
    return "null" if value is None else _escaped(as_text(value, values.type))


def _escaped(text: str) -> str:
    return text.translate(_ESCAPED)


def described(version: PartitionedVersion) -> dict[str, str]:
    """The specs of a namespace as properties: `partition_spec_v1` is `country, year of ts`."""
    return {f"partition_spec_{spec.namespace}": _spec(version, spec) for spec in version.specs.values()}


def _spec(version: PartitionedVersion, spec: PartitionSpec) -> str:
    names = {(f.metadata or {}).get(FIELD_ID, b"").decode(): f.name for f in version.schema}
    rules = []
    for f in spec.fields:
        columns = ", ".join(names.get(i, f"dropped column {i}") for i in f.source_ids)
        rule = str(f.transform or f.expression)
        rules.append(columns if rule == "identity" else f"{rule} of {columns}")
    return ", ".join(rules) or "no fields"
