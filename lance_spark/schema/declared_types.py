"""The types of strings that SQL has and Lance has not: CHAR(n), VARCHAR(n), and strings with a collation.

The type that a statement declares is in the metadata of the column's field, under a key of this package, so that no other writer's metadata
can be taken for it. A record that is not one of these types, or that is on a column of another type, means nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import SchemaMismatchError
from lance_spark.schema.schema import Field

DECLARED = b"lance-spark:declared-type"
"""The key. For the items of lists and maps, which have no metadata in Spark, it follows the way to them: `element.`, `key.`, `value.`."""
COMPUTED, IDENTITY = b"lance-spark:generated", b"lance-spark:identity"
"""The keys of GENERATED columns: the expression of one that is computed, or the start and the step of the numbers of one, as JSON."""
MAX_CHAR = 8000
"""The longest CHAR: each of its values is padded to this length. Some databases have this limit, too."""
_BOUNDED = re.compile(r"(char|varchar)\(([1-9][0-9]{0,8})\)")
COLLATIONS = "(?:UTF8_BINARY|UTF8_LCASE|UNICODE(?:_CI)?(?:_AI)?)(?:_RTRIM)?"
"""A regular expression for the collations that may be declared: those that all versions of Spark from 4.0 on have."""
_COLLATED = re.compile(f"string collate ({COLLATIONS})")
_STRINGS = ("string", "large_string")


def is_generated(column: Field) -> bool:
    """True if inserted rows need not have the column."""
    return bool(column.metadata) and (COMPUTED in column.metadata or IDENTITY in column.metadata)


@dataclass(frozen=True)
class DeclaredType:
    """A declared type: `char` or `varchar` of `length` characters, or `string` with a collation."""

    kind: Literal["char", "varchar", "string"]
    length: int = 0
    collation: str = ""

    @property
    def text(self) -> str:
        """The text in the metadata."""
        return f"string collate {self.collation}" if self.kind == "string" else f"{self.kind}({self.length})"


def parse(text: str) -> DeclaredType | None:
    """The type with this text; None for other texts, and for a CHAR that is too long."""
    if found := _COLLATED.fullmatch(text):
        return DeclaredType("string", collation=found[1])
    found = _BOUNDED.fullmatch(text)
    if found is None or (found[1] == "char" and int(found[2]) > MAX_CHAR):
        return None
    return DeclaredType("char" if found[1] == "char" else "varchar", int(found[2]))


def declared(field: Field) -> DeclaredType | None:
    """The declared type of a column of strings; None if there is none."""
    text = field.metadata.get(DECLARED) if field.metadata and field.logical_type in _STRINGS else None
    return None if text is None else parse(text.decode(errors="replace"))


def as_declared(array: pa.Array, t: DeclaredType, path: str) -> pa.Array:
    """The strings, padded with spaces for CHAR, and without spaces beyond the length. Raises SchemaMismatchError for longer ones."""
    if t.kind == "string":
        return array
    too_long = pc.greater(pc.utf8_length(array), t.length)
    if pc.any(too_long).as_py():
        rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(array, t.length), " ")
        if pc.any(pc.not_equal(rest, "")).as_py():
            raise SchemaMismatchError(f"column {path!r}: a value has more than the {t.length} characters of {t.text.upper()}")
        array = pc.if_else(too_long, pc.utf8_slice_codeunits(array, 0, t.length), array)
    return pc.utf8_rpad(array, t.length, " ") if t.kind == "char" else array
