"""FM-indexes, of pylance and of ours, find the rows that a scan finds; pylance reads ours."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.indices import IndexConfig

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError
from lance_spark.index.fm.suffixes import suffix_array
from lance_spark.index.fm.tree import BYTES, Shape, branch_bits, bytes_in, huffman, tree_of

ROWS = 400
WORDS = ("rose", "roses", "zoë", "中文", "a b", "", "Rose", "x" * 300, "tab\tline\n", "nul\0end", "😀")
PARTS = ("rose", "os", "ë", "中", "😀", "x" * 200, "s7", "7", "tab\tl", "R", "none of it", "\n")
CONDITIONS = (
    *(f"contains(t, '{part}')" for part in PARTS),
    "contains(t, 'a b')",
    "contains(t, ' ')",
    "contains(t, '')",
    "NOT contains(t, 'rose')",
    "contains(t, 'rose') AND contains(t, 's1')",
    "contains(t, 'zoë') OR contains(t, '中')",
    "contains(t, 'rose') AND id > 50",
    "startswith(t, 'rose')",
    "endswith(t, '77')",
    "t LIKE '%os%7%'",
    "t LIKE 'r_se%'",
    "t = 'roses77'",
    "t IN ('roses77', 'zoë2', '')",
    "t IS NULL",
)


def rows() -> pa.Table:
    texts = [None if i % 23 == 5 else f"{WORDS[i % len(WORDS)]}{i}" if i % 10 else "" for i in range(ROWS)]
    return pa.table({"id": range(ROWS), "t": texts})


@pytest.fixture(scope="module", params=["ours", "pylance"])
def indexed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fm") / "t"
    lance.write_dataset(rows(), path, max_rows_per_file=150).delete("id % 31 = 4")
    if request.param == "ours":
        Dataset.open(path).create_scalar_index("t", "FM")
    else:
        lance.dataset(path).create_scalar_index("t", IndexConfig("fm", {}))
    return path


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_rows_are_those_of_a_scan(indexed: Path, condition: str) -> None:
    table = Dataset.open(indexed)
    scanned = table.scan(columns=["id"], filter=condition, use_scalar_index=False).to_table()
    assert table.scan(columns=["id"], filter=condition).to_table() == scanned
    assert table.count_rows(condition) == len(scanned)


def test_the_index_is_used_and_only_spaces_are_checked(indexed: Path) -> None:
    table = Dataset.open(indexed)
    exact = table.scan(filter="contains(t, 'rose')").explain()
    assert "indexes: t_idx (FM)" in exact
    assert "; 0 of them are checked by the filter" in exact
    assert "; 0 of them are checked" not in table.scan(filter="contains(t, 'a b')").explain()


@pytest.mark.parametrize("part", PARTS)
def test_pylance_finds_the_same_rows(indexed: Path, part: str) -> None:
    theirs, condition = lance.dataset(indexed), f"contains(t, '{part}')"
    assert "ScalarIndexQuery" in theirs.scanner(filter=condition).explain_plan()
    found = theirs.to_table(columns=["id"], filter=condition)["id"].to_pylist()
    assert sorted(found) == Dataset.open(indexed).scan(columns=["id"], filter=condition).to_table()["id"].to_pylist()


def test_ours_has_the_metadata_of_pylances(tmp_path: Path) -> None:
    found = []
    for maker in ("ours", "pylance"):
        lance.write_dataset(rows(), tmp_path / maker)
        if maker == "ours":
            Dataset.open(tmp_path / maker).create_scalar_index("t", "FM")
        else:
            lance.dataset(tmp_path / maker).create_scalar_index("t", IndexConfig("fm", {}))
        (file,) = (tmp_path / maker).glob("_indices/*/part_0_fm.lance")
        found.append(lance.file.LanceFileReader(str(file)).metadata().schema.metadata)
    ours, theirs = found
    same = ("bwt_len", "c_table", "doc_start_positions", "row_ids", "sa_sample_rate", "sa_samples_len", "num_bwt_nodes", "alphabet_size")
    assert {key: ours[key.encode()] for key in same} == {key: theirs[key.encode()] for key in same}
    assert theirs.keys() - ours.keys() == {b"partition_fingerprint"}


@given(st.binary(max_size=80), st.integers(1, 30))
def test_suffixes_are_in_order(text: bytes, times: int) -> None:
    whole = text.replace(b"\0", b" ") * times + b"\0"
    expected = sorted(range(len(whole)), key=lambda place: whole[place:])
    assert suffix_array(np.frombuffer(whole, np.uint8)).tolist() == expected


@given(st.binary(max_size=200))
def test_a_tree_has_the_bytes_that_it_was_made_of(text: bytes) -> None:
    given_bytes = np.frombuffer(text, np.uint8)
    shape = huffman(np.bincount(given_bytes, minlength=BYTES))
    bits = branch_bits(shape, given_bytes, "the test")
    words = [np.packbits(np.append(own, np.zeros(-len(own) % 64, bool)), bitorder="little").view(np.uint64) for own in bits]
    lengths = np.array([len(own) for own in bits], np.int64)
    tree, counts = tree_of(shape, words, lengths, "the test")
    assert bytes_in(tree, lengths).tobytes() == text
    assert counts.tolist() == np.bincount(given_bytes, minlength=BYTES).tolist()


@pytest.mark.parametrize(
    "branches",
    [
        [[0, -2]],
        [[1, -2]],
        [[1, 1], [-2, -3]],
        [[-2, -2]],
        [[-2, -3], [-4, -5]],
    ],
    ids=["itself", "a node that is not there", "twice", "a byte twice", "without a parent"],
)
def test_what_is_no_tree_is_damage(branches: list[list[int]]) -> None:
    with pytest.raises(CorruptFileError):
        Shape(np.array(branches, np.int64)).codes("the file")


def test_nodes_have_as_many_bits_as_their_parents_say() -> None:
    shape = Shape(np.array([[1, -2], [-3, -4]], np.int64))
    with pytest.raises(CorruptFileError, match="node 1 of the index has 9 bits, but its parent says 3"):
        tree_of(shape, [np.zeros(1, np.uint64), np.zeros(1, np.uint64)], np.array([3, 9]), "the file")
