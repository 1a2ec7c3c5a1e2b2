"""Partition specs: the transforms and columns that make the partition values, and their JSON in the namespace's properties.

Implements "Partition Spec" of the partitioning specification as merged. Its draft, in which a spec is a list of named fields, can be read,
too. A spec never changes; a new one gets the next number, and existing partitions keep their spec.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidOptionError
from lance_spark.namespace.partitioned.json_arrow import type_from_json, type_to_json
from lance_spark.namespace.partitioned.transforms import KINDS, PARAMETERS, Transform, known_transform

SPEC = "partition_spec_v"
SCHEMA = "schema"
"""Keys of the namespace's properties; the number of the spec follows the first."""
COLUMN = "partition_field_"
FIELD_ID = b"lance:field_id"
"""The key of a column's id in its field metadata, in the namespace's schema and in the tables."""
DEPRECATED = b"lance:deprecated"
"""The key of a column's metadata that says, with the value "true", that the column is not for new partition fields."""
_KEY = re.compile(rf"{SPEC}([1-9][0-9]{{0,8}})")

FieldDefinition: TypeAlias = str | tuple[Any, ...]
"""A partition field as defined by users: a column, or a transform, a column and a parameter."""


@dataclass(frozen=True)
class PartitionField:
    """One field of a spec.

    `column` is the column of `__manifest` with its values, of type `type`. `source_ids` are ids of columns of the namespace's schema.
    `transform` is None for an unknown expression, which is kept as `expression`.
    """

    field_id: str
    column: str
    source_ids: tuple[str, ...]
    transform: Transform | None
    type: pa.DataType
    expression: str | None = None

    @property
    def source_id(self) -> str | None:
        """The id of the only source column; None if there are several."""
        return self.source_ids[0] if len(self.source_ids) == 1 else None

    @property
    def rule(self) -> tuple[tuple[str, ...], str]:
        """The rule that determines the values. Fields with the same rule have the same id."""
        return self.source_ids, str(self.transform or self.expression)


@dataclass(frozen=True)
class PartitionSpec:
    """The fields of one version of the spec, from the top level of the tree down."""

    id: int
    fields: tuple[PartitionField, ...]

    @property
    def namespace(self) -> str:
        """The name of the namespace that contains all partitions of the spec."""
        return f"v{self.id}"

    def __str__(self) -> str:
        rules = (f"{f.transform or f.expression}({', '.join(f.source_ids)}) as {f.column}" for f in self.fields)
        return f"{self.namespace}: {', '.join(rules) or 'no fields'}"

    def to_json(self) -> str:
        """The value of the property `partition_spec_v<N>`."""
        return json.dumps({"id": self.id, "fields": [_field_to_json(f) for f in self.fields]})


def specs_of(properties: Mapping[str, str], where: str) -> dict[int, PartitionSpec]:
    """The specs in the properties of a namespace, by number; none if it is not partitioned. CorruptFileError for other JSON."""
    found = {int(match[1]): text for key, text in properties.items() if (match := _KEY.fullmatch(key))}
    try:
        return {number: _parse(number, json.loads(text)) for number, text in sorted(found.items())}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidOptionError) as e:
        raise CorruptFileError(f"{where}: the partition spec cannot be read: {e}") from e


def _parse(number: int, value: Any) -> PartitionSpec:
    if isinstance(value, list):  # the draft
        return PartitionSpec(number, tuple(_draft_field(f) for f in value))
    if int(value["id"]) != number:
        raise ValueError(f"spec {number} says that it is spec {value['id']}")
    return PartitionSpec(number, tuple(_field(f) for f in value["fields"]))


def _field(value: Any) -> PartitionField:
    rule, expression = value.get("transform"), value.get("expression")
    if (rule is None) == (expression is None):
        raise ValueError(f"field {value['field_id']!r} must have either a transform or an expression")
    sources = tuple(str(int(i)) for i in value["source_ids"])
    transform = _transform_of(expression) if rule is None else _transform(rule)
    return PartitionField(
        str(value["field_id"]), f"{COLUMN}{value['field_id']}", sources, transform, type_from_json(value["result_type"]), expression
    )


