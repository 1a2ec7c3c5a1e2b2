"""Partition pruning: the partitions that can have rows for a condition, from their partition values alone.

The result may contain too many partitions, but never too few; readers of the partitions still evaluate the condition. A condition on the
sources of identity fields is evaluated with three-valued logic over the values. The other transforms use comparisons with constants and
properties of the transform (equal values have equal partition values; years and truncated values ascend with their sources).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.types import is_text
from lance_spark.errors import InvalidOptionError
from lance_spark.namespace.partitioned.comparisons import Bounds, Equal, NotNull, Prefix, Test, bounds_of, test_of
from lance_spark.namespace.partitioned.ranges import between
from lance_spark.namespace.partitioned.spec import FIELD_ID, PartitionField, PartitionSpec
from lance_spark.namespace.partitioned.transforms import TIME_PARTS, Transform
from lance_spark.predicate import Predicate, evaluate
from lance_spark.predicate.bind import kind
from lance_spark.predicate.tree import And, Column, Expression, Literal, Or, walk


def may_match(predicate: Predicate, spec: PartitionSpec, schema: pa.Schema, rows: pa.Table) -> np.ndarray:
    """For each of `rows`, with the partition columns of `spec`: whether its partition can have a row that satisfies the predicate.

    `schema` is that of the namespace, with the ids of the columns in their metadata.
    """
    return _Pruning(spec, schema, rows).mask(predicate.root)


class _Pruning:
    """The partitions of one spec; each method returns a mask over them."""

    def __init__(self, spec: PartitionSpec, schema: pa.Schema, rows: pa.Table) -> None:
        self._count = rows.num_rows
        self._fields: list[tuple[str, pa.DataType, PartitionField]] = []
        self._values: dict[str, pa.Array] = {}
        names = {(f.metadata or {}).get(FIELD_ID, b"").decode(): f for f in schema}
        for field in spec.fields:
            source = names.get(field.source_id or "")
            prunes = isinstance(field.transform, Transform)
            if source is not None and prunes and field.column in rows.schema.names:
                self._fields.append((source.name, source.type, field))
                self._values[field.column] = rows[field.column].combine_chunks()
        identities = {}
        for name, t, rule in self._fields:
            if rule.transform and rule.transform.kind == "identity" and kind(t) != "float":
                identities[name] = self._values[rule.column]
        self._identities = pa.record_batch(identities) if identities else None

    def mask(self, node: Expression) -> np.ndarray:
        """For each partition: whether `node` can be true for a row."""
        operands = node.operands if isinstance(node, And) else (node,)
        mask = self._within(bounds_of(operands))
        for operand in operands:
            if isinstance(operand, And):
                mask &= self.mask(operand)
            elif isinstance(operand, Or):
                mask &= np.logical_or.reduce([self.mask(o) for o in operand.operands])
            elif isinstance(operand, Literal):
                mask &= bool(operand.value)
            else:
                mask &= self._by_values(operand)
                test = test_of(operand)
                if test is not None:
                    mask &= self._by_test(test)
        return mask

    def _all(self) -> np.ndarray:
        return np.ones(self._count, bool)

    def _by_values(self, node: Expression) -> np.ndarray:
        """Evaluates a condition on sources of identity fields."""
        columns = [n.path for n in walk(node) if isinstance(n, Column)]
        known = self._identities.schema.names if self._identities is not None else []
        if not columns or any(len(path) > 1 or path[0] not in known for path in columns):
            return self._all()
        try:
            return _true(evaluate(Predicate(node, ""), self._identities))
        except (InvalidOptionError, pa.ArrowNotImplementedError):
            return self._all()  # evaluation may fail for values that only reading shows

    def _by_test(self, test: Test) -> np.ndarray:
        mask = self._all()
        for name, source, field in self._fields:
            if name == test.column and field.transform and field.transform.kind != "identity":
                mask &= self._of_field(test, source, field)
        return mask

    def _of_field(self, test: Test, source: pa.DataType, field: PartitionField) -> np.ndarray:
        values, transform = self._values[field.column], field.transform
        assert transform is not None
        if isinstance(test, NotNull):
            return _true(values.is_valid())
        if isinstance(test, Prefix):
            if transform.kind != "truncate" or not is_text(values.type):
                return _true(values.is_valid())
            start = test.prefix[: transform.parameter]
            if len(start) == transform.parameter:
                return _true(pc.equal(values, pa.scalar(start, values.type)))
            return _true(pc.starts_with(values, start))
        return self._equal(test, source, field)

    def _equal(self, test: Equal, source: pa.DataType, field: PartitionField) -> np.ndarray:
        """Prune by equality: equal values have equal partition values, and only null has the value null."""
        values, transform = self._values[field.column], field.transform
        assert transform is not None
        nulls = _true(values.is_null()) if test.null else np.zeros(self._count, bool)
        try:
            transform.result_type(source)
            wanted = transform.apply(constants(test.values, source)).cast(values.type)
        except (InvalidOptionError, pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):
            return self._all()
        found: np.ndarray = _true(pc.is_in(values, value_set=wanted)) & _true(values.is_valid())
        found |= nulls
        return found

    def _within(self, bounds: Sequence[Bounds]) -> np.ndarray:
        mask = self._all()
        for bound in bounds:
            for name, source, field in self._fields:
                if name == bound.column and isinstance(field.transform, Transform) and field.transform.kind in (*TIME_PARTS, "truncate"):
                    mask &= _true(between(self._values[field.column], field.transform, source, bound))
        return mask


def constants(values: Sequence[object], source: pa.DataType) -> pa.Array:
    """The constants of a comparison, converted for the transform of a column of type `source`; timestamps are in microseconds."""
    if pa.types.is_timestamp(source):
        zoned = pa.array(values, pa.timestamp("us", "UTC" if source.tz else None))
        return zoned.cast(pa.timestamp("us", source.tz))
    return pa.array(values, pa.date32() if pa.types.is_date(source) else source)


def _true(found: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), bool)
