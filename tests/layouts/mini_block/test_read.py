"""Hand-made mini-block pages with false declarations. Valid pages are tested with their columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.reading.steps import Rows
from lance_spark.schema.schema import Field
from tests.layouts.pages import NUMBER, flat, list_of, numbers, read

ITEM, LIST = pb.REPDEF_ALL_VALID_ITEM, pb.REPDEF_ALL_VALID_LIST
LISTS = list_of(NUMBER)

# A chunk of three numbers, and the word for it: 24 bytes.
CHUNK = numbers(np.uint16, 0, 12, 0, 0) + numbers(np.int32, 1, 2, 3, 0)
WORD = numbers(np.uint16, 2 << 4)
# A chunk of the lists [1, 2] and [3], of 32 bytes, and its line of the repetition index: two rows end in it, none goes on.
LIST_CHUNK = numbers(np.uint16, 3, 6, 12, 0) + numbers(np.uint16, 1, 0, 1, 0) + numbers(np.int32, 1, 2, 3, 0)
LIST_WORD = numbers(np.uint16, 3 << 4)
INDEX = numbers(np.uint64, 2, 0)


def of_numbers(**changes: Any) -> pb.MiniBlockLayout:
    return pb.MiniBlockLayout(**{"value_compression": flat(32), "num_buffers": 1, "num_items": 3, "layers": [ITEM], **changes})


def of_lists(**changes: Any) -> pb.MiniBlockLayout:
    return of_numbers(**{"rep_compression": flat(16), "repetition_index_depth": 1, "layers": [ITEM, LIST], **changes})


def test_hand_made_pages_are_read() -> None:
    assert read(NUMBER, of_numbers(), [WORD, CHUNK], 3).to_pylist() == [1, 2, 3]
    for rows in (range(2), range(1, 2)):
        assert read(LISTS, of_lists(), [LIST_WORD, LIST_CHUNK, INDEX], 2, rows).to_pylist() == [[1, 2], [3]][rows.start : rows.stop]


def of_runs(**changes: Any) -> pb.MiniBlockLayout:
    return of_numbers(value_compression=pb.CompressiveEncoding(rle=pb.Rle(values=flat(32), run_lengths=flat(8))), **changes)


@pytest.mark.parametrize(
    ("field", "layout", "buffers", "rows", "complaint"),
    [
        (NUMBER, of_numbers(), [WORD], None, "expected at least 2 buffers in a mini-block page, found 1"),
        (
            NUMBER,
            of_numbers(dictionary=flat(32), num_dictionary_items=1),
            [WORD, CHUNK],
            None,
            "expected at least 3 buffers in a mini-block page, found 2",
        ),
        (NUMBER, of_numbers(), [WORD + b"\0", CHUNK], None, "3 bytes of chunk words are not a multiple of 2"),
        (NUMBER, of_numbers(), [b"", CHUNK], None, "0 bytes of chunk words"),
        (NUMBER, of_numbers(), [WORD, CHUNK[:-1]], None, "expected 24 bytes of chunks, found 23"),
        (NUMBER, of_numbers(), [numbers(np.uint16, 2 << 4 | 2) + WORD, CHUNK * 2], None, "expected 3 items in the page, found more"),
        (NUMBER, of_numbers(num_items=2), [WORD, CHUNK], range(2, 3), "expected at least 3 rows in the chunks of the page, found 2"),
        (NUMBER, of_numbers(num_buffers=2), [WORD, CHUNK], None, "expected 1 value buffers in a chunk, found 2"),
        (NUMBER, of_numbers(num_items=6), [WORD, CHUNK], None, "holds 6 values: expected a buffer of 24 bytes, found 12"),
        (
            NUMBER,
            of_runs(num_buffers=2, has_large_chunk=True),
            [bytes(4), bytes(8)],
            None,
            "expected at least 10 bytes in a chunk, found 8",
        ),
        (NUMBER, of_numbers(), [WORD, numbers(np.uint16, 0, 17) + CHUNK[4:]], None, "expected 25 bytes in chunk 0 of those read, found 24"),
        (NUMBER, of_numbers(layers=[ITEM, ITEM]), [WORD, CHUNK], None, "expected 1 layers in the page, found 2"),
        (
            NUMBER,
            of_numbers(value_compression=flat(64), num_items=1),
            [WORD, CHUNK],
            None,
            "expected values of int32, found values of 64 bits",
        ),
        (LISTS, of_lists(), [LIST_WORD, LIST_CHUNK, INDEX[:8]], range(1), "the repetition index has 8 bytes, an invalid size for 1 chunks"),
        (
            LISTS,
            of_lists(repetition_index_depth=0),
            [LIST_WORD, LIST_CHUNK, INDEX],
            range(1),
            "index has 16 bytes, an invalid size for 1 chunks",
        ),
        (
            LISTS,
            of_lists(),
            [LIST_WORD, LIST_CHUNK, numbers(np.uint64, 2**63, 0)],
            range(1),
            "expected 2 rows in the repetition index, found more",
        ),
        (
            LISTS,
            of_lists(),
            [LIST_WORD, LIST_CHUNK, numbers(np.uint64, 1, 0)],
            range(1),
            "expected 2 rows in the repetition index, found 1",
        ),
        (LISTS, of_lists(rep_compression=flat(8)), [LIST_WORD, LIST_CHUNK, INDEX], None, "expected 3 levels of 16 bits"),
        (LISTS, of_lists(num_items=2), [LIST_WORD, LIST_CHUNK, INDEX], None, "levels declare 3 values, found 2 in its chunks"),
        (LISTS, of_numbers(layers=[ITEM, LIST]), [WORD, CHUNK], None, "no repetition levels"),
        (LISTS, of_lists(layers=[LIST, ITEM]), [LIST_WORD, LIST_CHUNK, INDEX], None, "levels declare 2 values"),
    ],
)
def test_false_declarations_are_found(
    field: Field, layout: pb.MiniBlockLayout, buffers: list[bytes], rows: Rows | None, complaint: str
) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        read(field, layout, buffers, 3 if field is NUMBER else 2, rows)


@pytest.mark.parametrize(
    ("num_items", "word", "complaint"),
    [(2, 2, "expected at least 51 rows in the chunks of the page, found 2"), (100, 9, "expected 80 bytes of chunks, found 24")],
)
def test_false_declarations_are_found_when_few_rows_are_read(num_items: int, word: int, complaint: str) -> None:
    with pytest.raises(CorruptFileError, match=complaint):
        read(NUMBER, of_numbers(num_items=num_items), [numbers(np.uint16, word << 4), CHUNK], 100, np.array([50]))


def test_a_chunk_too_short_for_its_buffers_is_found_when_few_rows_are_read() -> None:
    chunk = numbers(np.uint16, 0, 99, 0, 0) + numbers(np.int32, *range(8))
    with pytest.raises(CorruptFileError, match="expected 107 bytes in chunk 0 of those read, found 40"):
        read(NUMBER, of_numbers(num_items=8), [numbers(np.uint16, 4 << 4), chunk], 8, np.array([5]))


def test_a_dictionary_of_more_items_than_arrow_numbers_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="a dictionary of 2147483648 items"):
        read(NUMBER, of_numbers(dictionary=flat(32), num_dictionary_items=2**31), [WORD, CHUNK, numbers(np.int32, 7, 8)], 3)
