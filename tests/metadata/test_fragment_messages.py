"""What is read of many fragments at once is what the protobuf library reads."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.buffers.wire import Unusual, run
from lance_spark.errors import CorruptFileError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.fragment_messages import NO_FILE, column_bytes, counted, layouts, own_files
from lance_spark.metadata.lazy_fragments import Fragments

pytestmark = pytest.mark.spec("format-document.md", "Fragments")

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


def laid(some: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """A manifest of these messages, and where each is."""
    data = np.frombuffer(pb.Manifest(fragments=some).SerializeToString(), np.uint8)
    return data, run(data, 0, 2)[0]


def lazy(some: Sequence[bytes]) -> Fragments:
    """The fragments with these messages."""
    return Fragments.of_messages(*laid(some), "a manifest")


def by_protobuf(some: Sequence[bytes]) -> list[list[int]]:
    """What the protobuf library reads. Raises CorruptFileError."""
    whole = pb.Manifest(fragments=some).SerializeToString()
    parsed = parse_message(pb.ManifestCounts, whole, "a manifest").fragments
    deleted = [f.deletion_file.num_deleted_rows if f.HasField("deletion_file") else NO_FILE for f in parsed]
    return [[f.id, f.physical_rows, n, f.HasField("files")] for f, n in zip(parsed, deleted)]


def damaged(some: list[bytes], data: st.DataObject) -> list[bytes]:
    """The messages, some bytes of one of which have other values; it may end earlier."""
    which = data.draw(st.integers(0, len(some) - 1))
    changed = bytearray(some[which]) or bytearray(b"\0")
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    return [*some[:which], bytes(changed[: data.draw(st.integers(0, len(changed)))]), *some[which + 1 :]]


@given(st.lists(messages(), max_size=5))
def test_many_at_once_are_read_as_by_protobuf(some: list[bytes]) -> None:
    assert counted(*laid(some)).tolist() == by_protobuf(some)


@given(st.lists(messages(), max_size=5), st.frozensets(st.integers(0, 300), max_size=9))
def test_columns_of_files_are_read_as_by_protobuf(some: list[bytes], ids: frozenset[int]) -> None:
    """Columns of a file are taken to be of one size; equal numbers mean equal columns and versions."""
    files = [fragment.files for fragment in lazy(some)]
    with contextlib.suppress(Unusual):
        shares = [sum(2**40 * sum(i in ids for i in f.fields) / len(f.fields) for f in own if f.fields) for own in files]
        assert np.allclose(column_bytes(*laid(some), ids), shares)
    with contextlib.suppress(Unusual):
        numbers = layouts(*laid(some)).tolist()
        each = [tuple((f.fields, f.column_indices, f.version) for f in own) for own in files]
        assert [a == b for a in numbers for b in numbers] == [a == b for a in each for b in each]


@given(st.lists(messages(), min_size=1, max_size=3), st.data())
def test_damaged_messages_are_read_alike_or_left_to_protobuf(some: list[bytes], data: st.DataObject) -> None:
    some = damaged(some, data)
    try:
        expected = by_protobuf(some)
    except CorruptFileError:
        # Texts that are not UTF-8 and numbers above the limits are found when they are used.
        return
    with contextlib.suppress(Unusual):
        assert counted(*laid(some)).tolist() == expected


@pytest.mark.parametrize(
    "message", [b"\x08", b"\x08" + b"\xff" * 10 + b"\x01", b"\x12\x05a", b"\x0b", b"\x7a\x00", b"\x10\x01", b"\x1a\x02\x22\xff"], ids=repr
)
def test_what_writers_do_not_write_is_left_to_protobuf(message: bytes) -> None:
    with pytest.raises(Unusual):
        counted(*laid([b"\x08\x01", message]))


@given(st.lists(messages(), max_size=8), st.binary(max_size=3))
def test_the_messages_of_a_manifest_are_found_as_by_protobuf(some: list[bytes], more: bytes) -> None:
    whole = pb.Manifest(fragments=some, version=7).SerializeToString() + more
    data = np.frombuffer(whole, np.uint8)
    try:
        spans, end = run(data, 0, 2)
    except Unusual:
        # What follows may look like another message without an end.
        assert more
        return
    assert [whole[start:stop] for start, stop in spans.tolist()][: len(some)] == some
    assert whole[end:].startswith(b"\x18\x07")


@pytest.mark.parametrize(
    "content", [b"\x12\x00" * 5_000, b"\x12" * 100_000, b"\x12\x80" * 100_000, b"\x12\x12"], ids=["empty", "tags", "long", "two"]
)
def test_content_may_look_like_fields(content: bytes) -> None:
    some = [pb.DataFragment(id=i, inline_row_ids=content[i:]).SerializeToString() for i in range(12)]
    fragments = lazy(some)
    assert fragments.messages() == some
    assert pickle.loads(pickle.dumps(fragments.chosen(np.arange(3, 9)))).messages() == some[3:9]


@given(st.binary(max_size=60).map(lambda content: content.replace(b"a", b"\x12")))
def test_any_bytes_are_split_as_protobuf_does(content: bytes) -> None:
    try:
        spans, end = run(np.frombuffer(content, np.uint8), 0, 2)
    except Unusual:
        return
    expected = pb.Manifest.FromString(content[:end]).fragments
    assert [content[start:stop] for start, stop in spans.tolist()] == list(expected)
    assert not content[end:].startswith(b"\x12")


def test_a_manifest_of_very_many_fragments_is_counted() -> None:
    message = pb.Manifest(fragments=[pb.DataFragment(id=i, physical_rows=7).SerializeToString() for i in range(1 << 17)])
    data = np.frombuffer(message.SerializeToString(), np.uint8)
    fragments = Fragments.of_messages(data, run(data, 0, 2)[0], "a manifest")
    assert fragments.counts[:, 0].tolist() == list(range(1 << 17))
    assert np.unique(fragments.counts[:, 1:], axis=0).tolist() == [[7, -1, 0]]


def _named(fragments: Fragments) -> list[str]:
    """The paths of the data files of the table itself."""
    return [file.path for fragment in fragments for file in fragment.files if file.base_id is None]


@given(st.lists(messages(), max_size=5))
def test_the_files_of_the_table_itself_are_found(some: list[bytes]) -> None:
    paths, plain = own_files(*laid(some))
    assert paths == _named(lazy([m for m, is_plain in zip(some, plain.tolist()) if is_plain]))
    for fragment, is_plain in zip(lazy(some), plain.tolist()):
        names_others = fragment.deletion is not None or fragment.overlays or any(file.base_id is not None for file in fragment.files)
        assert is_plain != bool(names_others)


@given(st.lists(messages(), min_size=1, max_size=3), st.data())
def test_no_file_of_a_damaged_message_is_taken_for_another(some: list[bytes], data: st.DataObject) -> None:
    some = damaged(some, data)
    try:
        paths, plain = own_files(*laid(some))
        expected = _named(lazy([m for m, is_plain in zip(some, plain.tolist()) if is_plain]))
    except (CorruptFileError, Unusual):
        return
    assert paths == expected


@given(st.lists(messages(), max_size=5), st.frozensets(st.integers(0, 300)))
def test_the_bytes_of_columns_are_those_of_parsed_fragments(some: list[bytes], ids: frozenset[int]) -> None:
    expected = []
    for fragment in lazy(some):
        shares = [(file.size, sum(i in ids for i in file.fields) / max(len(file.fields), 1)) for file in fragment.files]
        expected.append(sum((size or 0) * share for size, share in shares) if all(s or not share for s, share in shares) else -1)
    assert np.allclose(lazy(some).column_bytes(ids), expected)


@given(st.lists(messages(), max_size=6), st.data())
def test_changed_fragments_are_pickled_and_written_in_their_order(some: list[bytes], data: st.DataObject) -> None:
    fragments = lazy(some)
    places = np.array(data.draw(st.permutations(range(len(some)))), np.int64)
    chosen = fragments.chosen(places[: data.draw(st.integers(0, len(some)))])
    more = chosen.__add__((Fragment(5, (), 3), *chosen[:1]))
    assert pickle.loads(pickle.dumps(more)) == more
    assert list(pb.Manifest.FromString(more.fields()).fragments) == more.messages()
    assert [f.id for f in more] == more.ids.tolist()
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(more))] * 2)))
    assert list(pb.Manifest.FromString(more.fields(start, stop)).fragments) == more.messages()[start:stop]
    assert tuple(Fragments.unpacked(*more.packed(start, stop))) == more[start:stop]


def test_parsed_fragments_are_among_the_others() -> None:
    items = [pb.DataFragment(id=i, physical_rows=7, files=[pb.DataFile(path=f"{i}.lance")]).SerializeToString() for i in range(4)]
    fragments = lazy(items)
    assert fragments[2].id == 2
    paths, others = fragments.own_files()
    assert (paths, list(others)) == (["0.lance", "1.lance", "2.lance", "3.lance"], [])
