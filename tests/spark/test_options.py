"""Options: each has one meaning, and none is ignored silently."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.options.field import NotWith, Option, options_of, used
from lance_spark.options.values import Kind
from lance_spark.spark.options import functions
from lance_spark.spark.options.known import CLASSES, KNOWN, parse_options
from lance_spark.spark.options.others import IGNORED, UNBUILT
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.table.feed.options import FeedOptions
from lance_spark.table.write.bases import DatasetBasePath
from lance_spark.table.write.options import WriteOptions
from tests.pages import DOCS, page

PARSERS: tuple[Callable[[dict[str, str]], ReadOptions | SparkWriteOptions], ...] = (
    partial(parse_options, ReadOptions),
    partial(parse_options, SparkWriteOptions),
)
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
    assert parse_options(ReadOptions, given) == ReadOptions(**meant)


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
    (
        {"target_bases": "a,.", "allow_other_stores": "true"},
        SparkWriteOptions(write=WriteOptions(target_bases=("a", "."), allow_other_stores=True)),
    ),
    ({"write_mode": "create"}, SparkWriteOptions(write_mode="create")),
]


@pytest.mark.parametrize(("given", "meant"), WRITE, ids=[str(g) for g, _ in WRITE])
def test_options_of_writing(given: dict[str, str], meant: SparkWriteOptions) -> None:
    assert parse_options(SparkWriteOptions, given) == meant


TEXTS: dict[Kind, tuple[str, Any]] = {
    "text": ("x y", "x y"),
    "count": (" 7 ", 7),
    "share": ("0.25", 0.25),
    "moment": ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
    "duration": ("2days", timedelta(days=2)),
    "new tag": ("a-1", "a-1"),
    "columns": ("a, b", ("a", "b")),
    "fragments": ("1, 0", frozenset({0, 1})),
    "id": ("a.`b.c`", ("a", "b.c")),
    "storage version": ("2.1", "2.1"),
    "JSON": ('{"k": 1}', {"k": 1}),
    "words or JSON": ("some words", "some words"),
    "bases": ('[{"path": "/tmp/a", "name": "a"}]', (DatasetBasePath("/tmp/a", "a"),)),
}
BESIDE = {
    "namespace": {"table": "t"},
    "txnAppId": {"txnVersion": "1"},
    "txnVersion": {"txnAppId": "job"},
    **{name: {"fullTextQuery": "x"} for name in used(ReadOptions, "of search")},
}
"""What must be given, too."""


def texts_of(option: Option) -> list[tuple[str, Any]]:
    """Texts of an option, and their values."""
    if option.kind == "flag":
        return [("true", True), ("FALSE", False)]
    words = [(word.upper(), word) for word in option.words]
    return words if option.kind == "word" else [TEXTS[option.kind], *words]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_texts_of_all_options_arrive_in_their_fields(cls: type) -> None:
    for field, option in options_of(cls).items():
        for name in option.names:
            for text, meant in texts_of(option):
                given = {name.lower(): text, **BESIDE.get(option.name, {})}
                read = parse_options(ReadOptions, given)
                found = {ReadOptions: read, FeedOptions: read.feed}.get(cls)
                if found is None:
                    write = parse_options(SparkWriteOptions, given)
                    found = write if cls is SparkWriteOptions else write.write
                assert getattr(found, field) == meant, (name, text)


def test_the_names_of_options_are_unique() -> None:
    names = [name.lower() for option in KNOWN.values() for name in option.names]
    assert len(names) == len(set(names))
    assert not {*names} & {name.lower() for name in (*IGNORED, *UNBUILT)}


def test_an_option_of_reads_and_writes_is_said_alike() -> None:
    for cls in CLASSES:
        for option in options_of(cls).values():
            known = KNOWN[option.name]
            assert (option.kind, option.help, option.names) == (known.kind, known.help, known.names)


RULES = [(option, rule, other) for option in KNOWN.values() for rule in option.not_with for other in rule.others]


@pytest.mark.parametrize(("option", "rule", "other"), RULES, ids=lambda value: getattr(value, "name", str(value)))
def test_options_that_cannot_be_combined_are_named(option: Option, rule: NotWith, other: str) -> None:
    given = {name: texts_of(KNOWN[name])[0][0] for name in (option.name, other)}
    with pytest.raises(InvalidOptionError, match=f"{option.name}.*{other}.*{rule.because or rule.advice}"):
        parse_options(ReadOptions, given)
    if option.kind == "flag":
        assert parse_options(ReadOptions, {**given, option.name: "false"})


@pytest.mark.parametrize("name", used(FeedOptions, "batch"))
def test_a_stream_has_no_end(name: str) -> None:
    read = parse_options(ReadOptions, {name: texts_of(KNOWN[name])[0][0]})
    with pytest.raises(InvalidOptionError, match=f"{name!r} does not apply to readStream"):
        read.check_stream()


@pytest.mark.parametrize(
    "given",
    [
        {"version": "1", "tag": "x"},
        {"version": "1", "timestamp": "2026-01-01"},
        {"tag": "x", "asof": "2026-01-01"},
        {"tag": "x", "branch": "y"},
        {"version": "1", "versionasof": "1"},
        {"path": "/a", "paths": '["/b"]'},
        {"paths": '["/b"]', "path": "/a"},
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError, match=r"only one of|is given twice"):
        parse_options(ReadOptions, given)


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
        parse_options(ReadOptions, {key: value})


@pytest.mark.parametrize("name", UNBUILT)
def test_unimplemented_options_are_named(name: str) -> None:
    for parse in PARSERS:
        with pytest.raises(UnsupportedFeatureError, match=f"'{name}' is not implemented"):
            parse({name.lower(): "x"})


def test_column_options_are_collected_by_key() -> None:
    given = {"v.arrow.float16": "true", "a.b.lance.encoding": "blob", "v.lance.compression-level": "3"}
    assert parse_options(SparkWriteOptions, {"path": "t", **given}).write.column_options == given


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
    for parse in PARSERS:
        with pytest.raises(InvalidOptionError, match=hint) as e:
            parse({key: "s3cr3t"})
        assert "s3cr3t" not in str(e.value)


@pytest.mark.parametrize("name", ["version", "tag", "timestamp", "columns", "filter", "limit", "with_row_id"])
def test_a_write_cannot_choose_what_to_read(name: str) -> None:
    value = {"version": "1", "timestamp": "2026-01-01", "limit": "1", "with_row_id": "true"}.get(name, "x")
    with pytest.raises(InvalidOptionError, match=f"{name!r} applies only to reads"):
        parse_options(SparkWriteOptions, {name: value})


def test_performance_options_of_the_jvm_connector_are_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert parse_options(ReadOptions, {name.lower(): "1" for name in IGNORED}) == ReadOptions()
            assert parse_options(SparkWriteOptions, dict.fromkeys(IGNORED, "1")) == SparkWriteOptions()
    assert len(caplog.records) == len(IGNORED)


def test_several_paths_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match=r"one path, found 2.*union"):
        parse_options(ReadOptions, {"paths": '["/a", "/b"]'})


def test_storage_options_have_an_alias_that_spark_hides() -> None:
    given = {
        "path": "/t",
        "storage.secret.account_key": "a",
        "Storage.Secret.Region": "b",
        "storage.region": "c",
        "storage.secret_access_key": "d",
    }
    for parse in PARSERS:
        assert parse(given).storage == {"account_key": "a", "region": "c", "secret_access_key": "d"}


def test_secrets_are_not_shown() -> None:
    given = {"storage.secret_access_key": "s3cr3t"}
    assert "s3cr3t" not in repr(parse_options(ReadOptions, given)) + repr(parse_options(SparkWriteOptions, given))


def test_the_options_page_is_generated_from_the_options() -> None:
    assert (DOCS / "options.md").read_text() == page("options.md"), "run `make pages`"


def test_fragments_are_chosen_by_id() -> None:
    assert parse_options(ReadOptions, {"fragments": "3, 0,12"}).fragments == frozenset({0, 3, 12})
    with pytest.raises(InvalidOptionError, match="fragment ids separated by commas"):
        parse_options(ReadOptions, {"fragments": "all"})


def test_arguments_of_table_functions_that_have_the_names_of_options_have_their_meaning() -> None:
    assert {*functions._READ, *functions._CHANGES.values()} <= KNOWN.keys()
    assert {*functions._NEAREST} >= {*used(ReadOptions, "join")}
