"""Rejects schemas with which the data of a table could no longer be read. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lance_spark.errors import InvalidOperationError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.row_columns import check_not_reserved
from lance_spark.schema import primary_key
from lance_spark.schema.schema import Field, Schema

_MAX_ID = 2**31 - 1


def _places(schema: Schema) -> dict[int, tuple[int | None, Field]]:
    """Field id -> the id of the parent (None at the top) and the field."""
    return {field.id: (parent, field) for parent, field in _with_parents(schema.fields, None)}


def _with_parents(fields: Iterable[Field], parent: int | None) -> Iterable[tuple[int | None, Field]]:
    for field in fields:
        yield parent, field
        yield from _with_parents(field.children, field.id)


def check_new_schema(schema: Schema, before: Schema | None) -> None:
    """Raise InvalidOperationError, or the error that a reader would raise, for a schema that cannot be read.

    Fields of `before` are not checked.
    """
    known = {f.id: f for f in before.fields} if before is not None else {}
    new = Schema(tuple(f for f in schema.fields if known.get(f.id) != f))
    check_not_reserved(new)
    new.to_arrow()
    if any(not f.name for f in new.fields):
        raise InvalidOperationError("a column has no name, which pylance cannot read; name it")
    _check_names(schema.fields, "the table")
    primary_key.check_rules(schema, before)
    counted = Counter(f.id for f in schema.walk())
    if wrong := sorted(i for i, count in counted.items() if count > 1 or not 0 <= i <= _MAX_ID):
        raise InvalidOperationError(f"invalid or duplicate field ids {wrong}; expected distinct ids from 0")


def _check_names(fields: Sequence[Field], where: str) -> None:
    names = [f.name for f in fields]
    if len(set(names)) < len(names):
        raise InvalidOperationError(f"{where} would have two columns called {next(n for n in names if names.count(n) > 1)!r}")
    for field in fields:
        if field.logical_type == "struct":
            _check_names(field.children, f"the struct {field.name!r}")


def _altered(before: Schema, after: Schema, *, nullability: bool) -> dict[int, str]:
    """The fields of both schemas, by id, whose existing values would no longer fit, and the change that they would need.

    With `nullability`, includes fields that become non-nullable.
    """
    old, new = _places(before), _places(after)
    reasons = {}
    for i in old.keys() & new.keys():
        (was_in, was), (is_in, field) = old[i], new[i]
        if was.logical_type != field.logical_type:
            reasons[i] = f"change its type from {was.logical_type} to {field.logical_type}"
        elif was.is_blob != field.is_blob:
            reasons[i] = "change between a blob and another column"
        elif was_in != is_in:
            reasons[i] = "move to another parent"
        elif nullability and was.nullable and not field.nullable:
            reasons[i] = "become non-nullable"
    return reasons


def check_kept_data(before: Schema, after: Schema, fragments: Iterable[tuple[Fragment, Fragment]], *, merges: bool) -> None:
    """Raise InvalidOperationError if data files would be misread under the schema `after`.

    `fragments` are pairs of the old and the new fragment: an operation that `merges` may give it new files for a field.
    """
    names = {f.id: f.name for f in after.walk()}
    reasons = _altered(before, after, nullability=merges)
    fresh = names.keys() - {f.id for f in before.walk()}
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for old, new in fragments if reasons or fresh else ():
        paths = {file.path for file in old.files}
        kept, added = ([f.fields for f in new.files if (f.path in paths) is was] for was in (True, False))
        # Many fragments differ only in the paths of their files and share the tuples of field ids.
        layout = (tuple(map(id, kept)), tuple(map(id, added)))
        if layout in seen:
            continue
        seen.add(layout)
        there, rewritten = ({i for fields in part for i in fields} for part in (kept, added))
        if wrong := [i for i in reasons if i in there or i not in rewritten]:
            what = f"column {names[wrong[0]]!r} cannot {reasons[wrong[0]]}"
            raise InvalidOperationError(f"{what} without new data files, which fragment {old.id} lacks")
        if used := sorted(fresh & there):
            what = f"the new column {names[used[0]]!r} has the field id {used[0]}"
            raise InvalidOperationError(f"{what}, which the files of fragment {old.id} use for a dropped column")
