"""The numbers and paths that compiled code reads of fragments are those that the protobuf library reads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark._proto import table_pb2 as pb
from lance_spark.errors import CorruptFileError
from lance_spark.metadata import lazy_fragments
from lance_spark.metadata.fragment_messages import counted, own_files
from lance_spark.metadata.lazy_fragments import Fragments

NUMBERS = st.integers(0, 2**32 - 1)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A DataFragment message, as writers make them."""
    fragment = pb.DataFragment(id=draw(NUMBERS), physical_rows=draw(NUMBERS))
    for _ in range(draw(st.integers(0, 2))):
        fragment.files.add(
            path=draw(st.text(min_size=1, max_size=200)), fields=draw(st.lists(st.integers(-2, 300), max_size=3)), file_size_bytes=2**40
        )
        if draw(st.integers(0, 4)) == 0:
            fragment.files[-1].base_id = draw(NUMBERS)
    if draw(st.booleans()):
        kind = draw(st.sampled_from([pb.DeletionFile.ARROW_ARRAY, pb.DeletionFile.BITMAP]))
        fragment.deletion_file.MergeFrom(pb.DeletionFile(file_type=kind, read_version=draw(NUMBERS), num_deleted_rows=draw(NUMBERS)))
        if draw(st.booleans()):
            fragment.deletion_file.base_id = draw(NUMBERS)
    if draw(st.booleans()):
        fragment.inline_row_ids = draw(st.binary(max_size=300))
    if draw(st.booleans()):
        fragment.overlays.append(draw(st.binary(max_size=9)))
    return bytes(fragment.SerializeToString())


@given(st.lists(messages(), max_size=5))
def test_compiled_code_reads_what_protobuf_reads(some: list[bytes]) -> None:
    numbers = counted(some)
    assert numbers is not None
    assert numbers.tolist() == Fragments(list(some)).counts.tolist()


@given(st.lists(messages(), min_size=1, max_size=3), st.data())
def test_damaged_messages_are_read_alike_or_left_to_protobuf(some: list[bytes], data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(some) - 1))
    damaged = bytearray(some[which]) or bytearray(b"\0")
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    some[which] = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    numbers = counted(some)
    try:
        expected = Fragments(list(some)).counts
    except (CorruptFileError, OverflowError):
        # Texts that are not UTF-8 and numbers above the limits are found when they are used.
        return
    assert numbers is None or numbers.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "message", [b"\x08", b"\x08" + b"\xff" * 10 + b"\x01", b"\x12\x05a", b"\x0b", b"\x62\x00", b"\x10\x01", b"\x1a\x02\x22\xff"], ids=repr
)
def test_what_writers_do_not_write_is_left_to_protobuf(message: bytes) -> None:
    assert counted([b"\x08\x01", message]) is None


def test_a_manifest_of_very_many_fragments_is_counted() -> None:
    fragments = Fragments([pb.DataFragment(id=i, physical_rows=7).SerializeToString() for i in range(1 << 17)])
    assert fragments.counts[:, 0].tolist() == list(range(1 << 17))
    assert np.unique(fragments.counts[:, 1:], axis=0).tolist() == [[7, -1, 0]]


def _named(fragments: Fragments) -> list[str]:
    """The paths of the data files of the table itself."""
    return [file.path for fragment in fragments for file in fragment.files if file.base_id is None]


@given(st.lists(messages(), max_size=5))
def test_compiled_code_finds_the_files_of_the_table_itself(some: list[bytes]) -> None:
    paths, plain = own_files(some)
    fragments = Fragments(list(some))
    assert paths == _named(Fragments([m for m, is_plain in zip(some, plain.tolist()) if is_plain]))
    for fragment, is_plain in zip(fragments, plain.tolist()):
        names_others = fragment.deletion is not None or fragment.overlays or any(file.base_id is not None for file in fragment.files)
        assert is_plain != bool(names_others)


@given(st.lists(messages(), min_size=1, max_size=3), st.data())
def test_no_file_of_a_damaged_message_is_taken_for_another(some: list[bytes], data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(some) - 1))
    damaged = bytearray(some[which])
    for _ in range(data.draw(st.integers(1, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    some[which] = bytes(damaged)
    paths, plain = own_files(some)
    try:
        expected = _named(Fragments([m for m, is_plain in zip(some, plain.tolist()) if is_plain]))
    except CorruptFileError:
        return
    assert paths == expected


def test_parsed_fragments_are_among_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_fragments, "ENOUGH", 2)
    items = [pb.DataFragment(id=i, physical_rows=7, files=[pb.DataFile(path=f"{i}.lance")]).SerializeToString() for i in range(4)]
    fragments = Fragments(items)
    assert fragments[2].id == 2
    paths, others = fragments.own_files()
    assert (paths, [f.id for f in others]) == (["0.lance", "1.lance", "3.lance"], [2])
