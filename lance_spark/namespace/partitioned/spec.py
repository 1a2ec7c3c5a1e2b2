"""Partition specs: the transforms and columns that make the partition values, and their JSON in the namespace's properties.

Implements "Partitioning" of the document and "Partition Spec" of the page that was published later. In the document's form a spec is a
list of fields, each with a name, which is the column of its values, and an expression; in the published form it is an object, and a field
has a transform. A spec never changes; a new one gets the next number and the form of the newest, and existing partitions keep their spec.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidOptionError
from lance_spark.namespace.manifest_rows import PARTITION_FIELD, PARTITION_SPEC
from lance_spark.namespace.partitioned.expressions import SOURCE, CustomExpression, expression_of, transform_of
from lance_spark.namespace.partitioned.json_arrow import type_from_json, type_to_json
from lance_spark.namespace.partitioned.transforms import KINDS, MURMUR3, PARAMETERS, XXHASH64, Transform

SPEC = PARTITION_SPEC
SCHEMA = "schema"
"""Keys of the namespace's properties; the number of the spec follows the first."""
COLUMN = PARTITION_FIELD
FIELD_ID = b"lance:field_id"
"""The key of a column's id in its field metadata, in the namespace's schema and in the tables."""
DEPRECATED = b"lance:deprecated"
"""The key of a column's metadata that says, with the value "true", that the column is not for new partition fields."""
_KEY = re.compile(rf"{SPEC}([1-9][0-9]{{0,8}})")

Form: TypeAlias = Literal["published", "document"]
"""The form of a spec as JSON."""
FieldDefinition: TypeAlias = str | tuple[Any, ...] | Mapping[str, Any]
"""A partition field as defined by users: a column, or a transform, a column and a parameter; or "expression", a column and SQL.

A mapping has the same as `column`, `transform` and `parameter`, and in the document's form may have the field's `name`.
"""
_OWN_COLUMNS = ("object_id", "object_type", "location", "metadata", "base_objects", "read_version", "read_branch", "read_tag")
"""The columns of `__manifest` that hold no partition values."""


@dataclass(frozen=True)
class PartitionField:
    """One field of a spec.

    `column` is the column of `__manifest` with its values, of type `type`. `source_ids` are ids of columns of the namespace's schema.
    `transform` is None for an unknown one. `expression` is the text of the spec, if it has one.
    """

    field_id: str
    column: str
    source_ids: tuple[str, ...]
    transform: Transform | CustomExpression | None
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
    form: Form = "published"

    @property
    def namespace(self) -> str:
        """The name of the namespace that contains all partitions of the spec."""
        return f"v{self.id}"

    def __str__(self) -> str:
        rules = (f"{f.transform or f.expression}({', '.join(f.source_ids)}) as {f.column}" for f in self.fields)
        return f"{self.namespace}: {', '.join(rules) or 'no fields'}"

    def to_json(self) -> str:
        """The value of the property `partition_spec_v<N>`."""
        if self.form == "document":
            return json.dumps([_document_field_to_json(f) for f in self.fields])
        return json.dumps({"id": self.id, "fields": [_field_to_json(f) for f in self.fields]})


def specs_of(properties: Mapping[str, str], where: str) -> dict[int, PartitionSpec]:
    """The specs in the properties of a namespace, by number; none if it is not partitioned. CorruptFileError for other JSON."""
    found = {int(match[1]): text for key, text in properties.items() if (match := _KEY.fullmatch(key))}
    try:
        return {number: _parse(number, json.loads(text)) for number, text in sorted(found.items())}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidOptionError) as e:
        raise CorruptFileError(f"{where}: the partition spec cannot be read: {e}") from e


def _parse(number: int, value: Any) -> PartitionSpec:
    if isinstance(value, list):
        return PartitionSpec(number, tuple(_document_field(f) for f in value), "document")
    if int(value["id"]) != number:
        raise ValueError(f"spec {number} says that it is spec {value['id']}")
    return PartitionSpec(number, tuple(_field(f) for f in value["fields"]))


def _field(value: Any) -> PartitionField:
    rule, expression = value.get("transform"), value.get("expression")
    if (rule is None) == (expression is None):
        raise ValueError(f"field {value['field_id']!r} must have either a transform or an expression")
    sources = tuple(str(int(i)) for i in value["source_ids"])
    transform = _published(transform_of(expression)) if rule is None else _transform(rule)
    return PartitionField(
        str(value["field_id"]), f"{COLUMN}{value['field_id']}", sources, transform, type_from_json(value["result_type"]), expression
    )


def _published(transform: Transform | CustomExpression) -> Transform | CustomExpression | None:
    """The transform of an expression in the published form, which has no function `hash`."""
    return None if isinstance(transform, Transform) and transform.hash == XXHASH64 else transform


def _document_field(value: Any) -> PartitionField:
    """A field of the document's form, which has no function `murmur3`."""
    found = transform_of(value["expression"])
    is_known = not isinstance(found, Transform) or found.kind != "bucket" or found.hash == XXHASH64
    sources = (str(int(value["source_id"])),)
    field_id, name, t = str(int(value["field_id"])), str(value["name"]), type_from_json(value["result_type"])
    return PartitionField(field_id, name, sources, found if is_known else None, t, value["expression"])


def _transform(rule: Any) -> Transform | None:
    kind = rule["type"]
    if kind not in KINDS:
        return None
    name = PARAMETERS.get(kind)
    return Transform(kind, None if name is None else int(rule[name]))


