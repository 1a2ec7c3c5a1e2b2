"""Comparison of a page of a fast path with that of the general writer."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_spark.layouts import write_page
from lance_spark.layouts.nodes.encoded_page import EncodedPage
from lance_spark.layouts.nodes.version_grammar import Grammar
from lance_spark.schema.schema import Field


def assert_is_general(page: EncodedPage, field: Field, array: pa.Array, grammar: Grammar) -> None:
    """Assert that the general writer makes the same page, byte for byte."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_page, "encode_small", lambda *_: None)
        (plain,) = write_page.encode_pages(field, array, grammar)
    assert (page.encoding_type, page.encoding, page.num_rows) == (plain.encoding_type, plain.encoding, plain.num_rows)
    assert [b.tobytes() for b in page.buffers] == [b.tobytes() for b in plain.buffers]
