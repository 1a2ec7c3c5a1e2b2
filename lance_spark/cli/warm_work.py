"""What users do with tables, each on little data, so that the kernels that it needs are compiled and kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.dataset import Dataset
from lance_spark.index.order import sort_order
from lance_spark.table.join.components import components

_ROWS = 5000
"""More than one chunk of values, so that the code for several chunks is compiled, too."""
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
    {"structural-encoding": "miniblock", "bss": "on", "compression": "lz4"},
    {"rle-threshold": "1.0"},
    {"dict-divisor": "1"},
)
_DIMENSIONS = 16


def work(folder: str) -> None:
    """Do all of it with tables in a folder, which is empty."""
    for version in _VERSIONS:
        _write_and_read(f"{folder}/types-{version}.lance", common_types(), version)
        _write_and_read(f"{folder}/few-{version}.lance", common_types().slice(0, 20), version)
        _write_and_read(f"{folder}/nested-{version}.lance", _nested_types(version), version)
    for number, encoding in enumerate(_ENCODINGS):
        _write_encoded(f"{folder}/encoded-{number}.lance", encoding)
    _change(f"{folder}/changes.lance", False)
    _change(f"{folder}/stable.lance", True)
    _search_by_conditions(f"{folder}/conditions.lance")
    _search_texts(f"{folder}/texts.lance")
    for value_type in ("float32", "float16", "float64", "uint8"):
        _search_vectors(f"{folder}/vectors-{value_type}.lance", value_type)
    sort_order(pa.array([f"text {n}" for n in range(_MANY)]))
    list(components([pa.record_batch({"a": pa.array([1, 2]), "b": pa.array([2, 3])})]))


def _write_and_read(uri: str, rows: pa.Table, version: str) -> None:
    dataset = Dataset.write(uri, rows, data_storage_version=version)
    dataset.scan().to_table()
    dataset.take([5, 7, len(rows) - 1])
    dataset.take(list(range(0, len(rows), 3)))
    dataset.scan(limit=10, offset=3).to_table()
    for name in rows.column_names:
        dataset.scan(columns=[name], filter="id % 7 = 3").to_table()


def _write_encoded(uri: str, encoding: Mapping[str, str]) -> None:
    rows = common_types().select(["id", "tinyint", "int", "long", "double", "float", "label", "text", "binary", "date", "vector", "tags"])
    schema = pa.schema([column.with_metadata(_metadata(column, encoding)) for column in rows.schema])
    dataset = Dataset.write(uri, rows.cast(schema))
    dataset.scan().to_table()
    dataset.take([5, 70, 4000])


def _metadata(column: pa.Field, encoding: Mapping[str, str]) -> dict[str, str]:
    is_text = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    return {f"lance-encoding:{name}": value for name, value in encoding.items() if value != "fsst" or is_text}


def _change(uri: str, stable: bool) -> None:
    """Write, delete, update, merge, add columns, compact and cluster."""
    rows = common_types()
    dataset = Dataset.write(uri, rows, enable_stable_row_ids=stable)
    for name, kind in (("id", "BTREE"), ("label", "BITMAP"), ("kind", "ZONEMAP")):
        dataset = dataset.create_scalar_index(name, kind)
    dataset = dataset.insert(rows.slice(0, 500))
    dataset = dataset.delete("id % 5 = 1")
    dataset = dataset.delete("id < 300")
    dataset = dataset.update({"long": "long + 1"}, where="id BETWEEN 400 AND 600")
    source = rows.slice(4000).set_column(0, "id", pa.array(range(4500, 5500)))
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)
    Dataset.open(uri).merge_insert(["label", "text"]).when_matched_update_all().execute(rows.slice(700, 100))
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


def _search_by_conditions(uri: str) -> None:
    """Every kind of scalar index, made, extended and asked."""
    rows = common_types()
    dataset = Dataset.write(uri, rows)
    conditions = (
        ("id", "BTREE", "id BETWEEN 100 AND 200"),
        ("label", "BTREE", "label = 'label 3'"),
        ("text", "BTREE", "text LIKE 'some text with the number 12%'"),
        ("double", "BTREE", "double > 2.5"),
        ("timestamp", "BTREE", "timestamp > TIMESTAMP '1990-01-01 00:00:00'"),
        ("decimal", "BTREE", "`decimal` > 5"),
        ("date", "BITMAP", "date = DATE '1970-02-01'"),
        ("kind", "BITMAP", "kind IN ('kind 1', 'kind 2') OR kind IS NULL"),
        ("boolean", "BITMAP", "boolean"),
        ("tags", "LABEL_LIST", "array_contains(tags, 'tag 2')"),
        ("text", "NGRAM", "contains(text, 'number 12')"),
        ("long", "ZONEMAP", "long < 1000000"),
        ("int", "BLOOMFILTER", "int = 7"),
        ("label", "BLOOMFILTER", "label = 'label 4'"),
    )
    for number, (name, kind, _) in enumerate(conditions):
        dataset = dataset.create_scalar_index(name, kind, name=f"index_{number}")
    dataset = dataset.insert(rows.slice(0, 600))
    dataset.optimize.optimize_indices()
    dataset = Dataset.open(uri)
    for _, _, condition in conditions:
        dataset.scan(filter=condition).to_table()
    dataset.scan(filter="id < 400 AND label = 'label 3' AND array_contains(tags, 'tag 2')").to_table()
    dataset.scan(filter="id IN (1, 5, 4000) OR label = 'label 3'", limit=5).to_table()
    dataset.verify()


def _search_texts(uri: str) -> None:
    """Full-text indexes of every tokenizer, with and without positions, and queries of every kind."""
    words = ["lake", "table", "file", "index", "vector", "column", "row", "page", "search", "query", "lance", "spark"]
    rng = np.random.default_rng(0)
    texts = [" ".join(words[n] for n in rng.integers(0, len(words), 3 + i % 30)) + f" {i % 700}" for i in range(2000)]
    rows = pa.table({"id": range(len(texts)), "text": texts, "title": [text[:20] for text in texts]})
    queries: tuple[Any, ...] = (
        "lance",
        "lance table",
        "lance table 77",
        {"match": {"column": "text", "terms": "lance table", "operator": "And"}},
        {"match": {"column": "text", "terms": "lnce tabl", "fuzziness": 1}},
        {"phrase": {"query": "lance table"}},
        {"phrase": {"query": "lance table", "slop": 2}},
    )
    tokenizers = ("simple", "whitespace", "raw", "ngram")
    kinds: list[dict[str, Any]] = [{"with_position": True}, {"block_size": 256}, *({"base_tokenizer": name} for name in tokenizers)]
    for number, options in enumerate(kinds):
        place = f"{uri}-{number}"
        dataset = Dataset.write(place, rows).create_scalar_index("text", "INVERTED", **options)
        asked = queries if number == 0 else queries[:5]
        _ask(dataset, asked)
        dataset = dataset.insert(rows.slice(0, 300)).delete("id % 11 = 3")
        _ask(dataset, asked)
        dataset.optimize.optimize_indices()
        dataset = Dataset.open(place)
        _ask(dataset, asked)
    dataset = Dataset.write(f"{uri}-similar", rows).create_scalar_index("text", "MINHASHLSH", shingle_size=2)
    dataset.scan(["id"], nearest={"column": "text", "q": texts[7], "k": 3}).to_table()
    _ask(Dataset.write(f"{uri}-none", rows), (queries[3],))


def _ask(dataset: Dataset, queries: tuple[Any, ...]) -> None:
    for query in queries:
        dataset.scan(columns=["id"], full_text_query=query, limit=5).to_table()
        dataset.scan(columns=["id"], full_text_query=query, filter="id < 900", prefilter=True, limit=5).to_table()


def _search_vectors(uri: str, value_type: str) -> None:
    """Vector indexes of every kind and metric, and searches with and without them."""
    rng = np.random.default_rng(0)
    count = 1200
    numbers = rng.integers(0, 255, count * _DIMENSIONS) if value_type == "uint8" else rng.standard_normal(count * _DIMENSIONS)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers.astype(value_type)), _DIMENSIONS)
    rows = pa.table({"id": range(count), "vector": vectors})
    kinds = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ")
    metrics: tuple[str, ...] = ("hamming",) if value_type == "uint8" else ("l2", "cosine", "dot")
    dataset = Dataset.write(uri, rows)
    for metric in metrics:
        _find(dataset, vectors, metric)
    if value_type == "float32":
        made: list[tuple[str, dict[str, int]]] = [*((kind, {}) for kind in kinds), ("IVF_PQ", {"num_bits": 4})]
    else:
        made = [("IVF_FLAT", {})] if value_type == "uint8" else [("IVF_FLAT", {}), ("IVF_PQ", {})]
    for number, (kind, options) in enumerate(made):
        for metric in metrics:
            _search_index(f"{uri}-{number}-{metric}", rows, vectors, (kind, metric), options)


def _search_index(
    uri: str, rows: pa.Table, vectors: pa.FixedSizeListArray, kind_and_metric: tuple[str, str], options: Mapping[str, int]
) -> None:
    kind, metric = kind_and_metric
    parameters: dict[str, Any] = {"num_partitions": 4, **options}
    if "PQ" in kind:
        parameters["num_sub_vectors"] = 4
    dataset = Dataset.write(uri, rows).create_index("vector", kind, metric=metric, **parameters)
    _find(dataset, vectors, metric)
    dataset = dataset.insert(rows.slice(0, 300)).delete("id % 11 = 3")
    _find(dataset, vectors, metric)
    dataset.optimize.optimize_indices()
    _find(Dataset.open(uri), vectors, metric)


def _find(dataset: Dataset, vectors: pa.FixedSizeListArray, metric: str) -> None:
    query = np.array(vectors[40].as_py())
    nearest = {"column": "vector", "q": query, "k": 5, "metric": metric, "nprobes": 2}
    dataset.scan(columns=["id"], nearest=nearest).to_table()
    dataset.scan(columns=["id"], nearest={**nearest, "refine_factor": 2}, filter="id < 700", prefilter=True).to_table()
    dataset.scan(columns=["id"], nearest=nearest, filter="id IN (3, 40)", prefilter=True).to_table()
    for count in (2, 32):
        dataset.scan(columns=["id"], nearest={**nearest, "q": np.stack([query] * count)}).to_table()


def common_types() -> pa.Table:
    """Numbers, times, strings, lists, vectors and structs, with and without nulls."""
    rng = np.random.default_rng(0)
    rows, nulls = range(_ROWS), rng.random(_ROWS) < 0.1
    small, large = rng.integers(0, 1000, _ROWS), rng.integers(0, 10**15, _ROWS)
    words = [f"some text with the number {n} in it" for n in large]
    return pa.table(
        {
            "id": rows,
            "run": [i // 100 for i in rows],
            "tinyint": small.astype("int8"),
            "smallint": pa.array(small.astype("int16"), mask=nulls),
            "int": small.astype("int32"),
            "long": pa.array(large, mask=nulls),
            "double": pa.array(rng.standard_normal(_ROWS), mask=nulls),
            "float": rng.standard_normal(_ROWS).astype("float32"),
            "boolean": pa.array(small < 500, mask=nulls),
            "label": [f"label {n % 20}" for n in small],
            "kind": [f"kind {i % 3}" if i % 7 else None for i in rows],
            "text": pa.array(words, mask=nulls),
            "binary": pa.array(words).cast(pa.binary()),
            "date": pa.array(small.astype("int32"), mask=nulls).cast(pa.date32()),
            "timestamp": pa.array(large, pa.timestamp("us", "UTC")),
            "decimal": pa.array(large).cast(pa.decimal128(19, 0)),
            "list": pa.array([None if i % 9 == 0 else [i, None][: i % 3] for i in rows], pa.list_(pa.int64())),
            "tags": [[f"tag {n}" for n in range(i % 4)] for i in rows],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.standard_normal(_ROWS * 8).astype("float32")), 8),
            "struct": pa.StructArray.from_arrays([pa.array(small, mask=nulls), pa.array(words)], ["number", "text"]),
        }
    )


def _nested_types(version: str) -> pa.Table:
    """Structs, lists and maps in each other, unsigned numbers, long values and constants."""
    rng = np.random.default_rng(0)
    count = 2000
    rows = range(count)
    outer = [(i, version == "2.0" or i % 9 > 0) for i in rows]
    numbers = rng.integers(0, 200, count)
    columns: dict[str, Any] = {
        "id": rows,
        "unsigned": numbers.astype("uint8"),
        "unsigned_int": numbers.astype("uint32"),
        "unsigned_long": numbers.astype("uint64"),
        "half": rng.standard_normal(count).astype("float16"),
        "constant": [7] * count,
        "nothing": pa.nulls(count, pa.int32()),
        "ascending": pa.array([i * 3 for i in rows], pa.timestamp("ns")),
        "time": pa.array(numbers, pa.time64("us")),
        "large": pa.array([f"text {i}" for i in rows], pa.large_string()),
        "long": ["long text " * (20 + i % 60) + str(i) for i in rows],
        "bytes": pa.array([bytes([i % 256]) * 16 for i in rows], pa.binary(16)),
        "structs": [[{"n": i, "t": f"t{i % 5}"}] * (i % 3) if i % 8 else None for i in rows],
        "lists": [[[i], [i, i + 1]][: i % 3] for i in rows],
        "outer": [{"inner": {"n": i if i % 4 else None, "tags": ["a", "b"][: i % 3]}} if no_null else None for i, no_null in outer],
    }
    if version in ("2.2", "2.3"):
        columns["map"] = pa.array([[(f"k{n}", n) for n in range(i % 4)] for i in rows], pa.map_(pa.string(), pa.int64()))
        packed = pa.struct([pa.field("n", pa.int32()), pa.field("t", pa.string())])
        columns["packed"] = pa.array([{"n": i, "t": f"t{i}"} for i in rows], packed)
        columns["json"] = pa.array([f'{{"user": {{"id": {i}}}}}' for i in rows], pa.json_())
    made = pa.table(columns)
    fields = [field.with_metadata({"lance-encoding:packed": "true"}) if field.name == "packed" else field for field in made.schema]
    return made.cast(pa.schema(fields))