def _field_to_json(field: PartitionField) -> dict[str, Any]:
    out: dict[str, Any] = {"field_id": field.field_id, "source_ids": [int(i) for i in field.source_ids]}
    if field.expression is not None or not isinstance(field.transform, Transform):
        out["expression"] = field.expression
    else:
        name = PARAMETERS.get(field.transform.kind)
        out["transform"] = {"type": field.transform.kind, **({} if name is None else {name: field.transform.parameter})}
    return {**out, "result_type": type_to_json(field.type, field.column)}


def _document_field_to_json(field: PartitionField) -> dict[str, Any]:
    return {
        "field_id": int(field.field_id),
        "name": field.column,
        "source_id": int(field.source_ids[0]),
        "expression": field.expression,
        "result_type": type_to_json(field.type, field.column),
    }


def new_spec(
    number: int,
    definitions: Sequence[FieldDefinition],
    schema: pa.Schema,
    before: Mapping[int, PartitionSpec] | None = None,
    form: Form = "published",
) -> PartitionSpec:
    """The spec that a user defines over the columns of `schema`, which have ids in their metadata.

    A field with the rule of an older one of the same form gets its id, others get new ids.
    Raises InvalidOptionError for unknown and deprecated columns, and for transforms that do not apply to them, or cannot
    be written.
    """
    if form not in get_args(Form):
        raise InvalidOptionError(f"the form of a partition spec must be one of {', '.join(get_args(Form))}, not {form!r}")
    older = [f for spec in (before or {}).values() for f in spec.fields]
    known = {f.rule: f for spec in (before or {}).values() if spec.form == form for f in spec.fields}
    names = _Names({f.field_id for f in older}, {f.column.lower() for f in older} | set(_OWN_COLUMNS))
    fields: list[PartitionField] = []
    for definition in definitions:
        defined = _definition(definition)
        kind, name = defined.transform, defined.column
        transform = _defined(kind, defined.parameter, form)
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
        wanted = source.name if kind == "identity" else f"{source.name}_{kind}"
        if form == "document":
            field_id, expression = names.next_number(), expression_of(transform, source.type)
            column = names.column(wanted) if defined.name is None else names.given(defined.name)
            fields.append(PartitionField(field_id, column, rule[0], transform, t, expression))
        elif defined.name is not None:
            raise InvalidOptionError(f"the partition field {definition!r}: only fields of the form 'document' have a name")
        else:
            field_id = names.field_id(wanted)
            custom = str(transform).replace(SOURCE, f"{SOURCE}0") if isinstance(transform, CustomExpression) else None
            fields.append(PartitionField(field_id, f"{COLUMN}{field_id}", rule[0], transform, t, custom))
    return PartitionSpec(number, tuple(fields), form)


def _defined(kind: str, parameter: Any, form: Form) -> Transform | CustomExpression:
    if kind != "expression":
        return Transform(kind, parameter, XXHASH64 if kind == "bucket" and form == "document" else MURMUR3)
    if not isinstance(parameter, str):
        raise InvalidOptionError(f'a partition expression is SQL text, as in ("expression", "name", "lower(col)"), not {parameter!r}')
    found = transform_of(parameter)
    if isinstance(found, Transform):
        raise InvalidOptionError(f"the partition expression {parameter!r} is the transform {found.kind!r}; name that instead")
    return found


@dataclass(frozen=True)
class _Definition:
    """What a `FieldDefinition` says."""

    column: str
    transform: str = "identity"
    parameter: Any = None
    name: str | None = None


def _definition(definition: FieldDefinition) -> _Definition:
    named = definition if isinstance(definition, Mapping) else _as_mapping(definition)
    known = {"column", "transform", "parameter", "name"}
    texts = [named.get(key, "") for key in ("column", "transform", "name")]
    if "column" not in named or not named.keys() <= known or not all(isinstance(text, str) for text in texts):
        raise InvalidOptionError(f'{definition!r} is no partition field; expected "column" or ("transform", "column"[, parameter])')
    return _Definition(**named)


def _as_mapping(definition: Any) -> Mapping[str, Any]:
    parts = tuple(definition) if isinstance(definition, list | tuple) else (definition,)
    keys = ("column",) if len(parts) == 1 else ("transform", "column", "parameter")
    return dict(zip(keys, parts)) if len(parts) in (1, 2, 3) else {}


@dataclass(frozen=True)
class _Names:
    """The ids of fields and the columns of `__manifest`, in lower case, that are taken."""

    ids: set[str]
    columns: set[str]

    def field_id(self, wanted: str) -> str:
        """An id of the published form whose column conflicts with no column."""
        base = re.sub(r"[^A-Za-z0-9_]", "_", wanted)
        field_id, i = base, 2
        while field_id in self.ids or f"{COLUMN}{field_id}".lower() in self.columns:
            field_id, i = f"{base}_{i}", i + 1
        self.ids.add(field_id)
        self.columns.add(f"{COLUMN}{field_id}".lower())
        return field_id

    def next_number(self) -> str:
        """An id of the document's form: the next number."""
        number = str(max((int(i) for i in self.ids if i.isascii() and i.isdigit()), default=0) + 1)
        self.ids.add(number)
        return number

    def column(self, wanted: str) -> str:
        """A column of the document's form, named after the field."""
        column, i = wanted, 2
        while column.lower() in self.columns:
            column, i = f"{wanted}_{i}", i + 1
        self.columns.add(column.lower())
        return column

    def given(self, name: str) -> str:
        """The column of a field with this name. Raises InvalidOptionError if another field or the namespace has it."""
        if name.lower() in self.columns:
            raise InvalidOptionError(f"the partition field {name!r}: __manifest has a column of this name; choose another one")
        return self.column(name)
