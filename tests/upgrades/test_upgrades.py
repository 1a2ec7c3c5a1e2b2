"""Tables and checkpoints that earlier releases made are used by this one (docs/versioning.md)."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset
from lance_spark.inspection.overview import overview
from tests.upgrades.make import FOLDER, VERSIONS, answers, as_json, rows

RELEASES = sorted(FOLDER.glob("*.tar.gz"))


@pytest.fixture(params=RELEASES, ids=lambda path: path.name.removesuffix(".tar.gz"))
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with what a release made."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_there_is_an_archive() -> None:
    assert RELEASES


@pytest.mark.parametrize("version", VERSIONS)
def test_a_table_answers_as_it_did_and_takes_changes(made: Path, version: str) -> None:
    uri = str(made / f"{version}.lance")
    expected = json.loads((made / "expected.json").read_text())[version]
    assert as_json(answers(uri)) == expected
    assert [row["id"] for row in expected["rows"]] == [i for i in range(400) if i % 10 != 3]
    assert Dataset.open(uri).verify().ok
    dataset = Dataset.write(uri, rows(400, 10), "append")
    assert overview(dataset.snapshot).storage_version == version
    dataset.optimize.optimize_indices()
    dataset = Dataset.open(uri).delete("id = 405")
    dataset.optimize.compact_files()
    dataset = Dataset.open(uri)
    assert dataset.count_rows("id BETWEEN 400 AND 409") == 9
    query = {"column": "vector", "q": rows(407, 1)["vector"][0].as_py(), "k": 1}
    found = dataset.scan(["id"], "id >= 400", nearest=query, prefilter=True).to_table()
    assert found["id"].to_pylist() == [407]
    assert dataset.verify().ok


def test_a_stream_goes_on_where_an_earlier_release_stopped(spark: SparkSession, made: Path) -> None:
    source, copy = str(made / "source.lance"), str(made / "copy.lance")
    Dataset.write(source, rows(30, 5), "append")
    stream = spark.readStream.format("lance").load(source).writeStream.format("lance")
    stream = stream.option("checkpointLocation", str(made / "checkpoint"))
    stream.trigger(availableNow=True).start(copy).awaitTermination()
    written = Dataset.open(copy).scan(["id"]).to_table()
    assert sorted(written["id"].to_pylist()) == list(range(35))
    assert written.schema.field("id").type == pa.int64()
