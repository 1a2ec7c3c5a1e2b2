"""Encoding options in field metadata and their valid values."""

from __future__ import annotations

import pytest

from lance_spark.errors import InvalidOptionError
from lance_spark.layouts.choose.encoding_options import EncodingOptions
from lance_spark.schema.schema import Field


def options(name: str, text: str) -> EncodingOptions:
    return EncodingOptions.of(Field("c", 0, "int32", metadata={f"lance-encoding:{name}".encode(): text.encode()}))


def test_options_are_read_in_any_case_and_with_spaces_around() -> None:
    assert options("compression", " ZSTD ").compression == "zstd"
    assert options("compression-level", "-5").level == -5
    assert options("rle-threshold", "0.25").rle_threshold == 0.25
    assert options("minichunk-size", "+4096").chunk_bytes == 4096


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("compression", "brotli", "one of none, fsst, lz4, zstd"),
        ("compression-level", "high", "a whole number from -128 to 127"),
        ("compression-level", "128", "a whole number from -128 to 127"),
        ("compression-level", "+-5", "a whole number from -128 to 127"),
        ("minichunk-size", "²", "a whole number from 1 to 1048576"),
        ("minichunk-size", "9" * 5000, "a whole number from 1 to 1048576"),
        ("rle-threshold", "often", "a number from 0 to 1"),
        ("rle-threshold", "nan", "a number from 0 to 1"),
        ("rle-threshold", "1.5", "a number from 0 to 1"),
    ],
)
def test_invalid_options_are_refused_with_the_expected_values(name: str, text: str, wanted: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"column 'c': invalid .* in lance-encoding:{name}; expected {wanted}"):
        options(name, text)
