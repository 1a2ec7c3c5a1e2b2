"""Indexes are listed with the names of pylance: every kind, also those that we do not read, and the table's own."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.metadata.operations import CreateIndex
from lance_spark.metadata.transaction import Transaction
from lance_spark.table.commit.commit import commit

pytestmark = pytest.mark.filterwarnings("ignore:The .list_indices. method is deprecated:DeprecationWarning")

ROWS = 300
VECTORS = ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ", "IVF_RQ"]
SCALARS = [("id", "BTREE"), ("s", "BITMAP"), ("l", "LABEL_LIST"), ("s", "INVERTED"), ("id", "ZONEMAP"), ("s", "NGRAM"), ("st.x", "BTREE")]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with an index of every kind, compacted with a fragment reuse index."""
    uri = str(tmp_path_factory.mktemp("listing"))
    numbers = np.random.default_rng(0).random(ROWS * 8, dtype=np.float32)
    columns = {
        "id": pa.array(range(ROWS)),
        "s": pa.array(["a b c"] * ROWS),
        "l": pa.array([["x", "y"]] * ROWS),
        "st": pa.array([{"x": i} for i in range(ROWS)]),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(numbers), 8),
        "doc": pa.array(['{"n": 1}'] * ROWS, pa.json_()),
    }
    dataset = lance.write_dataset(pa.table(columns), uri, max_rows_per_file=100, data_storage_version="2.2")
    for i, (column, kind) in enumerate(SCALARS):
        dataset.create_scalar_index(column, kind, name=f"i{i}")
    dataset.create_scalar_index("id", "BLOOMFILTER", name="bloom")
    for kind in VECTORS:
        subs = {"num_sub_vectors": 2} if kind.endswith("PQ") else {}
        dataset.create_index("v", kind, name=kind.lower(), num_partitions=2, **subs)
    Dataset.open(uri).create_scalar_index("doc", "JSON", name="of_doc", path="$.n")
    lance.dataset(uri).optimize.compact_files(defer_index_remap=True)
    return uri


def listed(uri: str) -> dict[str, object]:
    return {i["uuid"]: (i["name"], i["type"], i["fields"], i["version"], i["fragment_ids"]) for i in Dataset.open(uri).list_indices()}


def listed_by_pylance(uri: str) -> dict[str, object]:
    found = lance.dataset(uri).list_indices()
    return {i["uuid"]: (i["name"], i["type"], i["fields"], i["version"], set(i["fragment_ids"])) for i in found}


def test_every_index_is_listed_as_pylance_lists_it(everything: str) -> None:
    assert listed(everything) == listed_by_pylance(everything)
    types = {i["type"] for i in Dataset.open(everything).list_indices()}
    assert {*VECTORS, "BTree", "LabelList", "Inverted", "Json", "FragmentReuse"} <= types


def test_the_kind_of_a_vector_index_that_only_its_file_tells(everything: str) -> None:
    snapshot = Dataset.open(everything).snapshot
    old = tuple(i for i in snapshot.manifest.indexes if i.name in ("ivf_pq", "ivf_hnsw_sq"))
    new = tuple(replace(i, details=b"") for i in old)
    commit(snapshot.store, Transaction(snapshot.version, CreateIndex(new, old)), base=snapshot)
    assert listed(everything) == listed_by_pylance(everything)
    (broken,) = (i for i in new if i.name == "ivf_pq")
    (Path(everything) / "_indices" / str(uuid.UUID(bytes=broken.uuid)) / "index.idx").write_bytes(b"damaged")
    assert {i["name"]: i["type"] for i in Dataset.open(everything).list_indices()}["ivf_pq"] == "Vector"


def test_the_index_of_a_write_ahead_log_is_listed(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": [1]}), tmp_path).initialize_mem_wal()
    assert [(i["name"], i["type"]) for i in Dataset.open(tmp_path).list_indices()] == [("__lance_mem_wal", "MemWal")]
    assert listed(str(tmp_path)) == listed_by_pylance(str(tmp_path))
