"""Row id and version sequences in every segment form, checked against the rows of the fragment."""

import json
from typing import Any

import lance
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark._proto import rowids_pb2 as pb
from lance_spark.errors import CorruptFileError
from lance_spark.metadata.row_ids import (
    all_values,
    parse_row_ids,
    parse_versions,
    row_id_count,
    serialise_row_ids,
    serialise_version,
    serialise_versions,
    with_row_id_range,
)

pytestmark = [pytest.mark.spec("format-document.md", "Row ID sequences"), pytest.mark.spec("format-document.md", "Row ID index")]

Segment = pb.U64Segment
Array = pb.EncodedU64Array


def u16(*values: int, base: int = 0) -> Array:
    return Array(u16_array=Array.U16Array(base=base, offsets=np.array(values, "<u2").tobytes()))


def u32(*values: int, base: int = 0) -> Array:
    return Array(u32_array=Array.U32Array(base=base, offsets=np.array(values, "<u4").tobytes()))


def u64(*values: int) -> Array:
    return Array(u64_array=Array.U64Array(values=np.array(values, "<u8").tobytes()))


FORMS = {
    "range": (Segment(range=Segment.Range(start=100, end=105)), [100, 101, 102, 103, 104]),
    "range with holes": (
        Segment(range_with_holes=Segment.RangeWithHoles(start=100, end=105, holes=u16(2, base=100))),
        [100, 101, 103, 104],
    ),
    # Least significant bit first, as pylance writes it; the specification's page says otherwise.
    "range with bitmap": (Segment(range_with_bitmap=Segment.RangeWithBitmap(start=7, end=17, bitmap=b"\x05\x02")), [7, 9, 16]),
    "sorted array": (Segment(sorted_array=u32(1, 70_000, base=5)), [6, 70_005]),
    "array": (Segment(array=u64(2**64 - 1, 3, 2**63)), [2**64 - 1, 3, 2**63]),
    "high range": (Segment(range=Segment.Range(start=2**64 - 3, end=2**64 - 1)), [2**64 - 3, 2**64 - 2]),
    "nothing": (Segment(), []),
}


@pytest.mark.parametrize(("segment", "expected"), FORMS.values(), ids=FORMS.keys())
def test_every_form_of_segment(segment: Any, expected: Any) -> None:
    data = pb.RowIdSequence(segments=[segment]).SerializeToString()
    ids = all_values(parse_row_ids(data, len(expected)))
    assert ids.dtype == np.uint64
    assert ids.tolist() == expected


def test_segments_follow_each_other() -> None:
    message = pb.RowIdSequence(segments=[s for s, _ in FORMS.values()])
    expected = [v for _, values in FORMS.values() for v in values]
    assert all_values(parse_row_ids(message.SerializeToString(), len(expected))).tolist() == expected


BROKEN = {
    "too many": Segment(range=Segment.Range(start=0, end=2**63)),
    "backwards": Segment(range=Segment.Range(start=9, end=3)),
    "too few": Segment(range=Segment.Range(start=0, end=1)),
    "short bitmap": Segment(range_with_bitmap=Segment.RangeWithBitmap(start=0, end=2**40, bitmap=b"\xff")),
    "full bitmap": Segment(range_with_bitmap=Segment.RangeWithBitmap(start=0, end=16, bitmap=b"\xff\xff")),
    "backward bitmap": Segment(range_with_bitmap=Segment.RangeWithBitmap(start=9, end=3)),
    "hole outside": Segment(range_with_holes=Segment.RangeWithHoles(start=5, end=9, holes=u16(3))),
    "many holes": Segment(range_with_holes=Segment.RangeWithHoles(start=5, end=9, holes=u16(*[6] * 9))),
    "large with holes": Segment(range_with_holes=Segment.RangeWithHoles(start=0, end=2**62, holes=u16(1))),
    "half a value": Segment(array=Array(u32_array=Array.U32Array(offsets=b"\1\2\3"))),
    "long array": Segment(array=u16(*range(100))),
    "holes that fall": Segment(range_with_holes=Segment.RangeWithHoles(start=0, end=5, holes=u16(3, 1))),
    "a hole twice": Segment(range_with_holes=Segment.RangeWithHoles(start=0, end=5, holes=u16(1, 1))),
    "values beyond 64 bits": Segment(array=u16(0, 1, 2, base=2**64 - 2)),
}


