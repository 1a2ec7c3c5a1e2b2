"""The meaning of a merge to our own formulas, if they can evaluate its condition and all of its clauses; else Spark joins.

Formulas are over pairs: structs with a row of the table and a row of the source (see `rows`). Names in SQL text find
their side as in Spark: by the alias of the table, by an alias in the source, or because only one side has the column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from lance_spark.errors import LanceError, SchemaMismatchError
from lance_spark.predicate import Formula, Predicate, parse, parse_formula
from lance_spark.predicate.tree import Column
from lance_spark.schema.schema import Field, Schema, from_arrow, quoted
from lance_spark.spark.columns.types import stored
from lance_spark.table.changes.columns_in_place import nullable
from lance_spark.table.changes.delta import DELETED, INSERTED, UPDATED
from lance_spark.table.changes.merge.pairing import SOURCE, TARGET, columns_of, equal_values
from lance_spark.table.changes.merge.rows import MergeClause, column
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.conform import check_fits
from lance_spark.table.write.defaults import is_required
from lance_spark.verbs.assignment import without_alias
from lance_spark.verbs.condition import Condition, has_own_meaning, is_independent, is_plain, may_divide, may_divide_by_zero
from lance_spark.verbs.merge.clauses import Clause, Merge

_FIRST_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^.`]+))(?:\.(.+))?", re.DOTALL)
_QUALIFIER = re.compile(r"(?<![\w.`])(?:`((?:[^`]|``)+)`|\b([^\W\d]\w*))\s*\.")


@dataclass(frozen=True)
class OwnMerge:
    """A merge in our own formulas. `source` are the columns of the source that they use."""

    on: Predicate
    clauses: tuple[MergeClause, ...]
    updated: tuple[str, ...]

    @property
    def source(self) -> tuple[str, ...]:
        return columns_of([self.on, *(formula for clause in self.clauses for formula in clause.formulas)], SOURCE)


def own_merge(merge: Merge, snapshot: Snapshot) -> OwnMerge | None:
    """The merge in our own formulas; None if Spark must evaluate it, or refuse it."""
    spark, alias, columns = merge.target.spark, merge.target.alias, merge.source.columns
    texts = [merge.on]
    for clause in merge.clauses:
        values = (clause.values or {}).values()
        texts += [text for text in (clause.condition, *values) if text is not None]
    duplicated = len({name.lower() for name in columns}) < len(columns)
    if merge.evolves or duplicated or alias is None or not has_own_meaning(spark, snapshot, alias):
        return None
    if not all(isinstance(text, str) for text in texts):
        return None
    try:
        return _Translation(merge, snapshot, _pairs(merge, snapshot, [str(text) for text in texts])).merge()
    except LanceError:
        # Spark supports more than filters do, and its errors are more precise.
        return None


@dataclass(frozen=True)
class _PairSchema(Schema):
    """Two structs, in which names are found as Spark finds them in a join."""

    alias: str = ""
    qualifiers: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)

    def resolve(self, path: str) -> tuple[Field, ...]:
        """The struct of the side that has the column, and the fields down to it."""
        split = _FIRST_NAME.fullmatch(path)
        if split is None:
            raise SchemaMismatchError(f"no column {path!r}")
        first, rest = (split[1] or split[2]).replace("``", "`").lower(), split[3]
        target, source = (Schema(f.children) for f in self.fields)
        if rest and first == self.alias:
            return (self.fields[0], *target.resolve(rest))
        if rest and first in self.qualifiers:
            found = source.resolve(rest)
            if found[0].name.lower() not in self.qualifiers[first]:
                raise SchemaMismatchError(f"no column {path!r} in {first}")
            return (self.fields[1], *found)
        sides = []
        for side, schema in zip(self.fields, (target, source)):
            if first in {f.name.lower() for f in schema.fields}:
                sides.append((side, schema))
        if len(sides) != 1:
            raise SchemaMismatchError(f"column {path!r} is on {len(sides)} sides of the merge")
        return (sides[0][0], *sides[0][1].resolve(path))


def _only_spark_reads(field: Field) -> bool:
    return field.is_blob or bool(field.extension) or field.logical_type == "json"


def _pairs(merge: Merge, snapshot: Snapshot, texts: Sequence[str]) -> _PairSchema:
    source = stored(merge.source.schema, {})
    # Names that only Spark can give a meaning are left out, so that no text with them is translated.
    compared = [f for f, shown in zip(source, merge.source.schema.fields) if "collate" not in shown.dataType.simpleString()]
    own = [f for f in snapshot.manifest.schema.fields if not any(map(_only_spark_reads, f.walk()))]
    structs = from_arrow(pa.schema([(TARGET, pa.struct([])), (SOURCE, pa.struct(compared))])).fields
    fields = (replace(structs[0], children=tuple(own)), structs[1])
    alias = (merge.target.alias or "").lower()
    found = (names for text in texts for names in _QUALIFIER.findall(text))
    words = {(name.replace("``", "`") or plain).lower() for name, plain in found} - {alias}
    columns = (*snapshot.manifest.schema.fields, *structs[1].children)
    if taken := words & {f.name.lower() for f in columns if f.children}:
        raise SchemaMismatchError(f"{min(taken)!r} may be a struct or an alias of the source")
    qualifiers = dict(_qualifiers(merge.source, words))
    return _PairSchema(fields, {}, alias, qualifiers)


def _qualifiers(source: DataFrame, words: Iterable[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Which of the words are aliases in the source, with the columns that each has."""
    for word in words:
        try:
            names = source.select(f"{quoted([word])}.*").columns
        except AnalysisException:
            continue
        yield word, frozenset(name.lower() for name in names)


