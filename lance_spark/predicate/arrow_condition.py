"""The pickled form of pyarrow's expressions: how one is taken apart, put together again, and evaluated.

pyarrow has no other way to look into an expression. The form is an Arrow IPC file with one row. Its schema's metadata are the
nodes from the top down, each as a pair: ("call", function) with its arguments, ("options", number) and ("end", function);
("field_ref", name); ("nested_field_ref", number of names) before that many names; ("literal", number). The numbers are those
of columns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.predicate.tree import ArrowCondition

_VALUE = "value"
_SIZE = 4
"""The bytes of a number in the metadata of the Arrow C data interface."""


@dataclass(frozen=True)
class ArrowField:
    """A column, by its names from the top down."""

    path: tuple[str, ...]


@dataclass(frozen=True)
class ArrowLiteral:
    """A constant."""

    value: pa.Scalar


@dataclass(frozen=True)
class ArrowCall:
    """A function of pyarrow with its arguments and options."""

    function: str
    arguments: tuple[Node, ...]
    options: Mapping[str, pa.Scalar]
    span: range
    """The pairs of the form that this call consists of."""


Node = ArrowField | ArrowLiteral | ArrowCall


def fields_of(node: Node) -> list[ArrowField]:
    """The fields of a node, from left to right."""
    match node:
        case ArrowField():
            return [node]
        case ArrowCall(_, arguments):
            return [field for argument in arguments for field in fields_of(argument)]
        case _:
            return []


class ArrowExpression:
    """An expression of pyarrow as a tree, of which each part can become an expression again."""

    def __init__(self, expression: pc.Expression) -> None:
        (_, (data,)) = expression.__reduce__()
        reader = pa.ipc.open_file(data)
        self._values = reader.get_batch(0)
        self._pairs = _metadata_pairs(reader.schema)
        self.data = bytes(data)

    @cached_property
    def root(self) -> Node:
        """The tree. Raises UnsupportedFeatureError for a form that is not known."""
        node, end = self._node(0)
        if end != len(self._pairs):
            raise _unknown(self._pairs[end])
        return node

    def part(self, call: ArrowCall) -> bytes:
        """The pickled form of a call of this expression."""
        pairs = [self._pairs[at] for at in call.span]
        batch = self._values.replace_schema_metadata(pa.KeyValueMetadata(pairs))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())

    def _node(self, at: int) -> tuple[Node, int]:
        """The node that begins with a pair, and the place after it."""
        word, text = self._pairs[at]
        if word == "literal":
            return ArrowLiteral(self._values.column(int(text))[0]), at + 1
        if word == "field_ref":
            return ArrowField((text,)), at + 1
        if word == "nested_field_ref":
            end = at + 1 + int(text)
            if any(step != "field_ref" for step, _ in self._pairs[at + 1 : end]):
                raise _unknown(self._pairs[at])
            return ArrowField(tuple(name for _, name in self._pairs[at + 1 : end])), end
        if word == "call":
            return self._call(at)
        raise _unknown(self._pairs[at])

    def _call(self, start: int) -> tuple[ArrowCall, int]:
        arguments: list[Node] = []
        options: Mapping[str, pa.Scalar] = {}
        at = start + 1
        while self._pairs[at][0] != "end":
            word, text = self._pairs[at]
            if word == "options":
                options = dict(self._values.column(int(text))[0].items())
                at += 1
            else:
                node, at = self._node(at)
                arguments.append(node)
        end = at + 1
        return ArrowCall(self._pairs[start][1], tuple(arguments), options, range(start, end)), end


def _unknown(pair: tuple[str, str]) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(f"an expression of pyarrow has a part that is not known: {pair[0]} {pair[1]!r}")


class _CSchema(ctypes.Structure):
    """The first members of ArrowSchema of the Arrow C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata_pairs(schema: pa.Schema) -> list[tuple[str, str]]:
    """The metadata of a schema. pyarrow's own `metadata` keeps one of the pairs that have the same key."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    at = _CSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if not at:
        return []
    count, at = _number(at), at + _SIZE
    texts: list[str] = []
    for _ in range(2 * count):
        size = _number(at)
        texts.append(ctypes.string_at(at + _SIZE, size).decode())
        at += _SIZE + size
    return list(zip(texts[::2], texts[1::2]))


def _number(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


def by_arrow(condition: ArrowCondition, values: Sequence[pa.Array], num_rows: int) -> pa.Array:
    """The condition for each row, whose operands have these `values`, as pyarrow evaluates it: in this thread."""
    expression = pc.Expression._deserialize(pa.py_buffer(condition.data))
    if values:
        table = pa.Table.from_arrays(list(values), list(condition.names))
    else:
        table = pa.table({_VALUE: pa.nulls(num_rows)})
    return projected(table, {_VALUE: expression}).column(0).combine_chunks()


def projected(table: pa.Table, columns: Mapping[str, pc.Expression]) -> Any:
    """The values of expressions for each row of a table."""
    from pyarrow import acero  # rarely needed

    project = acero.ProjectNodeOptions(list(columns.values()), list(columns))
    steps = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
        acero.Declaration("project", project),
    ]
    # Arrow's threads do not survive a fork, and do not keep the order of the rows.
    return acero.Declaration.from_sequence(steps).to_table(use_threads=False)