@pytest.mark.parametrize("segment", BROKEN.values(), ids=BROKEN.keys())
def test_sequences_of_another_length_are_refused(segment: Any) -> None:
    with pytest.raises(CorruptFileError):
        parse_row_ids(pb.RowIdSequence(segments=[segment]).SerializeToString(), 3)
    with pytest.raises(CorruptFileError):
        parse_versions(pb.RowDatasetVersionSequence(runs=[pb.RowDatasetVersionRun(span=segment)]).SerializeToString(), 3)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_sequence_or_corrupt(data: Any) -> None:
    for parse in (parse_row_ids, parse_versions):
        try:
            assert len(all_values(parse(data, 3))) == 3
        except CorruptFileError:
            continue


@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=30)
    | st.builds(lambda a, n: list(range(a, a + n)), st.integers(0, 2**60), st.integers(0, 30))
)
def test_row_ids_round_trip(ids: Any) -> None:
    values = np.array(ids, dtype=np.uint64)
    assert all_values(parse_row_ids(serialise_row_ids(values), len(ids))).tolist() == ids


SHORTEST = {
    "range": (range(5, 50), "range"),
    "few holes": ([*range(100), *range(101, 1000)], "range_with_holes"),
    "many holes": (range(0, 1000, 2), "range_with_bitmap"),
    "far apart": (range(7, 10**6, 1000), "sorted_array"),
    "very far apart": ([0, 2**40], "sorted_array"),
    "falling": ([3, 2, 1], "array"),
    "up to the last": ([2**64 - 4, 2**64 - 2, 2**64 - 1], "sorted_array"),
}


@pytest.mark.parametrize(("ids", "form"), SHORTEST.values(), ids=SHORTEST.keys())
def test_row_ids_are_written_in_their_smallest_form(ids: Any, form: Any) -> None:
    data = serialise_row_ids(np.array(ids, dtype=np.uint64))
    assert [s.WhichOneof("segment") for s in pb.RowIdSequence.FromString(data).segments] == [form]
    assert all_values(parse_row_ids(data, len(ids))).tolist() == list(ids)


@pytest.mark.parametrize(("segment", "expected"), FORMS.values(), ids=FORMS.keys())
def test_row_ids_are_looked_up_and_found_without_the_others(segment: Any, expected: Any) -> None:
    data = pb.RowIdSequence(segments=[Segment(range=Segment.Range(start=50, end=53)), segment]).SerializeToString()
    whole = [50, 51, 52, *expected]
    assert row_id_count(data) == len(whole)
    ids = parse_row_ids(data, len(whole))
    for start in range(len(whole)):
        assert ids.at(range(start, len(whole))).tolist() == whole[start:]
        assert ids.at(np.arange(start, len(whole), 2)).tolist() == whole[start::2]
    wanted = np.unique(np.array([0, 51, 99, 102, 2**64 - 1, *expected[1:]], np.uint64))
    which, rows = ids.find(wanted)
    assert sorted(rows.tolist()) == [i for i, value in enumerate(whole) if value in wanted]
    assert wanted[which].tolist() == [whole[row] for row in rows.tolist()]
    assert [len(found) for found in ids.find(np.empty(0, np.uint64))] == [0, 0]


def test_sequences_of_more_rows_than_memory_holds_take_none() -> None:
    rows = 2**60
    ids = parse_row_ids(with_row_id_range(b"", 7, rows), rows)
    assert ids.at(np.array([0, rows - 1])).tolist() == [7, rows + 6]
    assert ids.find(np.array([0, 7 + 2**59], np.uint64))[1].tolist() == [2**59]
    versions = parse_versions(serialise_version(3, rows), rows)
    assert versions.at(range(rows - 2, rows)).tolist() == [3, 3]
    for sequence in (ids, versions):
        with pytest.raises(CorruptFileError, match="expected at most"):
            all_values(sequence)


def test_ids_are_appended_to_existing_ones() -> None:
    data = with_row_id_range(serialise_row_ids(np.array([9, 3], np.uint64)), 20, 3)
    assert all_values(parse_row_ids(data, 5)).tolist() == [9, 3, 20, 21, 22]
    with pytest.raises(CorruptFileError, match="64 bits"):
        with_row_id_range(data, 2**64 - 2, 2)


def test_sequences_equal_those_of_pylance() -> None:
    for ids, _ in SHORTEST.values():
        if max(ids) < 2**64 - 1:
            theirs = json.loads(lance.fragment.RowIdSequence(list(ids)).to_inline_metadata().json())
            assert list(serialise_row_ids(np.array(ids, dtype=np.uint64))) == theirs["Inline"]


@given(st.lists(st.integers(1, 4), max_size=30))
def test_versions_round_trip(versions: Any) -> None:
    values = np.array(versions, dtype=np.uint64)
    assert all_values(parse_versions(serialise_versions(values), len(versions))).tolist() == versions