def _draft_field(value: Any) -> PartitionField:
    """A field of the draft. Its bucket transform has another hash, so it is an unknown transform."""
    known = _transform_of(value["expression"])
    transform = None if known is not None and known.kind == "bucket" else known
    sources = (str(int(value["source_id"])),)
    return PartitionField(
        str(int(value["field_id"])), str(value["name"]), sources, transform, type_from_json(value["result_type"]), value["expression"]
    )


def _transform(rule: Any) -> Transform | None:
    kind = rule["type"]
    if kind not in KINDS:
        return None
    name = PARAMETERS.get(kind)
    return Transform(kind, None if name is None else int(rule[name]))


def _transform_of(expression: str) -> Transform | None:
    known = known_transform(expression)
    return None if known is None else Transform(*known)


def _field_to_json(f: PartitionField) -> dict[str, Any]:
    out: dict[str, Any] = {"field_id": f.field_id, "source_ids": [int(i) for i in f.source_ids]}
    if f.expression is not None or f.transform is None:
        out["expression"] = f.expression
    else:
        name = PARAMETERS.get(f.transform.kind)
        out["transform"] = {"type": f.transform.kind, **({} if name is None else {name: f.transform.parameter})}
    return {**out, "result_type": type_to_json(f.type, f.column)}


def new_spec(
    number: int, definitions: Sequence[FieldDefinition], schema: pa.Schema, before: Mapping[int, PartitionSpec] | None = None
) -> PartitionSpec:
    """The spec that a user defines over the columns of `schema`, which have ids in their metadata.

    A field with the rule of an older one gets its id, others get new ids. So do fields of the draft: their columns are not named
    after their ids. Raises InvalidOptionError for unknown and deprecated columns, and for transforms that do not apply to them, or cannot
    be written.
    """
    older = [f for spec in (before or {}).values() for f in spec.fields]
    known = {f.rule: f for f in older if f.column == f"{COLUMN}{f.field_id}"}
    used = {f.field_id for f in older}
    columns = {f.column.lower() for f in older}
    fields: list[PartitionField] = []
    for definition in definitions:
        kind, name, parameter = _definition(definition)
        transform = Transform(kind, parameter)
        at = [i for i, n in enumerate(schema.names) if n.lower() == name.lower()]
        if len(at) != 1:
            raise InvalidOptionError(f"the partition field {definition!r}: no column {name!r}; there are: {', '.join(schema.names)}")
        source = schema.field(at[0])
        if source.metadata.get(DEPRECATED) == b"true":
            raise InvalidOptionError(f"the partition field {definition!r}: the column {source.name!r} is deprecated; choose another")
        t = transform.result_type(source.type)
        rule = ((source.metadata[FIELD_ID].decode(),), str(transform))
        if any(f.rule == rule for f in fields):
            raise InvalidOptionError(f"the partition field {definition!r} is duplicated")
        if rule in known:
            fields.append(known[rule])
            continue
        field_id = _fresh(source.name if kind == "identity" else f"{source.name}_{kind}", used, columns)
        fields.append(PartitionField(field_id, f"{COLUMN}{field_id}", rule[0], transform, t))
    return PartitionSpec(number, tuple(fields))


def _definition(definition: FieldDefinition) -> tuple[str, str, int | None]:
    parts: tuple[Any, ...] = tuple(definition) if isinstance(definition, list | tuple) else (definition,)
    if len(parts) == 1 and isinstance(parts[0], str):
        return "identity", parts[0], None
    if len(parts) in (2, 3) and isinstance(parts[0], str) and isinstance(parts[1], str):
        return parts[0], parts[1], parts[2] if len(parts) == 3 else None
    raise InvalidOptionError(f'{definition!r} is no partition field; expected "column" or ("transform", "column"[, parameter])')


def _fresh(wanted: str, used: set[str], columns: set[str]) -> str:
    """Choose an unused id whose column conflicts with no column of `__manifest` (case-insensitive), and mark it as used."""
    base = re.sub(r"[^A-Za-z0-9_]", "_", wanted)
    field_id, i = base, 2
    while field_id in used or f"{COLUMN}{field_id}".lower() in columns:
        field_id, i = f"{base}_{i}", i + 1
    used.add(field_id)
    columns.add(f"{COLUMN}{field_id}".lower())
    return field_id
