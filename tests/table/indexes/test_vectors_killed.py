"""A writer may be killed at any moment while it makes or keeps a vector index, though others change the table: searches stay right."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest

from lance_spark import Dataset
from tests import programs
from tests.sample import others_slow
from tests.table.crash import CHANGES
from tests.table.search.vectors import table, vectors

ROWS = 180
VALUES = vectors(rows=ROWS)
OTHERS: list[Callable[[Any], object]] = [
    lambda client: client.delete("id % 5 = 2"),
    lambda client: client.optimize.compact_files(),
    lambda client: client.optimize.optimize_indices(),
]
"""What is done between a killed change and its repetition."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of four fragments; an index covers three of them."""
    path = tmp_path_factory.mktemp("killed") / "template"
    Dataset.write(path, table(VALUES[:150]), max_rows_per_file=50).delete("id % 9 = 4")
    Dataset.open(path).create_index("vec", "IVF_PQ", name="old", num_partitions=2, num_sub_vectors=4, num_bits=4)
    Dataset.write(path, table(VALUES[150:], first=150), mode="append")
    return path


def check(uri: str) -> list[object]:
    """Both find the rows of a search without indexes; nothing is damaged. Returns the rows and what the indexes cover."""
    ours, theirs = Dataset.open(uri), lance.dataset(uri)
    theirs.validate()
    assert ours.verify().problems == ()
    for q in VALUES[30:32]:
        near = {"column": "vec", "q": q, "k": 8, "nprobes": 4, "refine_factor": 40}
        exact = ours.scan(columns=["id"], nearest={**near, "use_index": False}).to_table()
        for found in (ours.scan(columns=["id"], nearest=near).to_table(), theirs.to_table(columns=["id"], nearest=near)):
            np.testing.assert_allclose(found["_distance"].to_numpy(), exact["_distance"].to_numpy(), rtol=1e-4, atol=1e-3)
    ids = ours.scan(columns=["id"]).to_table()["id"].to_pylist()
    covered = sorted((i["name"], i["type"], sorted(i["fragment_ids"])) for i in ours.list_indices())
    return [ids, *covered, len(theirs.get_fragments())]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "first", "step"),
    others_slow(
        [
            ("create_vector_index", 1, 7),
            ("optimize_indices", 1, 7),
            ("retrain_vector_index", 1, 7),
            ("compact_with_indexes", 1, 7),
            ("create_vector_index_meanwhile", 1, 21),
            ("create_vector_index_meanwhile", 8, 21),
            ("create_vector_index_meanwhile", 15, 21),
        ],
        [("create_vector_index_meanwhile", 1, 21)],
    ),
)
def test_a_killed_change_of_a_vector_index_is_applied_or_not_and_can_be_repeated(
    name: str, first: int, step: int, template: Path, tmp_path: Path
) -> None:
    """Whatever this package or pylance does between."""
    killed = int(programs.run("tests.table.crash", name, str(template), str(tmp_path), str(step), str(first)))
    assert killed * step >= 35
    before, after = check(str(template)), check(str(tmp_path / str(killed * step + first)))
    assert before != after
    for number in range(killed):
        uri = str(tmp_path / str(number * step + first))
        found = check(uri)
        assert name.endswith("meanwhile") or found in (before, after)
        for opened in (Dataset.open, lance.dataset)[:: 1 if number % 2 else -1]:
            OTHERS[number % 3](opened(uri))
            check(uri)
        CHANGES[name](uri)
        check(uri)
        Dataset.open(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
        assert Dataset.open(uri).verify().orphans == ()
        check(uri)
        shutil.rmtree(uri)
