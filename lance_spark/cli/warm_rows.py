"""The rows with which `warm` works: values of each type, in the shapes that encodings are for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

ROWS = 5000
"""More than one chunk of values, so that the code for several chunks is compiled, too."""
_WORDS = ("uint8", "uint16", "uint32", "uint64")
"""Encodings do not see types, only words of these sizes."""


def common_types() -> pa.Table:
    """Numbers, times, strings, lists, vectors and structs, with and without nulls."""
    rng = np.random.default_rng(0)
    numbers = range(ROWS)
    nulls = rng.random(ROWS) < 0.1
    small = rng.integers(0, 1000, ROWS)
    large = rng.integers(0, 10**15, ROWS)
    texts = [f"some text with the number {n} in it" for n in large]
    lists = [None if i % 9 == 0 else [i, None][: i % 3] for i in numbers]
    coordinates = pa.array(rng.standard_normal(ROWS * 8).astype("float32"))
    structs = [pa.array(small, mask=nulls), pa.array(texts)]
    return pa.table(
        {
            "id": numbers,
            "run": [i // 100 for i in numbers],
            "tinyint": small.astype("int8"),
            "smallint": pa.array(small.astype("int16"), mask=nulls),
            "int": small.astype("int32"),
            "long": pa.array(large, mask=nulls),
            "double": pa.array(rng.standard_normal(ROWS), mask=nulls),
            "float": rng.standard_normal(ROWS).astype("float32"),
            "boolean": pa.array(small < 500, mask=nulls),
            "label": [f"label {n % 20}" for n in small],
            "kind": [f"kind {i % 3}" if i % 7 else None for i in numbers],
            "text": pa.array(texts, mask=nulls),
            "binary": pa.array(texts).cast(pa.binary()),
            "date": pa.array(small.astype("int32"), mask=nulls).cast(pa.date32()),
            "timestamp": pa.array(large, pa.timestamp("us", "UTC")),
            "decimal": pa.array(large).cast(pa.decimal128(19, 0)),
            "list": pa.array(lists, pa.list_(pa.int64())),
            "tags": [[f"tag {n}" for n in range(i % 4)] for i in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(coordinates, 8),
            "struct": pa.StructArray.from_arrays(structs, ["number", "text"]),
        }
    )


def words() -> pa.Table:
    """Words of each size in the shapes that encodings are for, each with and without nulls."""
    rng = np.random.default_rng(0)
    nulls = rng.random(ROWS) < 0.1
    columns: dict[str, Any] = {"id": range(ROWS)}
    for word in _WORDS:
        largest = np.iinfo(word).max
        any_bits = rng.integers(0, largest, ROWS, dtype=word, endpoint=True)
        shapes = {
            "few_bits": rng.integers(0, 6, ROWS),
            "any_bits": any_bits,
            "runs": any_bits[np.arange(ROWS) // 50],
            "long_runs": any_bits[np.arange(ROWS) // 1500],
            "ascending": np.arange(ROWS) // (ROWS // 200),
            "few_distinct": any_bits[rng.integers(0, 20, ROWS)],
            "constant": np.full(ROWS, 7),
        }
        for shape, values in shapes.items():
            columns[f"{word}_{shape}"] = values.astype(word)
            columns[f"{word}_{shape}_or_null"] = pa.array(values.astype(word), mask=nulls)
    return pa.table(columns)


def nested_types(version: str) -> pa.Table:
    """Structs, lists and maps in each other, long values, and rare types that the version has."""
    rng = np.random.default_rng(0)
    count = 2000
    numbers = range(count)
    small = rng.integers(0, 200, count)
    large_list = pa.large_list(pa.int32())
    large_tags = pa.large_list(pa.large_string())
    columns: dict[str, Any] = {
        "id": numbers,
        "half": rng.standard_normal(count).astype("float16"),
        "constant": [7] * count,
        "nothing": pa.nulls(count, pa.int32()),
        "ascending": pa.array([i * 3 for i in numbers], pa.timestamp("ns")),
        "time": pa.array(small, pa.time64("us")),
        "large": pa.array([f"text {i}" for i in numbers], pa.large_string()),
        "large_list": pa.array([[i] * (i % 4) if i % 9 else None for i in numbers], large_list),
        "large_tags": pa.array([[f"tag {i % 8}"] * (i % 3) for i in numbers], large_tags),
        "long": ["long text " * (20 + i % 60) + str(i) for i in numbers],
        "bytes": pa.array([bytes([i % 256]) * 16 for i in numbers], pa.binary(16)),
        "structs": [[{"n": i, "t": f"t{i % 5}"}] * (i % 3) if i % 8 else None for i in numbers],
        "lists": [[[i], [i, i + 1]][: i % 3] for i in numbers],
        "outer": [_outer(i, version) for i in numbers],
    }
    if version != "2.0":
        columns["hidden"] = _hidden_items(count)
    if version in ("2.2", "2.3"):
        columns |= _newer_types(count)
    made = pa.table(columns)
    return made.cast(pa.schema([_as_packed(field) for field in made.schema]))


def _outer(i: int, version: str) -> dict[str, Any] | None:
    """A struct in a struct, which may be null where the version has null structs."""
    if i % 9 == 0 and version != "2.0":
        return None
    return {"inner": {"n": i if i % 4 else None, "tags": ["a", "b"][: i % 3]}}


def _hidden_items(count: int) -> pa.Array:
    """Null structs whose lists have items, which are not stored."""
    is_null = np.arange(count) % 9 == 0
    items = pa.array([[i] * (i % 4) for i in range(count)])
    large_items = items.cast(pa.large_list(pa.int64()))
    names = ["items", "large_items"]
    return pa.StructArray.from_arrays([items, large_items], names, mask=pa.array(is_null))


def _newer_types(count: int) -> dict[str, pa.Array]:
    """What 2.2 brought."""
    numbers = range(count)
    entries = [[(f"k{n}", n) for n in range(i % 4)] for i in numbers]
    packed = pa.struct([("n", pa.int32()), ("t", pa.string()), ("large", pa.large_string())])
    return {
        "map": pa.array(entries, pa.map_(pa.string(), pa.int64())),
        "packed": pa.array([{"n": i, "t": f"t{i}", "large": "t"} for i in numbers], packed),
        "json": pa.array([f'{{"user": {{"id": {i}}}}}' for i in numbers], pa.json_()),
    }


def _as_packed(field: pa.Field) -> pa.Field:
    if field.name != "packed":
        return field
    return field.with_metadata({"lance-encoding:packed": "true"})


def texts_to_search() -> pa.Table:
    """Sentences of few words, each with a number that few others have."""
    rng = np.random.default_rng(0)
    known = [
        "lake",
        "table",
        "file",
        "index",
        "vector",
        "page",
        "search",
        "query",
        "lance",
        "spark",
    ]
    texts = []
    for i in range(2000):
        chosen = [known[n] for n in rng.integers(0, len(known), 3 + i % 30)]
        texts.append(f"{' '.join(chosen)} {i % 700}")
    titles = [text[:20] for text in texts]
    return pa.table({"id": range(len(texts)), "text": texts, "title": titles})


def vectors_to_search(value_type: str) -> pa.Table:
    """Vectors of 16 numbers of a type."""
    rng = np.random.default_rng(0)
    count, dimension = 1200, 16
    numbers = rng.standard_normal(count * dimension)
    if value_type == "uint8":
        numbers = rng.integers(0, 255, count * dimension).astype("float64")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers.astype(value_type)), dimension)
    return pa.table({"id": range(count), "vector": vectors})
