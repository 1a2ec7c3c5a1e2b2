"""JSONB: text and bytes match pylance, and invalid bytes raise our errors."""

import contextlib
import json
import math
import struct
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.arrow.jsonb import from_text, to_text
from lance_spark.dataset import Dataset
from lance_spark.errors import CorruptFileError, SchemaMismatchError, UnsupportedFeatureError

# The specification's vectors, and its limits.
CASES = {
    "null": ("null", "2000000000000000"),
    "true": ("true", "2000000040000000"),
    "false": ("false", "2000000030000000"),
    "zero": ("0", "200000002000000100"),
    "negative zero": ("-0.0", "2000000020000009608000000000000000"),
    "string": ('"a"', "200000001000000161"),
    "array": ("[1,2,3]", "80000003200000022000000220000002500150025003"),
    "object": ('{"a":2,"b":1}', "4000000210000001100000012000000220000002616250025001"),
    "nested": ("[1,[2,[3]]]", "800000022000000250000018500180000002200000025000000a500280000001200000025003"),
    "empty array": ("[]", "80000000"),
    "empty object": ("{}", "40000000"),
    "least integer": ("-9223372036854775808", "2000000020000009408000000000000000"),
    "largest integer": ("18446744073709551615", "200000002000000950ffffffffffffffff"),
    "one byte": ("-1", "200000002000000240ff"),
    "two bytes": ("-129", "200000002000000340ff7f"),
    "four bytes": ("65536", "20000000200000055000010000"),
}


def binary(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.large_binary())


@pytest.mark.parametrize(("text", "stored"), CASES.values(), ids=CASES.keys())
def test_values_round_trip(text: Any, stored: Any) -> None:
    assert from_text(pa.array([text]))[0].as_py().hex() == stored
    assert to_text(binary(bytes.fromhex(stored)))[0].as_py() == text


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.lists(VALUES, max_size=6))
def test_any_json_round_trips(values: Any) -> None:
    texts = pa.array([json.dumps(v) for v in values], pa.string())
    shown = to_text(from_text(texts)).to_pylist()
    assert [json.loads(t) for t in shown] == values
    assert to_text(from_text(pa.array(shown, pa.string()))).to_pylist() == shown


def test_text_and_bytes_are_those_of_pylance(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    doubles = np.concatenate(
        [10.0 ** np.arange(-25, 25), rng.normal(size=300) * 10.0 ** rng.integers(-20, 30, 300), [5e-324, 1.7976931348623157e308]]
    )
    texts: list[str | None] = [json.dumps(x) for x in doubles.tolist()]
    texts += [
        '{"b":1,"a":[true,null,"\\u0000\\b\\f\\n\\r\\t\\"\\\\/\\u001f\\u007f\\u2028é😀"],"":{"zz":{},"z":[]}}',
        None,
        "1e400",
        "123456789012345678901",
    ]
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts))
    lance.write_dataset(pa.table({"j": column}), str(tmp_path / "t"))
    expected = lance.dataset(str(tmp_path / "t")).to_table()["j"].combine_chunks().storage.to_pylist()
    assert Dataset.open(str(tmp_path / "t")).scan().to_table()["j"].combine_chunks().storage.to_pylist() == expected
    assert to_text(from_text(column.storage)).to_pylist() == expected


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_written_json_is_read_by_pylance(tmp_path: Path, version: str) -> None:
    texts = ['{"b": [1, 2.5], "a": "é"}', None, "[]", "17"] * 50
    json_column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts))
    data = pa.table({"j": json_column, "s": pa.StructArray.from_arrays([json_column], ["k"])})
    uri = str(tmp_path / "t")
    Dataset.write(uri, data, data_storage_version=version)
    Dataset.write(uri, pa.table({"j": pa.array(['"text"']), "s": pa.nulls(1, pa.struct([("k", pa.string())]))}), "append")
    seen = lance.dataset(uri).to_table(columns=["j"])
    assert seen["j"].combine_chunks().storage.to_pylist() == ['{"a":"é","b":[1,2.5]}', None, "[]", "17"] * 50 + ['"text"']
    assert Dataset.open(uri).scan().to_table().schema == data.schema
    with pytest.raises(SchemaMismatchError, match="column 'j': value 0 of a JSON column"):
        Dataset.write(uri, pa.table({"j": ["{"]}), "append")
    with pytest.raises(SchemaMismatchError, match="'j' is int64; expected JSON text"):
        Dataset.write(uri, pa.table({"j": [1]}), "append")


