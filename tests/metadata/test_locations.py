"""Locations: files are only read from the table or its base paths."""

from typing import Any

import pytest

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata.fragment import BasePath, DataFile, DeletionFile, Fragment
from lance_spark.metadata.locations import Locations
from lance_spark.storage.store import Store

BASES = (BasePath(0, "/other/root", True), BasePath(7, "/other/folder", False))


def data_file(path: str, base_id: int | None = None) -> DataFile:
    return DataFile(path, (0,), (0,), base_id=base_id)


def fragment(base_id: int | None) -> Fragment:
    return Fragment(3, (), 10, DeletionFile(True, 5, 8, 1, base_id))


@pytest.mark.parametrize(
    ("base_id", "data", "deletions"),
    [
        (None, ("/table", "data/x.lance"), ("/table", "_deletions/3-5-8.bin")),
        (0, ("/other/root", "data/x.lance"), ("/other/root", "_deletions/3-5-8.bin")),
        (7, ("/other/folder", "x.lance"), ("/other/folder", "3-5-8.bin")),
    ],
)
def test_a_base_path_is_a_root_or_a_plain_folder(base_id: Any, data: Any, deletions: Any) -> None:
    locations = Locations(Store("/table"), BASES)
    for (store, path), expected in (
        (locations.data_file(data_file("x.lance", base_id)), data),
        (locations.deletion_file(fragment(base_id)), deletions),
    ):
        assert (store.uri, path) == expected


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./x", "s3://b/x", "file:/x", "a\\..\\x", "x\0"])
def test_a_path_that_leaves_the_table_is_refused(path: Any) -> None:
    with pytest.raises(CorruptFileError, match="outside of the table"):
        Locations(Store("/table"), BASES).data_file(data_file(path))


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./x", "a\\..\\x", "x\0"])
def test_a_blob_is_below_its_base_path(path: str) -> None:
    locations = Locations(Store("/table"), BASES, allow_other_stores=True)
    store, blob = locations.external_blob("a/b:c.jpg", 7)
    assert (store.uri, blob) == ("/other/folder", "a/b:c.jpg")
    with pytest.raises(CorruptFileError, match="outside of its base path"):
        locations.external_blob(path, 7)
    with pytest.raises(CorruptFileError, match="base path 3 "):
        locations.external_blob("x", 3)


def test_a_base_path_must_be_registered() -> None:
    with pytest.raises(CorruptFileError, match=r"base path 3 .* registered ids: \[0, 7\]"):
        Locations(Store("/table"), BASES).data_file(data_file("x", 3))


@pytest.mark.parametrize("path", ["relative/path", "/a/../b", "", "../x"])
def test_a_base_path_must_be_absolute(path: Any) -> None:
    with pytest.raises(CorruptFileError, match="not absolute"):
        Locations(Store("/table"), (BasePath(0, path, True),)).data_file(data_file("x", 0))


@pytest.mark.parametrize(
    ("table", "base"),
    [("/table", "s3://bucket/x"), ("/table", "memory://x"), ("s3://bucket/t", "s3://other/x"), ("s3://bucket/t", "file:///x")],
)
def test_a_base_path_in_another_store_is_refused_unless_allowed(table: Any, base: Any) -> None:
    bases = (BasePath(0, base, True),)
    with pytest.raises(UnsupportedFeatureError, match="another store"):
        Locations(Store(table), bases).data_file(data_file("x", 0))
    store, _ = Locations(Store(table), bases, allow_other_stores=True).data_file(data_file("x", 0))
    assert store == Store(base)


@pytest.mark.parametrize("base", ["s3://bucket/x/y", "x/y", "/x/y"])
def test_a_base_path_may_omit_the_bucket(base: Any) -> None:
    store, _ = Locations(Store("s3://bucket/t"), (BasePath(0, base, True),)).data_file(data_file("f", 0))
    assert store.uri == "s3://bucket/x/y"
