"""Signatures of texts: the published values, the files that pylance writes, and the distances that it finds in ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.indices import IndexConfig
from lance.query import MinHashQuery

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.file.data_file import open_data_file
from lance_spark.index.minhash.parameters import MinHash, bands_for, new_min_hash
from lance_spark.index.minhash.segment import BANDS, SIGNATURES
from lance_spark.index.minhash.signatures import band_keys, signed
from lance_spark.index.text.build.split import Splitter
from lance_spark.metadata.manifest import serialise

FEW = {"num_hashes": 4, "num_bands": 2, "shingle_size": 2}
WORDS = ["red", "green", "blue", "old", "new", "tree", "house", "Straße", "naïve", "x" * 50, "42"]


def texts(count: int) -> pa.Array:
    """Texts of which some differ in a word, some have no words, and some are null."""
    random = np.random.default_rng(1)
    base = [random.choice(WORDS, 30).tolist() for _ in range(count // 5)]
    found = [" ".join([*words[:k], "other", *words[k:]]) for words in base for k in range(4)]
    return pa.array([*found, *([None, "", " \n", "one"] * (count // 20))])


def signatures(values: pa.Array, how: MinHash) -> tuple[list[int], np.ndarray]:
    parts = list(signed(values, how, Splitter(how.tokenizer)))
    return np.concatenate([places for places, _ in parts]).tolist(), np.concatenate([found for _, found in parts])


def test_the_published_values_are_found() -> None:
    places, found = signatures(pa.array(["The quick brown fox", "", "Fox", None, "  \n"]), new_min_hash(FEW))
    assert places == [0, 2]
    assert found.tolist() == [[0xB00F, 0x59D6, 0x511A, 0xCD2C], [0x2970, 0xD6DB, 0x65F8, 0xADFC]]
    assert band_keys(found, 2).tolist() == [[0x00F30F3501D458EA, 0x01AEC5DF28D04915], [0x003CF6E803312ECA, 0x017C5504FBC83F36]]


@pytest.mark.parametrize("parameters", [{}, FEW, {"num_hashes": 96, "tokenizer": {"base_tokenizer": "whitespace", "stem": True}}])
def test_files_have_the_bytes_of_pylance(parameters: dict[str, Any], tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"text": texts(500)}), uri).create_scalar_index("text", IndexConfig("minhashlsh", parameters), name="a")
    table = Dataset.open(uri).create_scalar_index("text", "MINHASHLSH", name="b", **parameters)
    theirs, ours = table.snapshot.manifest.indexes
    assert (ours.details_type, ours.details, ours.index_version) == (theirs.details_type, theirs.details, theirs.index_version)
    for name in (SIGNATURES, BANDS):
        assert columns(uri, ours.uuid, name) == columns(uri, theirs.uuid, name)


def columns(uri: str, uuid: bytes, name: str) -> tuple[dict[str, Any], dict[bytes, bytes], bytes]:
    """The columns of a file, the metadata, and the last global buffer."""
    table = Dataset.open(uri)
    store, folder = table.snapshot.locations.index_folder(next(i for i in table.snapshot.manifest.indexes if i.uuid == uuid))
    reader = open_data_file(store, f"{folder}/{name}")
    places = {f.id: i for i, f in enumerate(f for f in reader.schema.walk() if f.is_leaf)}
    arrays = list(reader.read(list(reader.schema.fields), places, range(reader.num_rows), 1 << 20))
    found = {f.name: arrays[0][i].to_pylist() for i, f in enumerate(reader.schema.fields)}
    return found, dict(reader.schema.metadata), reader.global_buffer(1) if name == BANDS else b""


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    """A table with an index of ours of two segments: of its first rows, and of later ones."""
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"id": range(260), "text": texts(260)})
    lance.write_dataset(rows.slice(0, 200), uri, enable_stable_row_ids=request.param, max_rows_per_file=100)
    Dataset.open(uri).create_scalar_index("text", "MINHASHLSH", num_hashes=64, num_bands=16, shingle_size=2)
    Dataset.write(uri, rows.slice(200), "append")
    return Dataset.open(uri).optimize.optimize_indices(num_indices_to_merge=0)


def nearest(uri: str, text: str) -> list[tuple[int, float]]:
    found = lance.dataset(uri).to_table(nearest=MinHashQuery(text, "text"), limit=5, columns=["id", "_distance"])
    return sorted(zip(found["id"].to_pylist(), found["_distance"].to_pylist()))


def test_pylance_finds_rows_through_every_change_of_ours(made: Dataset) -> None:
    uri = made.uri
    text = made.to_table(filter="id = 7")["text"][0].as_py()
    before = nearest(uri, text)
    assert min(distance for _, distance in before) == 0
    table = made.delete("id = 3").update({"text": "'nothing'"}, "id = 150")
    gone = {3, 150}
    changes: list[Callable[[], object]] = [
        lambda: table.optimize.compact_files(),
        lambda: Dataset.open(uri).optimize.optimize_indices(num_indices_to_merge=10),
        lambda: Dataset.open(uri).add_columns({"more": "id + 1"}),
    ]
    for change in changes:
        change()
        after = nearest(uri, text)
        assert [row for row in before if row[0] not in gone] == [row for row in after if row in before and row[0] not in gone]
        assert Dataset.open(uri).verify().problems == ()
        lance.dataset(uri).validate()


def test_verification_finds_a_signature_of_another_text(made: Dataset) -> None:
    table = made.add_columns({"other": "concat(text, ' and more')"})
    index = table.snapshot.manifest.indexes[0]
    moved = replace(index, fields=(table.snapshot.manifest.schema.resolve("other")[-1].id,))
    manifest = replace(table.snapshot.manifest, indexes=(moved,))
    path = table.snapshot.path
    Path(table.uri, path).write_bytes(serialise(manifest))
    (problem,) = Dataset.open(table.uri).verify().problems
    assert "has another signature than that of row 0 of fragment 0" in str(problem)


def test_parameters_are_checked() -> None:
    for wrong in (
        {"num_hashes": 5, "num_bands": 2},
        {"num_bands": 300},
        {"shingle_size": 0},
        {"nope": 1},
        {"tokenizer": 3},
        {"num_hashes": "x"},
    ):
        with pytest.raises(InvalidOptionError):
            new_min_hash(wrong)
    with pytest.raises(UnsupportedFeatureError, match="custom_stop_words"):
        new_min_hash({"tokenizer": {"remove_stop_words": True, "custom_stop_words": ["a"]}})


def test_texts_that_are_similar_enough_nearly_always_share_a_band() -> None:
    assert [bands_for(128, similarity) for similarity in (0.95, 0.9, 0.8, 0.5)] == [8, 16, 32, 64]
    assert bands_for(1, 0.1) == 1


def similar(table: Dataset, text: str, **more: Any) -> list[tuple[int, float]]:
    found = table.to_table(["id", "_distance"], nearest={"column": "text", "q": text, "k": 5}, **more)
    assert found["_distance"].to_pylist() == sorted(found["_distance"].to_pylist())
    return sorted(zip(found["id"].to_pylist(), found["_distance"].to_pylist()))


@pytest.mark.parametrize("number", [7, 150, 205])
def test_the_rows_near_a_text_are_those_of_pylance(number: int, made: Dataset) -> None:
    """Of indexed rows, pylance compares those with an equal band alone; ours are the nearest of all."""
    Dataset.write(made.uri, pa.table({"id": range(300, 340), "text": texts(40)}), "append")
    table = Dataset.open(made.uri).delete("id = 8")
    text = table.to_table(filter=f"id = {number}")["text"][0].as_py()
    wanted, found = nearest(made.uri, text), similar(table, text)
    last = max(distance for _, distance in found)
    assert [row for row in wanted if row[1] < last] == [row for row in found if row in wanted and row[1] < last]
    assert {distance for _, distance in wanted} & {0.0} == {distance for _, distance in found} & {0.0} == {0.0}
    assert sum(distance for _, distance in found) <= sum(distance for _, distance in wanted) + (len(found) - len(wanted))


def test_a_search_for_a_text_takes_filters_and_leaves_out_what_is_not_indexed(made: Dataset) -> None:
    text = made.to_table(filter="id = 7")["text"][0].as_py()
    assert 7 in dict(similar(made, text))
    assert 7 not in dict(similar(made, text, filter="id > 7", prefilter=True))
    assert len(similar(made, text, filter="id > 7", prefilter=True)) == 5
    assert {i for i, _ in similar(made, text, filter="id > 7")} == {i for i, _ in similar(made, text)} - {*range(8)}
    appended = made.insert(pa.table({"id": [900], "text": [text]}))
    assert 900 in dict(similar(appended, text))
    assert 900 not in dict(similar(appended, text, fast_search=True))
    assert similar(made, "...") == []
    assert "MINHASHLSH, 2 segments" in made.scan(nearest={"column": "text", "q": text}).explain()
    with pytest.raises(InvalidOptionError, match="no parameter 'nprobes' for a text"):
        made.scan(nearest={"column": "text", "q": text, "nprobes": 3})


def test_a_search_for_a_text_needs_no_index(tmp_path: Path) -> None:
    table = Dataset.write(str(tmp_path / "t.lance"), pa.table({"id": range(60), "text": texts(60)}))
    found = table.to_table(["id"], nearest={"column": "text", "q": table.take([5])["text"][0].as_py(), "k": 1})
    assert found["_distance"].to_pylist() == [0.0]
