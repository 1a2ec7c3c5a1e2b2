"""Options: each has one meaning, and none is ignored silently."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.spark.options.known import IGNORED, OPTIONS, UNBUILT, ReadOptions, SparkWriteOptions, table
from lance_spark.table.feed.options import DESCRIBED as FEED
from lance_spark.table.write.options import DESCRIBED, NO_OPTIONS, WriteOptions

READ: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"version": "3"}, {"version": 3}),
    ({"versionasof": " 3 "}, {"version": 3}),
    ({"tag": "v1"}, {"tag": "v1"}),
    ({"branch": "dev", "version": "2"}, {"branch": "dev", "version": 2}),
    ({"timestamp": "2026-01-31"}, {"timestamp": datetime(2026, 1, 31, tzinfo=UTC)}),
    ({"timestampasof": "2026-01-31T12:00:00Z"}, {"timestamp": datetime(2026, 1, 31, 12, tzinfo=UTC)}),
    ({"asof": "2026-01-31 12:00:00.5+02:00"}, {"timestamp": datetime(2026, 1, 31, 12, 0, 0, 500000, timezone(timedelta(hours=2)))}),
    ({"columns": "a, b.c"}, {"columns": ("a", "b.c")}),
    ({"columns": "`a,b`,c"}, {"columns": ("`a,b`", "c")}),
    ({"columns": '["a,b", "c"]'}, {"columns": ("a,b", "c")}),
    ({"filter": "a > 1"}, {"filter": "a > 1"}),
    ({"limit": "0"}, {"limit": 0}),
    ({"batch_size": "100"}, {"batch_size": 100}),
    ({"with_row_id": "TRUE", "with_row_address": "false"}, {"with_row_id": True, "with_row_address": False}),
    ({"nanoseconds": "Truncate"}, {"nanoseconds": "truncate"}),
    ({"path": "/x"}, {"path": "/x"}),
    ({"paths": '["/x"]'}, {"path": "/x"}),
    ({"storage.endpoint": "http://h"}, {"storage": {"endpoint": "http://h"}}),
    ({"max_rows_per_file": "7"}, {}),
    ({"v.arrow.fixed-size-list.size": "7"}, {}),
    (
        {"option.limit": "3", "limit": "3", "path": "file:/x%20y", "provider": "lance", "owner": "me", "comment": "hi"},
        {"limit": 3, "path": "/x%20y"},
    ),
]


@pytest.mark.parametrize(("given", "meant"), READ, ids=[str(g) for g, _ in READ])
def test_options_of_reading(given: dict[str, str], meant: dict[str, Any]) -> None:
    assert ReadOptions.parse(given) == ReadOptions(**meant)


WRITE: list[tuple[dict[str, str], SparkWriteOptions]] = [
    ({"max_rows_per_file": "7"}, SparkWriteOptions(write=WriteOptions(max_rows_per_file=7))),
    ({"max_row_per_file": "7"}, SparkWriteOptions(write=WriteOptions(max_rows_per_file=7))),
    ({"max_bytes_per_file": "1000"}, SparkWriteOptions(write=WriteOptions(max_bytes_per_file=1000))),
    ({"data_storage_version": "2.1"}, SparkWriteOptions(write=WriteOptions(data_storage_version="2.1"))),
    ({"file_format_version": "2.2"}, SparkWriteOptions(write=WriteOptions(data_storage_version="2.2"))),
    ({"a.b.arrow.fixed-size-list.size": "8"}, SparkWriteOptions(sizes={"a.b": 8})),
    ({"storage.aws_region": "x"}, SparkWriteOptions(write=WriteOptions(storage_options={"aws_region": "x"}))),
    ({"batch_size": "100", "nanoseconds": "error"}, SparkWriteOptions()),
    ({"enable_stable_row_ids": "true"}, SparkWriteOptions(write=WriteOptions(stable_row_ids=True))),
    ({"overwriteSchema": "false", "mergeSchema": "true"}, SparkWriteOptions(write=WriteOptions(overwrite_schema=False, merge_schema=True))),
    (
        {"txnAppId": "job", "txnVersion": "3", "userMetadata": "hi"},
        SparkWriteOptions(write=WriteOptions(txn_app_id="job", txn_version=3, commit_message="hi")),
    ),
    ({"write_mode": "create"}, SparkWriteOptions(write_mode="create")),
]


@pytest.mark.parametrize(("given", "meant"), WRITE, ids=[str(g) for g, _ in WRITE])
def test_options_of_writing(given: dict[str, str], meant: SparkWriteOptions) -> None:
    assert SparkWriteOptions.parse(given) == meant


@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: o.name)
def test_every_option_is_in_the_options_it_is_for(option: Any) -> None:
    own = {o.name for o in DESCRIBED.values()}
    read = ReadOptions.__dataclass_fields__.keys() | {o.name for o in FEED.values()}
    assert ("read" if option.name in read else "") + (
        "write" if option.name in own | SparkWriteOptions.__dataclass_fields__.keys() else ""
    ) == {"both": "readwrite"}.get(option.use, option.use)


def test_the_texts_of_all_options_of_a_write_arrive_in_their_fields() -> None:
    texts = {"count": "7", "flag": "true", "storage version": "2.1", "text": "x", "columns": "a, b"}
    for value, flag in (("true", True), ("false", False)):
        given = {o.name: value if o.kind == "flag" else texts[o.kind] for o in DESCRIBED.values()}
        write = SparkWriteOptions.parse({name.lower(): text for name, text in given.items()}).write
        meant = {"count": 7, "flag": flag, "storage version": "2.1", "text": "x", "columns": ("a", "b")}
        assert {name: getattr(write, name) for name in DESCRIBED} == {name: meant[o.kind] for name, o in DESCRIBED.items()}
    assert SparkWriteOptions.parse({}).write == NO_OPTIONS


@pytest.mark.parametrize(
    "given",
    [
        {"version": "1", "tag": "x"},
        {"version": "1", "timestamp": "2026-01-01"},
        {"tag": "x", "asof": "2026-01-01"},
        {"tag": "x", "branch": "y"},
        {"version": "1", "versionasof": "1"},
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError, match=r"only one of|is given twice"):
        ReadOptions.parse(given)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", "v1"),
        ("version", "0"),
        ("version", "-1"),
        ("version", "9" * 19),
        ("timestamp", "yesterday"),
        ("columns", ""),
        ("columns", "a,,b"),
        ("columns", "[1]"),
        ("columns", "[a"),
        ("columns", "[]"),
        ("limit", "1.5"),
        ("batch_size", "0"),
        ("with_row_id", "yes"),
        ("nanoseconds", "round"),
        ("filter", " "),
        ("data_storage_version", "next"),
        ("max_rows_per_file", "0"),
        ("v.arrow.fixed-size-list.size", "0"),
        ("v.arrow.fixed-size-list.size", str(2**31)),
    ],
)
def test_an_invalid_value_is_refused_with_the_expected_ones(key: str, value: str) -> None:
    with pytest.raises(InvalidOptionError, match=rf"the option '{key}' takes .*, not "):
        ReadOptions.parse({key: value})


@pytest.mark.parametrize("name", UNBUILT)
def test_unimplemented_options_are_named(name: str) -> None:
    for parse in (ReadOptions.parse, SparkWriteOptions.parse):
        with pytest.raises(UnsupportedFeatureError, match=f"'{name}' is not implemented"):
            parse({name.lower(): "x"})


def test_column_options_are_collected_by_key() -> None:
    given = {"v.arrow.float16": "true", "a.b.lance.encoding": "blob", "v.lance.compression-level": "3"}
    assert SparkWriteOptions.parse({"path": "t", **given}).write.column_options == given


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("verison", "did you mean 'version'"),
        ("timestamp_as_of", "did you mean 'timestampAsOf'"),
        ("max_rows_per_fil", "did you mean 'max_rows_per_file'"),
        ("column", "did you mean 'columns'"),
        ("aws_secret_access_key", r"'storage\.aws_secret_access_key'"),
        ("zzzz", r"expected: path, table, namespace, version, "),
    ],
)
def test_an_option_that_does_not_exist_is_an_error_with_a_hint(key: str, hint: str) -> None:
    for parse in (ReadOptions.parse, SparkWriteOptions.parse):
        with pytest.raises(InvalidOptionError, match=hint) as e:
            parse({key: "s3cr3t"})
        assert "s3cr3t" not in str(e.value)


@pytest.mark.parametrize("name", ["version", "tag", "timestamp", "columns", "filter", "limit", "with_row_id"])
def test_a_write_cannot_choose_what_to_read(name: str) -> None:
    value = {"version": "1", "timestamp": "2026-01-01", "limit": "1", "with_row_id": "true"}.get(name, "x")
    with pytest.raises(InvalidOptionError, match=f"{name!r} applies only to reads"):
        SparkWriteOptions.parse({name: value})


def test_performance_options_of_the_jvm_connector_are_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert ReadOptions.parse({name.lower(): "1" for name in IGNORED}) == ReadOptions()
            assert SparkWriteOptions.parse(dict.fromkeys(IGNORED, "1")) == SparkWriteOptions()
    assert len(caplog.records) == len(IGNORED)


def test_several_paths_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match=r"one path, found 2.*union"):
        ReadOptions.parse({"paths": '["/a", "/b"]'})


def test_storage_options_have_an_alias_that_spark_hides() -> None:
    given = {
        "path": "/t",
        "storage.secret.account_key": "a",
        "Storage.Secret.Region": "b",
        "storage.region": "c",
        "storage.secret_access_key": "d",
    }
    for parse in (ReadOptions.parse, SparkWriteOptions.parse):
        assert parse(given).storage == {"account_key": "a", "region": "c", "secret_access_key": "d"}


def test_secrets_are_not_shown() -> None:
    given = {"storage.secret_access_key": "s3cr3t"}
    assert "s3cr3t" not in repr(ReadOptions.parse(given)) + repr(SparkWriteOptions.parse(given))


def test_the_options_page_is_generated_from_the_options() -> None:
    assert table() in (Path(__file__).parents[2] / "docs" / "options.md").read_text()


def test_fragments_are_chosen_by_id() -> None:
    assert ReadOptions.parse({"fragments": "3, 0,12"}).fragments == frozenset({0, 3, 12})
    with pytest.raises(InvalidOptionError, match="fragment ids separated by commas"):
        ReadOptions.parse({"fragments": "all"})