def test_nulls_and_slices_round_trip() -> None:
    stored = from_text(pa.array(["1", None, "[2]", '"x"']))
    for start in range(4):
        assert to_text(stored.slice(start, 2)).to_pylist() == ["1", None, "[2]", '"x"'][start : start + 2]
    # What stands in the slot of a null has no meaning.
    masked = pa.Array.from_buffers(pa.large_binary(), 2, [pa.py_buffer(b"\x02"), *binary(b"junk", bytes.fromhex("80000000")).buffers()[1:]])
    assert to_text(masked).to_pylist() == [None, "[]"]
    assert to_text(binary()).to_pylist() == []


def test_not_a_number_and_infinity_are_shown_as_null() -> None:
    stored = from_text(pa.array(["NaN", "Infinity", "-Infinity"]))
    assert [v.as_py()[8] for v in stored] == [0x10, 0x20, 0x30]
    raw = [bytes.fromhex("200000002000000960") + struct.pack(">d", x) for x in (math.nan, math.inf)]
    assert to_text(pa.concat_arrays([stored, binary(*raw)])).to_pylist() == ["null"] * 5


def nested(levels: int) -> bytes:
    data = bytes.fromhex("80000000")
    for _ in range(levels - 1):
        data = struct.pack(">II", 0x80000001, 0x50000000 | len(data)) + data
    return data


REFUSED = {
    "decimal": bytes.fromhex("200000002000000a70ffffffffffffcfc702"),
    "timestamp": bytes.fromhex("200000006000000a30000000000000000008"),
    "more levels than anybody writes": nested(513),
}


@pytest.mark.parametrize("stored", REFUSED.values(), ids=REFUSED.keys())
def test_unsupported_values_are_refused(stored: Any) -> None:
    with pytest.raises(UnsupportedFeatureError, match="value 0 of a JSON column"):
        to_text(binary(stored))


def test_deep_nesting_is_supported() -> None:
    assert to_text(binary(nested(512)))[0].as_py() == "[" * 512 + "]" * 512


CORRUPT = {
    "nothing": "",
    "half a header": "200000",
    "a scalar without its entry": "20000000",
    "a scalar with a count": "2000000100000000",
    "an unknown container": "6000000000000000",
    "two containers at once": "c0000000",
    "an array without its entry": "80000001",
    "an element beyond the end": "8000000110000005",
    "an entry with an offset": "8000000190000000",
    "half an object": "4000000120000000",
    "a key that is no string": "400000010000000000000000",
    "a key beyond the end": "40000001100000ff00000000",
    "bytes after the array": "8000000000",
    "bytes after the scalar": "200000003000000000",
    "bytes of a null": "20000000000000016e",
    "a number without a tag": "2000000020000000",
    "infinity with bytes": "20000000200000022001",
    "an integer of three bytes": "200000002000000440ff0000",
    "an unknown tag": "200000002000000180",
    "a scalar in an array": "80000001500000082000000000000000",
    "a string that is not UTF-8": "2000000010000001ff",
}


@pytest.mark.parametrize("stored", CORRUPT.values(), ids=CORRUPT.keys())
def test_invalid_jsonb_is_refused(stored: Any) -> None:
    with pytest.raises(CorruptFileError, match="JSON"):
        to_text(binary(bytes.fromhex(stored)))


@given(st.binary(max_size=40) | st.tuples(st.sampled_from(sorted(v for _, v in CASES.values())), st.integers(0, 200), st.integers(0, 255)))
def test_any_bytes_give_text_or_our_error(change: Any) -> None:
    if isinstance(change, tuple):
        stored, at, value = change
        data = bytearray.fromhex(stored)
        data[at % len(data)] = value
        change = bytes(data)
    with contextlib.suppress(CorruptFileError, UnsupportedFeatureError):
        json.loads(to_text(binary(change))[0].as_py())


@pytest.mark.parametrize("text", ["", "{", "nul", "[1,]", "{'a':1}", '"\\ud800"', '{"a":1,"a":2}', "[" * 100_000], ids=lambda t: t[:10])
def test_invalid_json_is_refused(text: Any) -> None:
    with pytest.raises(SchemaMismatchError, match="value 1 of a JSON column"):
        from_text(pa.array(["1", text]))
