"""The rules of written rows, in order: whatever door a row comes through, it passes these.

1. match: columns go by name; the rows may lack some.
2. default: a column that an inserted row lacks has its DEFAULT, or is null. A given null stays null.
3. generate: a GENERATED column that a row lacks, or in which it has null, is computed or numbered, and one that is given is checked.
4. cast: values get the types of the columns.
5. length: CHAR pads, and longer values than CHAR and VARCHAR permit are refused.
6. not null: a null in a column that is not nullable, such as one of a primary key, is refused.
7. check: a row that fails a CHECK constraint is refused.
8. within: a row that does not satisfy the condition of replaceWhere is refused.

Rows are sorted after that (see `order`). The driver makes the rules once for a write, and they travel in the target of the write.
"""

from __future__ import annotations

import datetime
import enum
import getpass
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import SchemaMismatchError
from lance_spark.predicate.tree import Predicate
from lance_spark.schema.schema import Schema
from lance_spark.table.write.conform import as_columns, check_nulls, conform, of_declared_lengths
from lance_spark.table.write.constraints import NO_CONSTRAINTS, Constraints, constraints, names_read
from lance_spark.table.write.defaults import Default, Moment, default_of
from lance_spark.table.write.generated import NOTHING_GENERATED, Generated
from lance_spark.table.write.nested_values import check_has_fields

NO_VALUES: Mapping[str, pa.Array] = MappingProxyType({})


class Kind(enum.Enum):
    """What rows are to the table, which decides the rules that they pass."""

    INSERTED = "new rows: all rules"
    UPDATED = "rows of the table with new values, and all columns: all but defaults"
    VALUES = "new values of some columns of rows that stay in place: as updated rows; constraints may read other columns, too"
    STORED = "rows of the table as they are: only match and cast"


def _now() -> Moment:
    user = os.environ.get("SPARK_USER") or getpass.getuser()
    return Moment(datetime.datetime.now(datetime.UTC), user)


@dataclass(frozen=True)
class Rules:
    """The rules of a table. Its columns say which of them are nullable, and how long values may be.

    `defaults` are evaluated at `moment`, so that functions such as current_timestamp() have one value in all rows of a write.
    """

    defaults: tuple[Default, ...] = ()
    constraints: Constraints = NO_CONSTRAINTS
    within: Predicate | None = None
    moment: Moment = field(default_factory=_now)
    generated: Generated = NOTHING_GENERATED

    def apply(self, rows: pa.RecordBatch, columns: Schema, kind: Kind, beside: Mapping[str, pa.Array] = NO_VALUES) -> pa.RecordBatch:
        """The rows as `columns`, which are those of the files, or `rows` itself if no rule has work.

        For `Kind.VALUES`, `beside` has the other columns that `reads` names. Raises SchemaMismatchError for rows that break a rule.
        """
        if kind is Kind.VALUES:
            check_has_fields(rows, columns)
        rows = as_columns(rows, columns, self._values(rows, columns) if kind is Kind.INSERTED else {})
        if kind is Kind.STORED:
            return rows
        if self.generated:
            rows = self._generated(rows, columns, kind, beside)
        rows = of_declared_lengths(rows, columns)
        check_nulls(rows, columns)
        if kind is not Kind.VALUES:
            self.constraints.check(rows)
        elif self.constraints.conditions:
            self.constraints.reading(columns.names).check(_together(rows, beside))
        if self.within is not None and kind is Kind.INSERTED:
            _check_within(self.within, rows)
        return rows

    def reads(self, columns: Iterable[str]) -> set[str]:
        """The columns that the constraints of these columns read; none if no constraint does."""
        return {f.name for f in self.constraints.reading(columns).fields} | self.generated.reads(columns)

    def _generated(self, rows: pa.RecordBatch, columns: Schema, kind: Kind, beside: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """The rows with their generated columns, which may read columns that the files lack."""
        if kind is Kind.VALUES:
            self.generated.check_values(columns.names)
        wider = _with_nulls(_together(rows, beside), self.generated)
        return self.generated.filled(wider, kind is Kind.INSERTED).select(columns.names)

    def in_zone(self, zone: str) -> Rules:
        """The same rules in the time zone of a session."""
        return replace(self, moment=replace(self.moment, zone=zone))

    @property
    def needs_zone(self) -> bool:
        """True if a default depends on the time zone of the session."""
        return any(default.needs_zone for default in self.defaults)

    def _values(self, rows: pa.RecordBatch, columns: Schema) -> Mapping[str, pa.Array]:
        """The defaults of the columns that the rows lack."""
        if not self.defaults or rows.schema.names == columns.names:
            return {}
        given = {name.lower() for name in rows.schema.names}
        wanted = {name for name in columns.names if name.lower() not in given}
        return {default.field.name: self._value(default) for default in self.defaults if default.field.name in wanted}

    def _value(self, default: Default) -> pa.Array:
        name = default.field.name
        if name not in self._known:
            given = pa.RecordBatch.from_arrays([default.value(self.moment)], names=[name])
            self._known[name] = conform(given, Schema((default.field,))).column(0)
        return self._known[name]

    @cached_property
    def _known(self) -> dict[str, pa.Array]:
        """Values of defaults in the storage types of their columns."""
        return {}

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_known"}


NO_RULES = Rules(moment=Moment(datetime.datetime.fromtimestamp(0, datetime.UTC), ""))
"""The rules of tables that are this package's own: rows are only matched, cast, and checked for nulls."""


def rules_of(schema: Schema, config: Mapping[str, str]) -> Rules:
    """The rules of a table with these columns and this config."""
    defaults = tuple(default for f in schema.fields if (default := default_of(f)) is not None)
    return Rules(defaults, constraints(config, schema))


def _with_nulls(rows: pa.RecordBatch, generated: Generated) -> pa.RecordBatch:
    """The rows, with nulls in the columns that expressions read and that the rows lack."""
    for computed in generated.computed:
        for column in computed.fields:
            if column.name not in rows.schema.names:
                rows = rows.append_column(pa.field(column.name, column.type), pa.nulls(rows.num_rows, column.type))
    return rows


def _together(rows: pa.RecordBatch, beside: Mapping[str, pa.Array]) -> pa.RecordBatch:
    for name, array in beside.items():
        rows = rows.append_column(name, array)
    return rows


def _check_within(predicate: Predicate, rows: pa.RecordBatch) -> None:
    """Raise SchemaMismatchError unless the predicate is true for all rows, which have the table's columns."""
    from lance_spark.predicate import evaluate  # few writes have a condition

    selected = pc.fill_null(evaluate(predicate, rows), False)
    if not pc.all(selected, min_count=0).as_py():
        read = names_read(predicate)
        wrong = rows.filter(pc.invert(selected)).slice(0, 1)
        [row] = wrong.select([name for name in rows.schema.names if name in read]).to_pylist()
        raise SchemaMismatchError(f"a row does not satisfy the condition of replaceWhere, {predicate.text!r}: {row}")
