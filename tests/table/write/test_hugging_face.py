"""`Dataset.write` takes datasets of Hugging Face. `make test-loaders` installs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_spark import Dataset

datasets = pytest.importorskip("datasets", reason="make test-loaders installs it, in an environment of its own")


def rows() -> Any:
    return datasets.Dataset.from_dict({"id": [1, 2, 3], "text": ["a", "b", None]})


SOURCES: dict[str, Callable[[], Any]] = {
    "as it is": rows,
    "in another order": lambda: rows().select([2, 0, 1]),
    "filtered": lambda: rows().filter(lambda sample: sample["id"] != 2),
    "in another format": lambda: rows().with_format("numpy"),
    "streaming": lambda: rows().to_iterable_dataset(),
    "streaming, mapped": lambda: rows().select([1, 0]).to_iterable_dataset().map(lambda sample: {"id": sample["id"] * 2}),
    "without rows": lambda: rows().select([]),
}


@pytest.mark.parametrize("name", SOURCES)
def test_rows_are_written_in_their_order(tmp_path: Path, name: str) -> None:
    written = Dataset.write(tmp_path / "t", SOURCES[name]())
    assert written.to_table().to_pylist() == [*SOURCES[name]().with_format(None)]
    assert written.schema.field("text").type == pa.string()


def test_vectors_and_images_are_what_they_are_in_arrow(tmp_path: Path) -> None:
    features = datasets.Features({"vector": datasets.Sequence(datasets.Value("float32"), length=2), "image": datasets.Image(decode=False)})
    samples = {"vector": [[1.0, 2.0]], "image": [{"bytes": b"png", "path": None}]}
    written = Dataset.write(tmp_path / "t", datasets.Dataset.from_dict(samples, features=features))
    assert written.schema.field("vector").type == pa.list_(pa.float32(), 2)
    assert written.to_table()["image"].to_pylist() == samples["image"]


def test_splits_are_written_one_by_one(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"of its values, which are datasets.*Dataset, write one"):
        Dataset.write(tmp_path / "t", datasets.DatasetDict(train=rows()))
