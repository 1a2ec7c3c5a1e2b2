"""IVF_PQ indexes of the old format, from ../golden/: pylance 0.16.1 wrote them, and pylance still uses them."""

from __future__ import annotations

import logging
import shutil
import struct
from pathlib import Path

import lance
import numpy as np
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError
from tests.table.search.vectors import same

GOLDEN = Path(__file__).parent.parent / "golden"
NAMES = ("ivf_pq_cosine_0_16_1", "ivf_pq_dot_0_16_1")


def query(table: Dataset) -> np.ndarray:
    found = table.scan(columns=["vec"], filter="id = 3").to_table()["vec"].to_pylist()[0]
    return np.asarray(found, np.float32) + np.float32(0.25)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("search", [{"nprobes": 1}, {"nprobes": 2}, {"nprobes": 2, "refine_factor": 3}])
def test_the_rows_are_those_of_pylance(name: str, search: dict[str, int], caplog: pytest.LogCaptureFixture) -> None:
    table = Dataset.open(GOLDEN / f"{name}.lance")
    near = {"column": "vec", "q": query(table), "k": 20, **search}
    with caplog.at_level(logging.WARNING):
        assert "index: vec_idx (IVF_PQ), a segment of 400 rows in 3 fragments" in table.scan(nearest=near).explain()
    assert not caplog.records
    theirs = lance.dataset(GOLDEN / f"{name}.lance").to_table(columns=["id"], nearest=near)
    same(table.scan(columns=["id"], nearest=near).to_table(), theirs)


def test_deleted_rows_are_not_found(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / f"{NAMES[0]}.lance", tmp_path / "t")
    Dataset.open(tmp_path / "t").delete("id % 3 = 0")
    table = Dataset.open(tmp_path / "t")
    near = {"column": "vec", "q": query(Dataset.open(GOLDEN / f"{NAMES[0]}.lance")), "k": 20, "nprobes": 2}
    ours = table.scan(columns=["id"], nearest=near).to_table()
    assert not any(i % 3 == 0 for i in ours["id"].to_pylist())
    same(ours, lance.dataset(tmp_path / "t").to_table(columns=["id"], nearest=near))


@pytest.mark.parametrize(
    ("start", "change"),
    [
        (-16, struct.pack("<Q", 1 << 60)),  # the position of the metadata
        (-16, struct.pack("<Q", 3)),
        (-12, b"\xff\xff"),
        (-8, b"\7\0"),  # the version
        (-4, b"LONC"),
        (None, b""),  # nothing
    ],
)
def test_a_damaged_index_is_not_used(tmp_path: Path, start: int | None, change: bytes, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(GOLDEN / f"{NAMES[0]}.lance", tmp_path / "t")
    (path,) = tmp_path.glob("t/_indices/*/index.idx")
    data = bytearray(path.read_bytes())
    if start is None:
        data = bytearray()
    else:
        data[len(data) + start : len(data) + start + len(change)] = change
    path.write_bytes(data)
    table = Dataset.open(tmp_path / "t")
    near = {"column": "vec", "q": query(table), "k": 20}
    with pytest.raises(CorruptFileError, match="give the parameter 'metric'"):
        table.scan(nearest=near).to_table()
    near["metric"] = "l2"
    with caplog.at_level(logging.WARNING):
        found = table.scan(columns=["id"], nearest=near).to_table()
    same(found, table.scan(columns=["id"], nearest={**near, "use_index": False}).to_table())
    assert "a segment of index 'vec_idx' is not used" in caplog.text
