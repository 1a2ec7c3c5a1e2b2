"""Tags and branches are untrusted files: an invalid one does not affect the others."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError

ROWS = pa.table({"a": [1]})
TAG = {"branch": None, "version": 1, "manifestSize": 10}
BRANCH = {"parentBranch": None, "parentVersion": 1, "createAt": 1, "manifestSize": 10}


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    dataset = Dataset.write(str(tmp_path), ROWS)
    dataset.tags.create("good")
    dataset.create_branch("fine/too")
    return Dataset.write(str(tmp_path), ROWS, "append")


def put(dataset: Dataset, path: str, content: str | bytes | Mapping[str, object]) -> None:
    data = content if isinstance(content, str | bytes) else json.dumps(content)
    (Path(dataset.uri) / "_refs" / path).write_bytes(data.encode() if isinstance(data, str) else data)


NONSENSE = {
    "deep": "[" * 100_000,
    "deep object": '{"version":' * 5000,
    "deep metadata": '{"version": 1, "metadata": ' + "[" * 900 + "]" * 900 + "}",
    "no text": b'{"branch": "\xff"}',
    "half a character": '{"branch": null, "version": 1, "metadata": {"\\ud800": "x"}}',
    "a number of many digits": '{"version": ' + "9" * 5000 + "}",
    "a large number": '{"version": 18446744073709551616, "parentVersion": 18446744073709551616}',
    "a negative number": '{"version": -1, "parentVersion": -1}',
    "a fraction": '{"version": 1.5, "parentVersion": 1e400}',
    "nothing": "",
    "a path as branch": '{"branch": "../x", "version": 1, "parentBranch": "/etc", "parentVersion": 1, "createAt": 1}',
    "an empty branch": '{"branch": "", "version": 1, "parentBranch": "", "parentVersion": 1, "createAt": 1}',
}


@pytest.mark.parametrize("content", NONSENSE.values(), ids=NONSENSE.keys())
@pytest.mark.parametrize("folder", ["tags", "branches"])
def test_invalid_ref_files_raise_our_errors(dataset: Dataset, folder: str, content: str | bytes) -> None:
    put(dataset, f"{folder}/bad.json", content)
    listed = getattr(dataset, folder)
    uses = [listed.list, lambda: listed.replace_metadata("bad", {}), dataset.cleanup_old_versions]
    uses += [lambda: Dataset.open(dataset.uri, tag="bad")] if folder == "tags" else [lambda: dataset.create_branch("new")]
    for use in uses:
        with pytest.raises(CorruptFileError, match=r"bad\.json"):
            use()
    assert not dataset.verify().ok
    assert Dataset.open(dataset.uri, tag="good").count_rows() == 1
    if folder == "tags":
        dataset.tags.delete("bad")
        assert dataset.verify().ok


NO_NAMES = ["..%2Fx", "%2Fetc%2Fpasswd", "a%00b", ".", "%", "x.lock", "a b", "%ED%A0%80", os.fsdecode(b"\xff")]


@pytest.mark.parametrize("name", NO_NAMES)
def test_files_with_invalid_ref_names_are_ignored(dataset: Dataset, name: str) -> None:
    put(dataset, f"tags/{name}.json", TAG)
    put(dataset, f"branches/{name}.json", BRANCH)
    assert list(dataset.tags.list()) == ["good"]
    assert list(dataset.branches.list()) == ["fine/too"]
    assert dataset.cleanup_old_versions().old_versions == 0
    assert dataset.verify().ok


def test_the_main_branch_may_be_named(dataset: Dataset) -> None:
    put(dataset, "tags/v1.json", TAG | {"branch": "main"})
    assert dataset.tags.list()["v1"].branch is None
    assert Dataset.open(dataset.uri, tag="v1").version == lance.dataset(dataset.uri).checkout_version("v1").version == 1


@pytest.mark.parametrize("name", ["ü", "日本", "²"])
def test_letters_of_all_languages_are_letters(dataset: Dataset, name: str) -> None:
    theirs = lance.dataset(dataset.uri)
    theirs.create_branch(name)
    assert Dataset.open(dataset.uri, branch=name).count_rows() == 2
    dataset.create_branch(name + "2")
    assert lance.dataset(dataset.uri).checkout_version((name + "2", None)).count_rows() == 2


@pytest.mark.parametrize("name", ["ü", "日本", "²", "Ⅷ", "v1ª"])
def test_a_new_tag_is_one_that_pylance_can_list(dataset: Dataset, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}.*pylance cannot list"):
        dataset.tags.create(name)
    assert list(lance.dataset(dataset.uri).tags.list()) == list(dataset.tags.list()) == ["good"]


def test_a_tag_with_letters_that_are_not_ascii_is_read_moved_and_removed(dataset: Dataset) -> None:
    lance.dataset(dataset.uri).tags.create("日本", 1)
    assert set(dataset.tags.list()) == {"good", "日本"}
    dataset.tags.update("日本", 1)
    assert Dataset.open(dataset.uri, tag="日本").version == dataset.tags.get_version("日本") == 1
    dataset.tags.delete("日本")
    assert list(lance.dataset(dataset.uri).tags.list()) == ["good"]
