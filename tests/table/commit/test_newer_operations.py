"""Versions that newer writers have made, by operations that are not known here or that only have names: nothing ignores them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark._proto import transaction_pb2 as pb
from lance_spark.errors import CommitConflictError
from lance_spark.metadata.manifest import parse, serialise

_LENGTH_DELIMITED = 2
_COMPOSITE, _TRANSITIONS = 117, 116
"""The numbers of fields that the operations of newer writers have in the message of a transaction."""


def tag(number: int) -> bytes:
    """The tag of a field with a message of no bytes."""
    value = number << 3 | _LENGTH_DELIMITED
    return bytes([value & 0x7F | 0x80, value >> 7, 0])


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """A message of these small numbers and short texts or messages, by the numbers of their fields."""
    parts = [bytes([n << 3, v]) if isinstance(v, int) else bytes([n << 3 | _LENGTH_DELIMITED, len(v)]) + v for n, v in fields]
    return b"".join(parts)


def composite(number: int) -> bytes:
    """An append as a composite operation of the second draft of transactions, which moves its number: a fragment, and its data file."""
    local = message((2, 1))  # the first fragment that the operation adds
    fragment = message((1, message((1, local), (2, 5))))
    file = message((2, message((1, local), (2, message((1, b"new.lance"))), (3, message((1, 0))))))
    operation = message((1, message((1, b"append"), (2, fragment), (2, file))))
    return tag(number)[:2] + bytes([len(operation)]) + operation


OPERATIONS = {
    "a composite operation": (composite(_COMPOSITE), "Unknown", False),
    "a composite operation of another draft": (composite(_TRANSITIONS), "Unknown", False),
    "an empty composite operation": (tag(_COMPOSITE), "Unknown", False),
    "transitions of fragments": (tag(_TRANSITIONS), "Unknown", False),
    "overlays": (pb.Transaction(data_overlay=pb.Transaction.DataOverlay()).SerializeToString(), "DataOverlay", True),
    "bases": (pb.Transaction(update_bases=pb.Transaction.UpdateBases()).SerializeToString(), "UpdateBases", True),
}
"""The bytes of the operation, its name in the history, and whether a deletion of other rows may be committed after it."""


@pytest.mark.parametrize("inline", [False, True], ids=["in a file", "in the manifest"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_their_versions_open_and_conflict(operation: str, inline: bool, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": range(10)}), uri, max_rows_per_file=5)
    before = Dataset.open(uri)
    lance.write_dataset(pa.table({"id": range(10, 15)}), uri, mode="append")
    made_by, name, goes_with = OPERATIONS[operation]
    set_transaction(uri, made_by, inline)
    table = Dataset.open(uri)
    assert table.to_table() == lance.dataset(uri).to_table()
    assert [entry.operation for entry in table.history()][:1] == [name]
    assert sorted(table.changes(1, 2).to_table()["id"].to_pylist()) == list(range(10, 15))
    if goes_with:
        before.delete("id = 1")
    else:
        with pytest.raises(CommitConflictError, match=name):
            before.delete("id = 1")
        Dataset.open(uri).delete("id = 1")
    assert Dataset.open(uri).count_rows() == lance.dataset(uri).count_rows() == 14


def set_transaction(uri: str, operation: bytes, inline: bool) -> None:
    """Have the latest version be made by the operation."""
    path = min(Path(uri, "_versions").glob("*.manifest"))
    manifest = parse(path.read_bytes(), path.name)
    transaction = pb.Transaction(read_version=1, uuid="f225210f-6d45-49c5-8815-abb5e6fae02f").SerializeToString() + operation
    name = "1-f225210f-6d45-49c5-8815-abb5e6fae02f.txn"
    Path(uri, "_transactions", name).write_bytes(transaction)
    path.write_bytes(serialise(replace(manifest, transaction=transaction if inline else None, transaction_file=name)))
