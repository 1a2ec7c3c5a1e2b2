"""Metadata: the keys in tables and files that a fixed list of calls of pylance makes, and fields of messages that ours does not know."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from lance.indices import IndexConfig

import lance_spark
from lance_spark._proto import table_pb2, transaction_pb2
from lance_spark.file.data_file import open_data_file
from lance_spark.metadata.manifest import LENGTH, TAIL, parse
from lance_spark.metadata.transaction import parse as parse_transaction
from lance_spark.storage.store import Store
from tests.currency.table import new_uri

_KEY = {"lance-schema:unenforced-primary-key": "true"}


def rows(folder: Path) -> list[list[str]]:
    """Each key: where it is, and whether the source of ours names it."""
    before = set(folder.iterdir())
    _calls(folder)
    sources = "".join(path.read_text() for path in Path(lance_spark.__file__).parent.rglob("*.py"))
    found = {place for uri in sorted(set(folder.iterdir()) - before) for place in _places(uri)}
    return [[where, f"`{key}`", "yes" if _names(sources, key) else "no"] for where, key in sorted(found)]


def _names(sources: str, key: str) -> bool:
    """Whether the key stands in the sources, and not as a part of another word: `c_table` is no part of `generic_table`."""
    return re.search(rf"(?<!\w){re.escape(key)}(?!\w)", sources) is not None


def _calls(folder: Path) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False, metadata=_KEY), pa.field("text", pa.string()), pa.field("x", pa.int32())]
    )
    some = pa.table({"id": range(300), "text": ["the old red tree"] * 300, "x": range(300)}, schema=schema)
    uri = new_uri(folder)
    options: dict[str, Any] = {"enable_stable_row_ids": True, "transaction_properties": {"of the transaction": "1"}}
    dataset: Any = lance.write_dataset(some, uri, auto_cleanup_options={"interval": 20, "older_than_seconds": 86400}, **options)
    for kind in ("bitmap", "bloomfilter", "btree", "zonemap"):
        dataset.create_scalar_index("x", IndexConfig(kind, {}), name=kind)
    for kind in ("fm", "inverted", "minhashlsh", "ngram"):
        dataset.create_scalar_index("text", IndexConfig(kind, {}), name=kind)
    dataset = lance.write_dataset(some.slice(0, 10), uri, mode="append")
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(some.slice(5, 10))
    dataset.add_columns({"y": "x + 1"})
    dataset.alter_columns({"path": "y", "name": "z"})
    dataset.delete("id = 3")
    dataset.update({"x": "0"}, "id = 4")
    dataset.optimize.optimize_indices()
    dataset.optimize.compact_files()
    dataset.update_metadata({"of the table": "1"})
    dataset.tags.create("tag", 1)
    dataset.create_branch("branch")
    dataset.shallow_clone(new_uri(folder), "tag")
    _calls_of_plain_tables(folder, some)


def _calls_of_plain_tables(folder: Path, some: pa.Table) -> None:
    dataset: Any = lance.write_dataset(some, new_uri(folder), max_rows_per_file=100)
    dataset.create_scalar_index("x", "BTREE")
    dataset.delete("id < 10")
    dataset.optimize.compact_files(defer_index_remap=True)
    dataset.initialize_mem_wal(maintained_indexes=["x_idx"])
    with dataset.mem_wal_writer(str(uuid.UUID(int=1))) as writer:
        writer.put(some.slice(0, 2))
        writer.delete(some.slice(2, 1).select(["id"]))
    blob = pa.table([lance.blob_array([b"x" * 100])], schema=pa.schema([lance.blob_field("blob")]))
    lance.write_dataset(blob, new_uri(folder), data_storage_version="2.2")
    json = pa.table({"json": pa.array(['{"a": 1}'], pa.json_()), "list": [[1.0, 2.0]]})
    lance.write_dataset(json, new_uri(folder))


def _places(table: Path) -> Iterator[tuple[str, str]]:
    for path in table.rglob("*.manifest"):
        data = path.read_bytes()
        manifest = parse(data, path.name)
        yield from (("config", key) for key in manifest.config)
        yield from (("table", key) for key in manifest.table_metadata)
        yield from (("schema", key.decode()) for key in manifest.schema.metadata)
        yield from (("field", key.decode()) for field in manifest.schema.walk() for key in field.metadata)
        yield from (("index", index.name) for index in manifest.indexes if index.name.startswith("__"))
        (size,) = LENGTH.unpack_from(data, TAIL.unpack(data[-TAIL.size :])[0])
        start = TAIL.unpack(data[-TAIL.size :])[0] + LENGTH.size
        yield from (("unknown field", name) for name in _unknown(table_pb2.Manifest.FromString(data[start : start + size])))
    for path in table.rglob("*.txn"):
        data = path.read_bytes()
        yield from (("transaction", key) for key in parse_transaction(data, path.name).properties)
        yield from (("unknown field", name) for name in _unknown(transaction_pb2.Transaction.FromString(data)))
    for path in (*table.rglob("*.lance"), *table.rglob("*.idx")):
        if path.is_file():
            reader = open_data_file(Store(str(path.parent)), path.name)
            yield from ((f"file {_kind(path)}", key.decode()) for key in reader.schema.metadata)


def _kind(path: Path) -> str:
    """The name of a file whose name tells its kind."""
    return "data" if path.parent.name == "data" else re.sub(r"\d+", "*", path.name)


def _unknown(message: Message) -> Iterator[str]:
    unknown = UnknownFieldSet(message)
    yield from (f"{message.DESCRIPTOR.name}.{unknown[i].field_number}" for i in range(len(unknown)))
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for child in [value] if isinstance(value, Message) else value:
                yield from _unknown(child)
