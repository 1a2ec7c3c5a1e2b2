"""Transactions: every operation round-trips, and messages of older and newer writers are parsed or kept."""

from __future__ import annotations

import contextlib
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lance_spark._proto import transaction_pb2 as pb
from lance_spark.errors import CorruptFileError
from lance_spark.metadata import operations as ops
from lance_spark.metadata.fragment import BasePath, DataFile, DeletionFile, Fragment, IndexFile, IndexMetadata
from lance_spark.metadata.transaction import OPERATIONS, Transaction, parse, serialise
from lance_spark.schema.schema import from_arrow

pytestmark = pytest.mark.spec("table.md", "Transactions")

FRAGMENT = Fragment(7, (DataFile("a.lance", (0, 1), (0, 1), (2, 2), 99),), 10, DeletionFile(True, 3, 12345, 2), b"ids")
NEW = Fragment(0, (DataFile("b.lance", (0,), (0,), (2, 1), 5, base_id=1),), 4)
SCHEMA = from_arrow(pa.schema([pa.field("a", pa.int32(), metadata={"k": "v"}), ("s", pa.list_(pa.string()))], metadata={"m": b"1"}))
INDEX = IndexMetadata(bytes(range(16)), "i", (0,), 3, b"bitmap", "/lance.table.BTreeIndexDetails", b"details", 1, 1700000000000)
CASES: dict[str, ops.Operation] = {
    "append": ops.Append((NEW,)),
    "delete": ops.Delete((FRAGMENT,), (1, 2), "a > 3"),
    "overwrite": ops.Overwrite((NEW,), SCHEMA, {"k": "v"}, (BasePath(1, "/x", True, "n"),)),
    "create_index": ops.CreateIndex((INDEX,), (INDEX,)),
    "rewrite": ops.Rewrite(
        (ops.RewriteGroup((FRAGMENT,), (NEW,)),),
        (ops.RewrittenIndex(bytes(16), bytes(range(16)), "/lance.table.BTreeIndexDetails", b"d", 2, (IndexFile("x", 5),)),),
    ),
    "merge": ops.Merge((FRAGMENT,), SCHEMA, True),
    "merge that may forbid nulls": ops.Merge((FRAGMENT,), SCHEMA),
    "project": ops.Project(from_arrow(pa.schema([("a", pa.int32())])), True),
    "restore": ops.Restore(5),
    "reserve_fragments": ops.ReserveFragments(3),
    "update": ops.Update((1,), (FRAGMENT,), (NEW,), (4,), (5,), 1, (b"sstable",), ops.InsertedKeys((0,), (7, 2**64 - 1)), {7: b"bitmap"}),
    "update that inserts many keys": ops.Update(inserted_keys=ops.InsertedKeys((0, 1), None, b"bits", 32, 8192, 0.00057)),
    "update that inserts no keys": ops.Update(inserted_keys=ops.InsertedKeys((0,), ())),
    "update_config": ops.UpdateConfig(
        ops.UpdateMap({"a": "1", "b": None}),
        ops.UpdateMap({"c": ""}, replace=True),
        ops.UpdateMap({}),
        {3: ops.UpdateMap({"d": "2"})},
    ),
    "data_replacement": ops.DataReplacement((ops.DataReplacementGroup(7, NEW.files[0]),)),
    "update_mem_wal_state": ops.UpdateMemWalState((b"1",), (b"2",), (b"3",)),
    "clone": ops.Clone(True, 3, "/source", "main", "branch"),
    "update_bases": ops.UpdateBases((BasePath(0, "/x", False),)),
    "data_overlay": ops.DataOverlay((b"g",)),
    "nothing appended": ops.Append(()),
    "no change": ops.UpdateConfig(),
}


def test_there_is_a_case_of_every_operation() -> None:
    assert {type(op) for op in CASES.values()} == {kind for kind, _, _ in OPERATIONS.values()}


@pytest.mark.parametrize("operation", CASES.values(), ids=CASES.keys())
def test_every_operation_round_trips(operation: ops.Operation) -> None:
    transaction = Transaction(4, operation, tag="t", properties={"p": "q"})
    assert parse(serialise(transaction), "x") == transaction
    assert transaction.file_name == f"4-{transaction.uuid}.txn"


def test_two_transactions_never_have_the_same_uuid() -> None:
    assert Transaction(1, ops.Append(())).uuid != Transaction(1, ops.Append(())).uuid


def test_an_unknown_operation_is_kept() -> None:
    known = pb.Transaction(read_version=3, uuid="u").SerializeToString()
    for newer in (known, known + b"\xf2\x3f\x02\x08\x01"):
        transaction = parse(newer, "x")
        assert transaction.operation == ops.Unknown(newer)
        assert (transaction.uuid, serialise(transaction)) == ("u", newer)


def test_fields_of_older_writers_are_parsed() -> None:
    config = pb.Transaction.UpdateConfig(upsert_values={"a": "1"}, delete_keys=["b"], schema_metadata={"m": "2"})
    config.field_metadata[3].metadata["f"] = "4"
    assert parse(pb.Transaction(update_config=config).SerializeToString(), "x").operation == ops.UpdateConfig(
        ops.UpdateMap({"a": "1", "b": None}),
        None,
        ops.UpdateMap({"m": "2"}, replace=True),
        {3: ops.UpdateMap({"f": "4"}, replace=True)},
    )
    update = pb.Transaction.Update()
    update.updated_fragment_offsets[3].values.extend([1, 5])
    operation = parse(pb.Transaction(update=update).SerializeToString(), "x").operation
    assert operation == ops.Update(updated_fragment_offsets={3: BitMap([1, 5]).serialize()})
    rewrite = pb.Transaction.Rewrite()
    rewrite.old_fragments.add().id = 7
    rewrite.new_fragments.add().id = 8
    operation = parse(pb.Transaction(rewrite=rewrite).SerializeToString(), "x").operation
    assert operation == ops.Rewrite((ops.RewriteGroup((Fragment(7, (), 0),), (Fragment(8, (), 0),)),))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_transaction_or_a_corrupt_file(data: bytes) -> None:
    with contextlib.suppress(CorruptFileError):
        assert isinstance(parse(data, "x"), Transaction)


def test_a_corrupt_transaction_names_its_file() -> None:
    twice = pb.Transaction()
    for _ in range(2):
        twice.overwrite.schema.add(id=1, parent_id=-1, name="a", logical_type="int32")
    for content in (b"\xff", twice.SerializeToString()):
        with pytest.raises(CorruptFileError, match=r"1-x\.txn"):
            parse(content, "1-x.txn")


def test_transactions_of_pylance_equal_ours(tmp_path: Path) -> None:
    uri, table = tmp_path / "t", pa.table({"a": pa.array(range(100), pa.int32()), "s": ["x"] * 100})
    for mode in ("create", "append", "append"):
        lance.write_dataset(table, uri, mode=mode)
    ds = lance.dataset(uri)
    ds.delete("a < 10")
    ds.update({"s": "'y'"}, where="a = 50")
    ds.add_columns({"c": "a + 1"})
    ds.drop_columns(["s"])
    ds.update_config({"k": "v"})
    ds.create_scalar_index("a", "BTREE")
    ds.optimize.compact_files()
    ds.restore()
    files = sorted((uri / "_transactions").iterdir())
    kinds = set()
    for file in files:
        transaction = parse(file.read_bytes(), file.name)
        kinds.add(type(transaction.operation))
        assert pb.Transaction.FromString(serialise(transaction)) == pb.Transaction.FromString(file.read_bytes())
    assert len(kinds) >= 9
