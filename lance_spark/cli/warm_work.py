"""What users do with tables, on little data, so that the kernels it needs are compiled and kept.

Which code a kernel needs depends on the types of words, values and offsets, not on who may write
to them (see `kernels/entrance.py`). So each encoding gets words of all sizes, and each index and
search gets values of all types that it takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.arrow.sip_hash import sip_hashes
from lance_spark.cli.warm_rows import (
    common_types,
    nested_types,
    texts_to_search,
    vectors_to_search,
    words,
)
from lance_spark.dataset import Dataset
from lance_spark.index.order import sort_order
from lance_spark.index.text.positions import decode_old_lists
from lance_spark.table.join.components import components
from lance_spark.table.mem_wal_writing.assignment import Assignment

_MANY = 70_000
"""As many texts of an index are sorted by a kernel."""
_VERSIONS = ("2.2", "2.1", "2.0", "2.3")
_ENCODINGS: tuple[Mapping[str, str], ...] = (
    {"compression": "none"},
    {"compression": "lz4"},
    {"compression": "zstd"},
    {"compression": "fsst"},
    {"structural-encoding": "fullzip"},
    {"structural-encoding": "fullzip", "compression": "fsst"},
    {"structural-encoding": "fullzip", "compression": "zstd"},
    {"structural-encoding": "miniblock", "bss": "on", "compression": "lz4"},
    {"rle-threshold": "1.0"},
    {"dict-divisor": "1"},
)


def work(folder: str) -> None:
    """Do all of it with tables in a folder, which is empty."""
    for version in _VERSIONS:
        _write_and_read(f"{folder}/types-{version}.lance", common_types(), version)
        _write_and_read(f"{folder}/few-{version}.lance", common_types().slice(0, 20), version)
        _write_and_read(f"{folder}/words-{version}.lance", words(), version)
        _write_and_read(f"{folder}/nested-{version}.lance", nested_types(version), version)
    for number, encoding in enumerate(_ENCODINGS):
        _write_encoded(f"{folder}/encoded-{number}.lance", common_types(), encoding)
        _write_encoded(f"{folder}/encoded-words-{number}.lance", words(), encoding)
    _change(f"{folder}/changes.lance", stable_row_ids=False)
    _change(f"{folder}/stable.lance", stable_row_ids=True)
    _search_by_conditions(f"{folder}/conditions.lance")
    _search_texts(f"{folder}/texts")
    for value_type in ("float32", "float16", "float64", "uint8"):
        _search_vectors(f"{folder}/vectors-{value_type}", value_type)
    sort_order(pa.array([f"text {n}" for n in range(_MANY)]))
    _read_old_positions()
    _put_into_a_log(f"{folder}/log.lance")
    sip_hashes(pa.array([b"a key in a write-ahead log"]))
    list(components([pa.record_batch({"a": pa.array([1, 2]), "b": pa.array([2, 3])})]))


def _write_and_read(uri: str, rows: pa.Table, version: str) -> None:
    dataset = Dataset.write(uri, rows, data_storage_version=version)
    dataset.scan().to_table()
    dataset.take([5, 7, len(rows) - 1])
    dataset.take(list(range(0, len(rows), 3)))
    dataset.scan(limit=10, offset=3).to_table()
    for name in rows.column_names:
        dataset.scan(columns=[name], filter="id % 7 = 3").to_table()


def _write_encoded(uri: str, rows: pa.Table, encoding: Mapping[str, str]) -> None:
    columns = [column for column in rows.schema if not pa.types.is_struct(column.type)]
    schema = pa.schema([_encoded(column, encoding) for column in columns])
    dataset = Dataset.write(uri, rows.select(schema.names).cast(schema))
    dataset.scan().to_table()
    dataset.take([5, 70, 4000])


def _encoded(column: pa.Field, encoding: Mapping[str, str]) -> pa.Field:
    """The column with the settings of an encoding, as far as its type takes them."""
    is_text = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    wanted = {}
    for name, value in encoding.items():
        if value != "fsst" or is_text:
            wanted[f"lance-encoding:{name}"] = value
    return column.with_metadata(wanted)


def _change(uri: str, stable_row_ids: bool) -> None:
    """Write, delete, update, merge, add columns, compact and cluster."""
    rows = common_types()
    dataset = Dataset.write(uri, rows, enable_stable_row_ids=stable_row_ids)
    for name, kind in (("id", "BTREE"), ("label", "BITMAP"), ("kind", "ZONEMAP")):
        dataset = dataset.create_scalar_index(name, kind)
    dataset = dataset.insert(rows.slice(0, 500))
    dataset = dataset.delete("id % 5 = 1")
    dataset = dataset.delete("id < 300")
    dataset = dataset.update({"long": "long + 1"}, where="id BETWEEN 400 AND 600")
    some_new = rows.slice(4000).set_column(0, "id", pa.array(range(4500, 5500)))
    by_id = dataset.merge_insert("id").when_matched_update_all()
    by_id.when_not_matched_insert_all().execute(some_new)
    by_texts = Dataset.open(uri).merge_insert(["label", "text"])
    by_texts.when_matched_update_all().execute(rows.slice(700, 100))
    dataset = Dataset.open(uri)
    dataset = dataset.add_columns({"sum": "id + long"})
    dataset.scan().to_table()
    dataset.optimize.compact_files()
    dataset = Dataset.open(uri)
    dataset.optimize.optimize_indices()
    dataset = Dataset.open(uri)
    dataset.optimize.cluster("id", "label")
    dataset = Dataset.open(uri)
    dataset.scan(filter="id = 4000 AND label = 'label 3'").to_table()
    dataset.verify()


def _put_into_a_log(uri: str) -> None:
    """Put rows into the shards of a write-ahead log that their keys, which are texts, belong to."""
    is_key = {"lance-schema:unenforced-primary-key": "true"}
    key = pa.field("key", pa.string(), nullable=False, metadata=is_key)
    schema = pa.schema([key, pa.field("value", pa.int64())])
    batch = pa.record_batch([[f"key {n}" for n in range(100)], range(100)], schema=schema)
    table = Dataset.write(uri, pa.Table.from_batches([batch]))
    table = table.initialize_mem_wal(bucket_column="key", num_buckets=2)
    for shard, rows in Assignment.of(table.snapshot, None).divided(batch):
        with table.mem_wal_writer(shard.name) as writer:
            writer.put(rows)
    Dataset.open(uri).scan().to_table()


@dataclass(frozen=True)
class _Indexed:
    """A column with a scalar index, and a condition that asks it."""

    column: str
    kind: str
    condition: str


_CONDITIONS = (
    _Indexed("id", "BTREE", "id BETWEEN 100 AND 200"),
    _Indexed("label", "BTREE", "label = 'label 3'"),
    _Indexed("text", "BTREE", "text LIKE 'some text with the number 12%'"),
    _Indexed("double", "BTREE", "double > 2.5"),
    _Indexed("timestamp", "BTREE", "timestamp > TIMESTAMP '1990-01-01 00:00:00'"),
    _Indexed("decimal", "BTREE", "`decimal` > 5"),
    _Indexed("date", "BITMAP", "date = DATE '1970-02-01'"),
    _Indexed("kind", "BITMAP", "kind IN ('kind 1', 'kind 2') OR kind IS NULL"),
    _Indexed("boolean", "BITMAP", "boolean"),
    _Indexed("tags", "LABEL_LIST", "array_contains(tags, 'tag 2')"),
    _Indexed("text", "NGRAM", "contains(text, 'number 12')"),
    _Indexed("text", "FM", "contains(text, 'number 12')"),
    _Indexed("long", "ZONEMAP", "long < 1000000"),
    _Indexed("int", "BLOOMFILTER", "int = 7"),
    _Indexed("label", "BLOOMFILTER", "label = 'label 4'"),
)


def _search_by_conditions(uri: str) -> None:
    """Every kind of scalar index, made, extended and asked."""
    rows = common_types()
    dataset = Dataset.write(uri, rows)
    for number, indexed in enumerate(_CONDITIONS):
        dataset = dataset.create_scalar_index(indexed.column, indexed.kind, name=f"index_{number}")
    dataset = dataset.insert(rows.slice(0, 600))
    dataset.optimize.optimize_indices()
    dataset = Dataset.open(uri)
    for indexed in _CONDITIONS:
        dataset.scan(filter=indexed.condition).to_table()
    several = "id < 400 AND label = 'label 3' AND array_contains(tags, 'tag 2')"
    dataset.scan(filter=several).to_table()
    dataset.scan(filter="id IN (1, 5, 4000) OR label = 'label 3'", limit=5).to_table()
    dataset.verify()


_QUERIES: tuple[Any, ...] = (
    "lance",
    "lance table",
    "lance table 77",
    {"match": {"column": "text", "terms": "lance table", "operator": "And"}},
    {"match": {"column": "text", "terms": "lnce tabl", "fuzziness": 1}},
)
_PHRASES: tuple[Any, ...] = (
    {"phrase": {"query": "lance table"}},
    {"phrase": {"query": "lance table", "slop": 2}},
)
_TEXT_INDEXES: tuple[Mapping[str, Any], ...] = (
    {"with_position": True},
    {"block_size": 256},
    {"base_tokenizer": "simple"},
    {"base_tokenizer": "whitespace"},
    {"base_tokenizer": "raw"},
    {"base_tokenizer": "ngram"},
    {"base_tokenizer": "icu"},
)


def _search_texts(place: str) -> None:
    """Full-text indexes of every tokenizer, with and without positions, and all kinds of queries."""
    rows = texts_to_search()
    for number, options in enumerate(_TEXT_INDEXES):
        queries = _QUERIES + _PHRASES if "with_position" in options else _QUERIES
        uri = f"{place}-{number}.lance"
        dataset = Dataset.write(uri, rows).create_scalar_index("text", "INVERTED", **options)
        _ask(dataset, queries)
        dataset = dataset.insert(rows.slice(0, 300)).delete("id % 11 = 3")
        _ask(dataset, queries)
        dataset.optimize.optimize_indices()
        _ask(Dataset.open(uri), queries)
    similar = Dataset.write(f"{place}-similar.lance", rows)
    similar = similar.create_scalar_index("text", "MINHASHLSH", shingle_size=2)
    nearest = {"column": "text", "q": rows["text"][7].as_py(), "k": 3}
    similar.scan(["id"], nearest=nearest).to_table()
    without_index = Dataset.write(f"{place}-none.lance", rows)
    _ask(without_index, [query for query in _QUERIES if isinstance(query, dict)][:1])


def _ask(dataset: Dataset, queries: Iterable[Any]) -> None:
    for query in queries:
        dataset.scan(["id"], full_text_query=query, limit=5).to_table()
        condition: dict[str, Any] = {"filter": "id < 900", "prefilter": True}
        dataset.scan(["id"], full_text_query=query, limit=5, **condition).to_table()


def _read_old_positions() -> None:
    """Those of text indexes as they were before, which are read but not made."""
    none = np.zeros(0, np.int64)
    decode_old_lists(np.zeros(0, np.uint8), none, np.zeros(1, np.int64), none)


@dataclass(frozen=True)
class _VectorIndex:
    """A kind of vector index and its parameters."""

    kind: str
    parameters: Mapping[str, int] = field(default_factory=dict)


_FLAT = _VectorIndex("IVF_FLAT")
_PQ = _VectorIndex("IVF_PQ", {"num_sub_vectors": 4})
_ALL_KINDS = (
    _FLAT,
    _PQ,
    _VectorIndex("IVF_PQ", {"num_sub_vectors": 4, "num_bits": 4}),
    _VectorIndex("IVF_SQ"),
    _VectorIndex("IVF_RQ"),
    _VectorIndex("IVF_HNSW_FLAT"),
    _VectorIndex("IVF_HNSW_PQ", {"num_sub_vectors": 4}),
    _VectorIndex("IVF_HNSW_SQ"),
)
_KINDS_OF_TYPE = {
    "float32": _ALL_KINDS,
    "float16": (_FLAT, _PQ),
    "float64": (_FLAT, _PQ),
    "uint8": (_FLAT,),
}


def _search_vectors(place: str, value_type: str) -> None:
    """Vector indexes of every kind and metric, and searches with and without them."""
    rows = vectors_to_search(value_type)
    metrics = ("hamming",) if value_type == "uint8" else ("l2", "cosine", "dot")
    without_index = Dataset.write(f"{place}.lance", rows)
    for metric in metrics:
        _find(without_index, rows, metric)
    for index, metric in itertools.product(_KINDS_OF_TYPE[value_type], metrics):
        name = "-".join([place, index.kind, *map(str, index.parameters.values()), metric])
        _search_index(f"{name}.lance", rows, index, metric)


def _search_index(uri: str, rows: pa.Table, index: _VectorIndex, metric: str) -> None:
    """Make the index and ask it; again when rows came and went, and when it was extended."""
    dataset = Dataset.write(uri, rows)
    options: dict[str, Any] = {"metric": metric, "num_partitions": 4, **index.parameters}
    dataset = dataset.create_index("vector", index.kind, **options)
    _find(dataset, rows, metric)
    dataset = dataset.insert(rows.slice(0, 300)).delete("id % 11 = 3")
    _find(dataset, rows, metric)
    dataset.optimize.optimize_indices()
    _find(Dataset.open(uri), rows, metric)


def _find(dataset: Dataset, rows: pa.Table, metric: str) -> None:
    query = np.array(rows["vector"][40].as_py())
    nearest = {"column": "vector", "q": query, "k": 5, "metric": metric, "nprobes": 2}
    dataset.scan(["id"], nearest=nearest).to_table()
    refined = {**nearest, "refine_factor": 2}
    dataset.scan(["id"], nearest=refined, filter="id < 700", prefilter=True).to_table()
    dataset.scan(["id"], nearest=nearest, filter="id IN (3, 40)", prefilter=True).to_table()
    for count in (2, 32):
        many = {**nearest, "q": np.stack([query] * count)}
        dataset.scan(["id"], nearest=many).to_table()