@dataclass(frozen=True)
class _Translation:
    """Translates a merge. Raises a LanceError for whatever our formulas cannot evaluate."""

    definition: Merge
    snapshot: Snapshot
    pairs: _PairSchema

    def merge(self) -> OwnMerge:
        on = self._condition(self.definition.on)
        if on is None or not equal_values(on):
            raise SchemaMismatchError("no columns of both sides are equal where the condition is true")
        clauses = self.definition.clauses
        values = [self._values(clause) for clause in clauses]
        updated = {name for clause, given in zip(clauses, values) if clause.operation == UPDATED for name in given}
        names = tuple(f.name for f in self._schema.fields if f.name in updated)
        made = []
        for clause, given in zip(clauses, values):
            if clause.operation == UPDATED:
                # A column that only other clauses assign keeps its value.
                given = {name: given.get(name) or column(TARGET, name) for name in names}
            made.append(MergeClause(clause.when, clause.operation, self._condition(clause.condition), given))
            self._check_sides(made[-1])
        return OwnMerge(on, tuple(made), names)

    @property
    def _schema(self) -> Schema:
        return self.snapshot.manifest.schema

    @property
    def _zone(self) -> str | None:
        return self.definition.target.spark.conf.get("spark.sql.session.timeZone", None)

    def _condition(self, text: Condition | None) -> Predicate | None:
        if text is None:
            return None
        condition = parse(str(text), self.pairs, self._zone)
        self._check_independent(condition, may_divide_by_zero(condition))
        return condition

    def _check_independent(self, formula: Formula, divides: bool) -> None:
        if divides or not is_independent(self.definition.target.spark, formula):
            raise SchemaMismatchError(f"the meaning of {formula} depends on the session")

    def _check_sides(self, clause: MergeClause) -> None:
        absent = {"not matched": TARGET, "not matched by source": SOURCE}.get(clause.when)
        if absent is not None and columns_of(clause.formulas, absent):
            raise SchemaMismatchError(f"a clause for {clause.when} rows uses columns of the {absent}")

    def _values(self, clause: Clause) -> dict[str, Formula]:
        """The values that the clause assigns, by exact column name."""
        if clause.operation == DELETED:
            return {}
        given = self._all() if clause.values is None else self._assigned(clause.values)
        table = {f.name: f for f in self._schema.fields}
        if clause.values is None and len(given) < len(table):
            raise SchemaMismatchError("the source lacks columns")
        if clause.operation == INSERTED and any(is_required(f) and f.name not in given for f in table.values()):
            raise SchemaMismatchError("an insert must assign the columns that are not nullable")
        types = pa.schema([pa.field(name, self._type(formula)) for name, formula in given.items()])
        check_fits(types, Schema(tuple(nullable(table[name]) for name in given)))
        return given

    def _all(self) -> dict[str, Formula]:
        names = {name.lower(): name for name in self.definition.source.columns}
        own = [f.name for f in self._schema.fields if f.name.lower() in names]
        return {name: column(SOURCE, names[name.lower()]) for name in own}

    def _assigned(self, values: Mapping[str, Condition]) -> dict[str, Formula]:
        given: dict[str, Formula] = {}
        for name, text in values.items():
            path = self._schema.resolve(without_alias(name, self._schema, self.definition.target.alias))
            if len(path) > 1 or path[0].name in given:
                raise SchemaMismatchError(f"{name!r} is a nested field, or is assigned twice")
            formula = parse_formula(str(text), self.pairs, self._zone)
            if isinstance(formula.root, Column) and len(formula.root.path) == 2:
                given[path[0].name] = column(*formula.root.path)
            elif is_plain(self._schema, path[0].name):
                self._check_independent(formula, may_divide(formula))
                given[path[0].name] = formula
            else:
                raise SchemaMismatchError(f"formulas have no values for {name!r}")
        return given

    def _type(self, formula: Formula) -> pa.DataType:
        """The type of an assigned value."""
        if not isinstance(formula.root, Column) or len(formula.root.path) > 2:
            return formula.root.type
        side, name = formula.root.path
        if side == TARGET:
            return self._schema.resolve(quoted([name]))[0].type
        source: pa.Schema = stored(self.definition.source.schema, {})
        return source.field(name).type
