"""Functions of JSON in filters: what Spark and pylance return for the same documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError
from lance_spark.predicate import calculate, parse, parse_formula
from lance_spark.schema.schema import from_arrow

SCHEMA = pa.schema([("id", pa.int64()), ("doc", pa.string())])
DOCUMENTS = r"""
{"a":1} | {"a":1} rest | {"a":1,"a":2} | {"a":null,"a":2} | {"a":{"c":1},"a":{"b":2}} | {"a":1,bad} | {"b":bad,"a":2}
{"a b":7,"a":{"x y":8}} | {"a":1.5} | {"a":100.0} | {"a":1e10} | {"a":1e7} | {"a":0.0001} | {"a":1e400}
{"a":[-1e400,5e-324,-0.0,-0,1.1E2]} | {"a":.5} | {"a":5.} | {"a":12345678901234567890123} | {"a":"x\n\u001f\u00e9\/"}
{"a":["x\n\u001f\u00e9\/\u007f"]} | {"a":{"b":"\ud83d\ude00"}} | {"a":["\ud83d"]} | {"a":["😀"]} | {"a":"😀"}
{"a":[1,2.50,true,null,"q",{"z":[]}]} | {"a":{"b":{"c":[10,[20,30]]}}} | [1,[2,3],{"a":4}] | [null,1] | null | true | 5 | "s"
{"a":} | {"a":1 | {"a":1, | {"a":NaN} | {"a":01} | {"a":+1} | {"":3} | {"A":1} | {"a":[]} | {"a":{}} | {"a":[{"b":null}]}
{"$":1,"*":2} | [{"a":1} | {"a":[1,2 | /**/{"a":1} | {"a":1,} | {"a":tru} | {a:1}
"""
PATHS = r"""
$ | $.a | $.a.b | $.a.b.c[1][0] | $.a[0] | $.a[5] | $[0] | $[1][0] | $[2].a | $['a'] | $['a b'] | $.a b | $['a']['x y'] | $. a
$ .a | $. | $..a | a | $a | $[a] | $.a[-1] | $[ 0] | $[0 ] | $ ['a'] | $.A | $."a" | $.$ | $['']
"""


def listed(text: str) -> list[str]:
    """What is between the bars and the ends of lines."""
    return [item for line in text.strip("\n").split("\n") for item in line.split(" | ")]


def values(text: str, documents: list[str | None]) -> list[Any]:
    """The values of an expression for documents in a column of strings."""
    batch = pa.record_batch([pa.array(range(len(documents)), pa.int64()), pa.array(documents, pa.string())], schema=SCHEMA)
    found: list[Any] = calculate(parse_formula(text, from_arrow(SCHEMA)), batch).to_pylist()
    return found


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def test_get_json_object_is_that_of_spark(spark: SparkSession) -> None:
    deep = "[" * 400 + "]" * 400
    documents: list[str | None] = [*listed(DOCUMENTS), "", "  ", ' {"a":1} rest', '\ufeff{"a":1}', '{"a":"\x01"}', f'{{"a":{deep}}}', None]
    paths = [*listed(PATHS), "", " $.a", "$.a "]
    pairs = [(path, i, document) for path in paths for i, document in enumerate(documents)]
    rows = spark.createDataFrame(pairs, "path string, i int, doc string").coalesce(1).selectExpr("*", "get_json_object(doc, path) AS found")
    theirs = {(row.path, row.i): row.found for row in rows.collect()}
    for path in paths:
        ours = values(f"get_json_object(doc, {quoted(path)})", documents)
        assert dict(enumerate(ours)) == {i: theirs[path, i] for i in range(len(documents))}, path


SCALARS = r"""
1 | "x" | 1.5 | true | false | null | {"b":2} | [1,2] | 12345678901234567890 | "12" | "true" | 2.0 | -0.0 | 1e300 | "" | 3.9
9007199254740993 | -9223372036854775808 | 1e18 | "False" | " 7 " | "1e3" | "0x1" | "inf" | "NaN" | 0 | 0.00001 | 2.5 | -2.5
9.3e18 | "+5" | ".5" | "5." | "1_0" | "9223372036854775808" | "٣" | "yes" | "No" | "t" | "-0" | ["q\"z",true,1.50,null]
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a JSON column, written by pylance."""
    path = tmp_path_factory.mktemp("json") / "t.lance"
    documents = [f'{{"a":{s}}}' for s in listed(SCALARS)]
    documents += ['{"b":{"a":5,"é":"ü\\u0007/","p q":1}}', "[[7],{}]", '{"0":3}', "{}", "5", '{"a":[{"b":null},[8]]}']
    column = pa.array([*documents, None], pa.json_())
    lance.write_dataset(pa.table({"id": range(len(column)), "doc": column}), path)
    return path


CALLS = [
    *(f"json_get_{t}(doc, '{key}')" for t in ("int", "float", "bool", "string") for key in ("a", "0", "1", "b", "$a")),
    *(f"json_{f}(doc, '{p}')" for f in ("extract", "exists", "array_length") for p in ("$.a", "a", "$", "$.a[0].b", "$.a[1][0]", "b.é")),
    *(f"json_extract(doc, '{path}')" for path in ('$["a"]', '$.b["p q"]', '$."a"', "0", " $.a ", ".a", "$:a", "[0][0]")),
    *(f"json_array_contains(doc, '$.a', {quoted(v)})" for v in ("1", "true", "1.5", 'q\\"z', "null")),
]


@pytest.mark.parametrize("call", CALLS)
def test_json_functions_are_those_of_pylance_but_what_cannot_be_converted_is_null(call: str, stored: Path) -> None:
    theirs, rows = lance.dataset(stored), Dataset.open(stored).scan().to_table()
    ours = calculate(parse_formula(call, Dataset.open(stored).snapshot.manifest.schema), rows).to_pylist()
    for i, value in enumerate(ours):
        try:
            (expected,) = theirs.to_table(columns={"x": call.replace("\\\\", "\\")}, filter=f"id = {i}")["x"].to_pylist()
        except ValueError:  # it cannot be converted
            assert value is None
            continue
        assert value == expected or (value != value and expected != expected), rows["doc"][i]


def test_a_path_reaches_nested_values(stored: Path) -> None:
    table = Dataset.open(stored)
    assert table.count_rows("json_get_int(doc, '$.b.a') = 5") == 1
    assert table.count_rows("json_get_int(doc, '$.a[1][0]') = 8") == 1
    assert table.count_rows("json_get_string(doc, '$[\"b\"].é') LIKE 'ü%'") == 1


def test_text_that_is_not_json_is_null() -> None:
    broken: list[str | None] = ["{", "", "{'a': 1}", '{"a": NaN}', "[" * 5000, None]
    for call in ("get_json_object(doc, '$.a')", "json_get_int(doc, 'a')", "json_exists(doc, '$.a')", "json_array_contains(doc, 'a', '1')"):
        assert values(call, broken) == [None] * len(broken)
    assert values("json_get_string(doc, 'a')", [json.dumps({"a": "\ud83d"})]) == [None]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("get_json_object(doc, '$.a[*]') = 'x'", "wildcard"),
        ("get_json_object(doc, '$.*') = 'x'", "wildcard"),
        ("get_json_object(id, '$.a') = 'x'", "needs a column of JSON or of strings"),
        ("get_json_object('{}', '$.a') = 'x'", "needs a column"),
        ("get_json_object(doc, doc) = 'x'", "only strings in quotes"),
        ("get_json_object(doc, NULL) = 'x'", "only strings in quotes"),
        ("json_get_int(doc, 1) = 1", "only strings in quotes"),
        ("json_get_int(doc, '$.a.*') = 1", "is not supported"),
        ("json_extract(doc, '$..a') = '1'", "is not supported"),
        ("json_extract(doc) = '1'", "do not support"),
        ("json_get_int(doc, 'a') = 'x' AND json_get_int(doc, 'a')", "cannot compare|not a condition"),
        (f"json_extract(doc, '${'.a' * 1000}') = '1'", "maximum is 256"),
    ],
)
def test_calls_that_filters_do_not_support_are_refused(condition: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        parse(condition, from_arrow(SCHEMA))
