"""Operations of transactions: a version is made by a transaction with one field, which pylance is asked about."""

from __future__ import annotations

import re
from pathlib import Path

import lance
from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[attr-defined]

from lance_spark._proto import transaction_pb2 as pb
from lance_spark.metadata.transaction import OPERATIONS
from tests.currency.table import new_table, set_transaction

_FIELDS = (*range(3, 20), *range(100, 140))
_LENGTH_DELIMITED = 2
_UNKNOWN = "Unknown"


def rows(folder: Path) -> list[list[str]]:
    """Each operation that pylance or ours knows: the number of its field, pylance's name, and ours."""
    ours = {field.number: OPERATIONS[field.name][0].__name__ for field in pb.Transaction.DESCRIPTOR.fields if field.name in OPERATIONS}
    theirs = {number: _name(folder, number) for number in _FIELDS}
    known = sorted(number for number in _FIELDS if number in ours or theirs[number] != _UNKNOWN)
    return [[str(number), theirs[number], ours.get(number, "refused: unknown")] for number in known]


def _name(folder: Path, number: int) -> str:
    uri = new_table(folder)
    uuid = pb.Transaction(uuid="f225210f-6d45-49c5-8815-abb5e6fae02f").SerializeToString()
    set_transaction(uri, uuid + _VarintBytes(number << 3 | _LENGTH_DELIMITED) + b"\0")
    try:
        operation = lance.dataset(uri).read_transaction(1).operation
    except ValueError as e:
        found = re.search(r"Unsupported operation: (\w+)", str(e))
        return found[1] if found else str(e)
    name = type(operation).__name__
    # Operations that have no class in Python have the class of all.
    return "known" if name == "BaseOperation" else name
