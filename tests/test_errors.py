"""Errors can be printed, pickled and caught by type."""

from __future__ import annotations

import pickle

import pytest

from lance_spark import AmbiguousMergeError, CommitConflictError, CorruptFileError, LanceError, StorageError


@pytest.mark.parametrize("kind", [LanceError, CorruptFileError, StorageError])
def test_names_that_are_not_utf_8_are_escaped(kind: type[LanceError]) -> None:
    name = b"\xff.json".decode("utf-8", "surrogateescape")
    assert str(kind(f"the file {name} is corrupt")) == "the file \\udcff.json is corrupt"


def test_errors_with_attributes_survive_a_pickle() -> None:
    conflict = pickle.loads(pickle.dumps(CommitConflictError("no", retryable=True)))
    assert (str(conflict), conflict.retryable) == ("no", True)
    ambiguous = pickle.loads(pickle.dumps(AmbiguousMergeError("twice", 7)))
    assert (str(ambiguous), ambiguous.address) == ("twice", 7)
