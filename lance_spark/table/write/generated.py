"""GENERATED columns: those computed from others of their row, and identities, whose numbers no other row has.

They are declared in the metadata of their fields, which other writers keep. This package obeys them
wherever it writes rows; other writers do not know them, and write what they are given, or null.

A computed column is computed where a row lacks it or has null, and checked where a row gives it. An
update computes it anew. Instants are taken in UTC, so that the value does not depend on the writer.

A writer takes the numbers of an identity before it writes their rows: it claims a range of them
(see `table.versions.identity_claims`). A range that is not written is a gap.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import CommitConflictError, InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.predicate import Formula, parse_formula
from lance_spark.predicate.tree import Column, walk
from lance_spark.schema.declared_types import COMPUTED, IDENTITY, is_generated
from lance_spark.schema.schema import Field, Schema
from lance_spark.storage.store import Store
from lance_spark.table.commit.retry import attempts, back_off
from lance_spark.table.versions.identity_claims import begin_claims, claimed_end, put_claim
from lance_spark.table.write.conform import conform

_MORE = 8
"""A writer that needs more numbers claims so many times as many, since it will need more again."""
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Computed:
    """A column with the value of an expression."""

    column: Field
    formula: Formula
    fields: tuple[Field, ...]
    """The columns that the expression reads."""

    @cached_property
    def read(self) -> frozenset[str]:
        """The names of the columns that the expression reads."""
        return frozenset(f.name for f in self.fields)

    def values(self, rows: pa.RecordBatch) -> pa.Array:
        """The values for rows, which have the columns that the expression reads."""
        from lance_spark.predicate import calculate  # few tables have such columns

        found = pa.RecordBatch.from_arrays([calculate(self.formula, rows)], names=[self.column.name])
        return conform(found, Schema((replace(self.column, nullable=True),))).column(0)

    def differs(self, rows: pa.RecordBatch, given: pa.Array, known: pa.Array) -> SchemaMismatchError:
        """The error of rows whose given values are not those of the expression."""
        wrong = pc.index(pc.fill_null(pc.not_equal(given, known), pc.is_valid(given)), True).as_py()
        shown = {name: rows.column(name)[wrong].as_py() for name in rows.schema.names if name in self.read}
        what = f"column {self.column.name!r} is GENERATED ALWAYS AS ({self.formula.text})"
        values = f"{given[wrong].as_py()!r} is given, expected {known[wrong].as_py()!r} for {shown}"
        return SchemaMismatchError(f"{what}: {values}; leave the column out")


@dataclass(frozen=True)
class Identity:
    """A column with numbers of its own: `start`, and the next one is greater by `step`.

    `always`: no row may give a number. `store` is the table's folder. `has_rows`: there must be
    claims, because rows have been written.
    """

    column: Field
    start: int
    step: int
    always: bool
    store: Store
    has_rows: bool

    def values(self, count: int, claimed: range) -> pa.Array:
        """The numbers of the places in a claimed range."""
        last = self.start + self.step * (claimed.start + count)
        if abs(last) > _LARGEST:
            raise SchemaMismatchError(f"column {self.column.name!r}: there is no number left for {count} rows")
        places = np.arange(claimed.start, claimed.start + count, dtype=np.int64)
        return pa.array(self.start + self.step * places).cast(self.column.type)

    def claim(self, count: int) -> range:
        """Claim so many places, which no other writer gets."""
        for attempt in attempts():
            begin = self.end()
            with contextlib.suppress(FileExistsError):
                put_claim(self.store, self.column.id, begin, begin + count)
                return range(begin, begin + count)
            back_off(attempt, 0.01)
        what = f"other writers claimed numbers of column {self.column.name!r} first in all tries"
        raise CommitConflictError(f"{self.store.uri}: {what}; run the write again", retryable=True)

    def end(self) -> int:
        """The end of the last range that is claimed."""
        end = claimed_end(self.store, self.column.id)
        if end is None and self.has_rows:
            what = f"{self.store.uri} has rows, but not the claimed numbers of column {self.column.name!r} in the folder _identity"
            advice = f"a clone by another writer lacks them: ALTER TABLE t ALTER COLUMN {self.column.name} SYNC IDENTITY"
            raise UnsupportedFeatureError(f"{what}; {advice}")
        return end or 0

    def begin(self) -> None:
        """Note that the column is declared, and has no numbers yet."""
        begin_claims(self.store, self.column.id)

    def place_after(self, number: int) -> int:
        """The first place whose number comes after this one."""
        return max((number - self.start) // self.step + 1, 0)


@dataclass(frozen=True)
class Generated:
    """The generated columns of a table."""

    computed: tuple[Computed, ...] = ()
    identities: tuple[Identity, ...] = ()
    rest: dict[str, range] = field(default_factory=dict, compare=False)
    """What is left of the ranges that this process has claimed, by column."""

    def __bool__(self) -> bool:
        return bool(self.computed or self.identities)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "rest": {}}

    def filled(self, rows: pa.RecordBatch, takes_numbers: bool) -> pa.RecordBatch:
        """The rows with all columns; `takes_numbers` if they are new ones.

        Raises SchemaMismatchError for given values that are not those of the table.
        """
        for identity in self.identities if takes_numbers else ():
            rows = self._numbered(rows, identity)
        for computed in self.computed:
            rows = _computed(rows, computed)
        return rows

    def _numbered(self, rows: pa.RecordBatch, identity: Identity) -> pa.RecordBatch:
        name = identity.column.name
        at = rows.schema.get_field_index(name)
        missing = rows.column(at).is_null()
        count = pc.sum(missing, min_count=0).as_py()
        if identity.always and count < rows.num_rows:
            what = f"column {name!r} is GENERATED ALWAYS AS IDENTITY"
            raise SchemaMismatchError(f"{what}: no row may give its number; leave the column out")
        if not count:
            return rows
        is_first = name not in self.rest
        claimed = self.rest.pop(name, range(0))  # no other thread takes it
        if len(claimed) < count:
            claimed = identity.claim(count if is_first else count * _MORE)
        self.rest[name] = claimed[count:]
        numbers = identity.values(count, claimed)
        values = pc.replace_with_mask(rows.column(at), missing, numbers)
        return rows.set_column(at, rows.schema.field(at), values)

    def check_assigned(self, names: Iterable[str]) -> None:
        """Raise UnsupportedFeatureError for an update that assigns an identity."""
        folded = {name.lower() for name in names}
        for identity in self.identities:
            if identity.always and identity.column.name.lower() in folded:
                what = f"column {identity.column.name!r} is GENERATED ALWAYS AS IDENTITY"
                raise UnsupportedFeatureError(f"{what}: no update may assign it; name the other columns in SET")

    def check_values(self, names: Sequence[str]) -> None:
        """Raise UnsupportedFeatureError for new values of columns that others are computed from, in rows that stay in place."""
        for computed in self.computed:
            if computed.read & set(names) and computed.column.name not in names:
                what = f"column {computed.column.name!r} is computed from {min(computed.read & set(names))!r}"
                raise UnsupportedFeatureError(f"{what}, which is changed in place; write UPDATE t SET .., which computes it anew")
        self.check_assigned(names)

    def reads(self, names: Iterable[str]) -> set[str]:
        """The columns that the expressions of these columns read."""
        chosen = set(names)
        return {name for computed in self.computed if computed.column.name in chosen for name in computed.read}


NOTHING_GENERATED = Generated()
"""The rules of a table without such columns."""


def _computed(rows: pa.RecordBatch, computed: Computed) -> pa.RecordBatch:
    at = rows.schema.get_field_index(computed.column.name)
    if at < 0:
        return rows
    known, given = computed.values(rows), rows.column(at)
    same = pc.fill_null(pc.equal(given, known), False)
    if not pc.all(pc.or_(same, given.is_null()), min_count=0).as_py():
        raise computed.differs(rows, given, known)
    return rows.set_column(at, rows.schema.field(at), known)


def generated_of(schema: Schema, store: Store, has_rows: bool) -> Generated:
    """The generated columns of a table in this folder. Raises InvalidOptionError for a declaration that is wrong."""
    computed, identities = [], []
    for column in filter(is_generated, schema.fields):
        if (text := column.metadata.get(COMPUTED)) is not None:
            computed.append(_computed_of(schema, column, text.decode(errors="replace")))
        if (text := column.metadata.get(IDENTITY)) is not None:
            identities.append(_identity_of(column, text, store, has_rows))
    return Generated(tuple(computed), tuple(identities))


def check_not_generated(schema: Schema, where: str) -> None:
    """Raise UnsupportedFeatureError if there is a generated column, which a partitioned namespace cannot have."""
    if found := [column.name for column in schema.fields if is_generated(column)]:
        what = f"a partitioned namespace has no GENERATED columns, such as {found[0]!r}"
        raise UnsupportedFeatureError(f"{where}: {what}; make one table and cluster it, or write the values of the column")


def _computed_of(schema: Schema, column: Field, text: str) -> Computed:
    formula = parse_formula(text, schema, "UTC", column.name)
    names = {node.path[0] for node in walk(formula.root) if isinstance(node, Column)}
    fields = tuple(f for f in schema.fields if f.name in names)
    if wrong := [f.name for f in fields if is_generated(f)]:
        what = f"column {column.name!r} is computed from {wrong[0]!r}, which is generated itself"
        raise InvalidOptionError(f"{what}; compute it from other columns")
    return Computed(column, formula, fields)


def _identity_of(column: Field, text: bytes, store: Store, has_rows: bool) -> Identity:
    what = f"column {column.name!r} has the identity {text.decode(errors='replace')!r}"
    try:
        given: Mapping[str, object] = json.loads(text)
        start, step, always = given["start"], given["step"], given["always"]
    except (ValueError, TypeError, KeyError) as e:
        raise InvalidOptionError(f"{what}, expected JSON with start, step and always") from e
    is_number = isinstance(start, int) and isinstance(step, int) and isinstance(always, bool)
    if not is_number or not step or max(abs(int(str(start))), abs(int(str(step)))) > _LARGEST:
        raise InvalidOptionError(f"{what}, expected whole numbers of 64 bits, and a step other than 0")
    if not pa.types.is_int64(column.type):
        raise InvalidOptionError(f"{what}, expected the type BIGINT, found {column.type}")
    return Identity(column, int(str(start)), int(str(step)), bool(always), store, has_rows)
