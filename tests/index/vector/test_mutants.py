"""Flipped bits and cut ends in the files of vector indexes: a search raises our error, or finds rows of the table at their distances."""

from __future__ import annotations

import random
import shutil
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings

from lance_spark import Dataset
from lance_spark.errors import LanceError

FULL = settings().max_examples > 100
ROWS, DIMENSIONS, K = 600, 16, 10
OLD = Path(__file__).parent.parent / "golden" / "ivf_pq_cosine_0_16_1.lance"
KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 4},
    "IVF_SQ": {},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_SQ": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 4},
    "IVF_RQ": {},
}


@pytest.fixture(scope="module", params=[*KINDS, "old"])
def indexed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two fragments with a vector index."""
    path = tmp_path_factory.mktemp("mutants") / "t.lance"
    if request.param == "old":
        shutil.copytree(OLD, path)
        return path
    vectors = np.random.default_rng(2).normal(size=(ROWS, DIMENSIONS)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSIONS)
    lance.write_dataset(pa.table({"id": range(ROWS), "vec": column}), path, max_rows_per_file=ROWS // 2)
    lance.dataset(path).create_index("vec", request.param, metric="l2", num_partitions=2, **KINDS[request.param])
    return path


def flip(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def flip_near_the_end(data: bytearray, rng: random.Random) -> None:
    """Where the metadata are."""
    data[len(data) - 1 - rng.randrange(min(len(data), 1500))] ^= 1 << rng.randrange(8)


def cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


@pytest.mark.matrix
@pytest.mark.parametrize("change", [flip, flip_near_the_end, cut])
def test_a_changed_file_gives_an_error_or_rows_of_the_table(indexed: Path, change: Any) -> None:
    table = Dataset.open(indexed)
    manifest = table.snapshot.manifest
    rows = table.scan(columns=["id", "vec"]).to_table()
    vectors = np.array(rows["vec"].to_pylist(), np.float32)
    query = vectors[3] + np.float32(0.1)
    metric = "cosine" if len(vectors) == 400 else "l2"
    near = {"column": "vec", "q": query, "k": K, "metric": metric, "nprobes": 2, "refine_factor": 2}
    exact = ((vectors - query) ** 2).sum(axis=1)
    if metric == "cosine":
        exact = 1 - vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    folder = indexed / "_indices" / str(uuid.UUID(bytes=manifest.indexes[0].uuid))
    rng = random.Random(change.__name__)
    for _ in range(200 if FULL else 10):
        renamed = replace(manifest.indexes[0], uuid=uuid.UUID(int=rng.getrandbits(128)).bytes, files=())
        other = folder.with_name(str(uuid.UUID(bytes=renamed.uuid)))
        shutil.copytree(folder, other)
        path = rng.choice(sorted(other.iterdir()))
        data = bytearray(path.read_bytes())
        change(data, rng)
        path.write_bytes(data)
        mutant = Dataset(replace(table.snapshot, manifest=replace(manifest, indexes=(renamed,))))
        try:
            found = mutant.scan(columns=["id"], nearest=near).to_table()
        except LanceError:
            continue
        finally:
            shutil.rmtree(other)
        ids, distances = found["id"].to_numpy(), found["_distance"].to_numpy()
        assert len(set(ids.tolist())) == len(ids) <= K
        np.testing.assert_allclose(distances, exact[ids], rtol=1e-4, atol=1e-5)
        assert (np.diff(distances) >= 0).all()
