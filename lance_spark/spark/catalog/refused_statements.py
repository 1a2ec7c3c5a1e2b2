"""Statements about what a catalog of lance tables does not have: each is refused with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

_FILES = "files of another format do not become a lance table where they are"
REFUSED: Mapping[str, str] = {
    "CREATE TABLE": f"CLONE {{name}}: {_FILES}; write CREATE TABLE t USING lance AS SELECT * FROM {{name}}",
    "UNDROP TABLE": (
        "UNDROP TABLE {name}: DROP TABLE deletes the files of a lance table at once, or leaves those of a table with a LOCATION; "
        "for these write CREATE TABLE {name} USING lance LOCATION '/path'"
    ),
    "CONVERT TO": (
        f"CONVERT TO: {_FILES}; write CREATE TABLE t USING lance AS SELECT * "
        "FROM {name}, or LanceTable.convert(spark, \"{name}\", '/path'), which can be interrupted"
    ),
}
"""What to say, by the first two words of a statement; `{name}` is what it names."""
