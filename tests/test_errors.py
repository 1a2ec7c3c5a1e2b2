"""Errors can be printed, pickled and caught by type."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import (
    AmbiguousMergeError,
    CommitConflictError,
    CorruptFileError,
    LanceError,
    NamespaceError,
    SchemaMismatchError,
    StorageError,
    TableNotFoundError,
)


@pytest.mark.parametrize("kind", [LanceError, CorruptFileError, StorageError])
def test_names_that_are_not_utf_8_are_escaped(kind: type[LanceError]) -> None:
    name = b"\xff.json".decode("utf-8", "surrogateescape")
    assert str(kind(f"the file {name} is corrupt")) == "the file \\udcff.json is corrupt"


def test_errors_with_attributes_survive_a_pickle() -> None:
    conflict = pickle.loads(pickle.dumps(CommitConflictError("no", retryable=True)))
    assert (str(conflict), conflict.retryable) == ("no", True)
    ambiguous = pickle.loads(pickle.dumps(AmbiguousMergeError("twice", 7)))
    assert (str(ambiguous), ambiguous.address) == ("twice", 7)


def test_control_characters_of_names_are_escaped() -> None:
    names = "a\x1b[2J\x07\r\x9b31m\u202e\u2028\nforged line"
    shown = r"a\x1b[2J\x07\r\x9b31m\u202e\u2028\nforged line"
    for kind in (LanceError, CorruptFileError, StorageError, NamespaceError, TableNotFoundError):
        assert str(kind(f"the table {names} is gone")) == f"the table {shown} is gone"
        assert str(pickle.loads(pickle.dumps(kind(names)))) == shown
    assert str(SchemaMismatchError(f"it does not fit:\n  - {names}\n  - é 漢")) == f"it does not fit:\n  - {shown}\n  - é 漢"


def test_names_in_a_table_do_not_control_the_terminal(tmp_path: Path) -> None:
    uri = f"{tmp_path}/\x1b[2J"
    with pytest.raises(TableNotFoundError) as missing:
        Dataset.open(uri)
    table = Dataset.write(uri, pa.table({"\x1b[31m": [1]}))
    with pytest.raises(SchemaMismatchError) as unfit:
        Dataset.write(uri, pa.table({"\x1b[31m": ["x"]}), "append")
    with pytest.raises(SchemaMismatchError) as unknown:
        table.scan(columns=["\x1b[0m"])
    for e in (missing, unfit, unknown):
        assert "\x1b" not in str(e.value)
        assert r"\x1b" in str(e.value)
