"""Constant: the value in the message, repeated."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.buffers.blocks import FixedWidth
from lance_spark.encodings.constant import Constant
from lance_spark.errors import CorruptFileError
from tests.encodings.cases.numbers import bytes_of
from tests.encodings.cases.strings import as_chunks


def test_the_value_is_repeated() -> None:
    block = Constant(b"ab").decode_block(np.empty(0, np.uint8), 3)
    assert isinstance(block, FixedWidth)
    assert (block.bits, block.count, bytes_of(block)) == (16, 3, b"ababab")


def test_chunks_need_no_buffers() -> None:
    assert Constant(b"a").num_buffers == 0
    chunks = as_chunks([[b""] * 2], [1, 3]).select(0, 0)
    assert bytes_of(Constant(b"a").decode_chunks(chunks)) == b"aaaa"


def test_no_values_need_no_value() -> None:
    none = Constant(None).decode_block(np.empty(0, np.uint8), 0)
    assert isinstance(none, FixedWidth)
    assert none.view(np.uint64).tolist() == []


@pytest.mark.parametrize(("value", "count"), [(None, 1), (b"", 1), (b"a", 2**40), (b"12345678", 2**62)])
def test_missing_values_and_absurd_counts_are_refused(value: bytes | None, count: int) -> None:
    with pytest.raises(CorruptFileError):
        Constant(value).decode_block(np.empty(0, np.uint8), count)
