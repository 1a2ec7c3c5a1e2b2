"""The coverage of indexes after changes, compared with pylance at each step, and with a fragment reuse index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lance_spark._proto import table_pb2 as pb
from lance_spark.dataset import Dataset
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata.manifest import DataFile, Fragment, IndexMetadata
from lance_spark.metadata.operations import RewriteGroup, RewrittenIndex
from lance_spark.schema.schema import from_arrow
from lance_spark.storage.store import Store
from lance_spark.table.build.index_coverage import (
    changed_fields,
    fragments_of,
    rewritten,
    through_reuse,
    useful,
    with_reuse,
    without,
)
from lance_spark.table.build.manifest_builder import TableSettings, build
from lance_spark.table.build.reuse_history import FRAGMENT_REUSE
from lance_spark.table.versions.history import transaction_of
from lance_spark.table.versions.snapshot import open_snapshot

SCHEMA = from_arrow(pa.schema([("a", pa.int32()), ("b", pa.int32())]))


def index(name: str, *covers: int, fields: tuple[int, ...] = (0,), version: int = 1, details: bytes = b"") -> IndexMetadata:
    uuid = bytes([len(covers), *covers, version]).ljust(16)[:16]
    return IndexMetadata(uuid, name, fields, version, BitMap(covers).serialize(), "/lance.table.BTreeIndexDetails", details)


UNKNOWN = replace(index("u"), fragment_bitmap=b"")


def fragments(*ids: int) -> tuple[Fragment, ...]:
    return tuple(Fragment(i, (), 1) for i in ids)


def covers(indexes: tuple[IndexMetadata, ...]) -> list[list[int] | None]:
    return [None if (c := fragments_of(i)) is None else list(c) for i in indexes]


def reuse(*groups: tuple[list[int], list[int]], unknown: bytes = b"") -> IndexMetadata:
    details = pb.FragmentReuseIndexDetails()
    for old, new in groups:
        group = details.inline.versions.add().groups.add()
        for i in old:
            group.old_fragments.add(id=i)
        for i in new:
            group.new_fragments.add(id=i)
    return index(FRAGMENT_REUSE, fields=(), details=details.SerializeToString() + unknown)


def test_segments_that_cover_nothing_go_but_the_last_one_stays() -> None:
    live = (1, 2)
    kept = useful((index("i", 1), index("i", 7)), SCHEMA, live)
    assert covers(kept) == [[1]]
    kept = useful((index("i", 8, version=3), index("i", 7, version=2)), SCHEMA, live)
    assert covers(kept) == [[7]]
    everything = (index("i", 7), index("j", 1), UNKNOWN, reuse())
    assert useful(everything, SCHEMA, live) == everything
    assert useful((index("i", 1, fields=(0, 9)), UNKNOWN), SCHEMA, live) == (UNKNOWN,)


def test_changed_values_are_no_longer_covered() -> None:
    changed = without((index("i", 1, 2), index("j", 1, 2, fields=(1,)), UNKNOWN), {1: (0, 5), 3: (1,)})
    assert covers(changed) == [[2], [1, 2], None]


def test_fields_in_another_file_have_changed() -> None:
    before = (Fragment(1, (DataFile("x", (0, 1)), DataFile("y", (2,))), 1), Fragment(2, (DataFile("z", (0,)),), 1))
    after = (Fragment(1, (DataFile("x", (0, -2)), DataFile("n", (1, 3)), DataFile("y", (2,))), 1), before[1], Fragment(3, (), 1))
    assert changed_fields(before, after) == {1: {1}}


GROUPS = (RewriteGroup(fragments(1, 2), fragments(5)), RewriteGroup(fragments(3), fragments(6, 7)))


@pytest.mark.parametrize("stable", [False, True])
def test_a_rewritten_segment_covers_the_new_fragments(stable: bool) -> None:
    segments = (index("i", 1, 2, 4), replace(index("by address", 1, 2, 3), index_version=1), index("by id", 1, 2, 3), UNKNOWN)
    done = rewritten(segments, GROUPS, [RewrittenIndex(segments[0].uuid, b"n" * 16)], stable)
    assert covers(done) == [[4, 5], [] if stable else [1, 2, 3], [5, 6, 7] if stable else [1, 2, 3], None]
    assert [i.uuid for i in done] == [b"n" * 16, *(i.uuid for i in segments[1:])]


def test_a_rebuilt_segment_covers_the_new_fragments_and_others_of_its_index_what_stays() -> None:
    segments = (index("i", 1, 4), index("i", 2, 3, 8), index("j", 1, 3))
    new = RewrittenIndex(segments[0].uuid, b"n" * 16, details=b"d", index_version=1, rebuilt=True)
    done = rewritten(segments, GROUPS, [new], True)
    assert covers(done) == [[4, 5, 6, 7], [8], [6, 7]], "the fragments 1 and 2 are mixed: j covers them no more"
    assert (done[0].uuid, done[0].details, done[0].index_version) == (b"n" * 16, b"d", 1)


def test_a_rewrite_that_mixes_covered_and_other_fragments_is_refused() -> None:
    with pytest.raises(ValueError, match="covers only"):
        rewritten((index("i", 1),), GROUPS, [RewrittenIndex(index("i", 1).uuid, bytes(16))], False)
    with pytest.raises(ValueError, match="lacks the bitmap"):
        rewritten((UNKNOWN,), GROUPS, [RewrittenIndex(UNKNOWN.uuid, bytes(16))], False)


def test_bitmaps_follow_a_reuse_index() -> None:
    history = reuse(([1, 2], [5]), ([5, 3], [6]))
    followed = through_reuse((index("all", 1, 2, 3), index("some", 1, 4), index("new", 6), UNKNOWN, history))
    assert covers(followed) == [[6], [4], [6], None, []]
    assert followed[-1] is history


def test_moves_are_added_to_those_that_another_writer_recorded_meanwhile() -> None:
    ours, theirs = reuse(([1, 2], [5])), reuse(([3], [6]))
    indexes = with_reuse((index("all", 1, 2, 3), theirs), ours)
    assert [i.name for i in indexes] == ["all", FRAGMENT_REUSE]
    assert fragments_of(through_reuse(indexes)[0]) == BitMap([5, 6])
    unread = replace(theirs, details=theirs.details + b"\x7a\x01x")
    assert with_reuse((unread,), ours) == (unread,)


def test_an_unreadable_reuse_index_keeps_all_segments() -> None:
    external = pb.FragmentReuseIndexDetails()
    external.external.path = "x"
    for unread in (reuse(([1], [2]), unknown=b"\x7a\x01x"), replace(reuse(), details=external.SerializeToString())):
        indexes = (index("i", 1), index("i", 7), unread)
        assert through_reuse(indexes) == indexes
        assert useful(indexes, SCHEMA, (2,)) == indexes
        assert without(indexes, {1: ()}) == indexes
        with pytest.raises(UnsupportedFeatureError, match="fragment reuse index"):
            without(indexes, {1: (0,)})
    with pytest.raises(CorruptFileError):
        through_reuse((replace(unread, details=b"\xff"),))


def test_coverage_after_a_compaction_with_deferred_indexes_matches_pylance(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array(range(6), pa.int32()), "b": pa.array(range(6), pa.int32())})
    found = []
    for side in ("ours", "pylance"):
        uri = str(tmp_path / side)
        lance.write_dataset(table, uri, max_rows_per_file=3)
        lance.dataset(uri).create_scalar_index("a", "BTREE")
        lance.dataset(uri).optimize.compact_files(defer_index_remap=True)
        if side == "ours":
            Dataset.open(uri).delete("a = 1")
            Dataset.write(uri, table, mode="append")
        else:
            lance.dataset(uri).delete("a = 1")
            lance.write_dataset(table, uri, mode="append")
        found.append(covers(open_snapshot(Store(uri)).manifest.indexes))
        assert sorted(lance.dataset(uri).to_table(filter="a >= 4")["a"].to_pylist()) == [4, 4, 5, 5]
        lance.dataset(uri).optimize.optimize_indices()
        assert lance.dataset(uri).to_table(filter="a = 1").num_rows == 1
    assert found[0] == found[1] == [[2], [2]]


ROWS = pa.table({"a": range(40), "b": range(40), "t": [str(i % 7) for i in range(40)]})
NEW_AND_OLD = ROWS.slice(0, 3).set_column(0, "a", pa.array([0, 1, 50]))
CHANGES: dict[str, Callable[[lance.LanceDataset], object]] = {
    "compaction": lambda ds: ds.optimize.compact_files(),
    "update of all columns": lambda ds: ds.merge_insert("a").when_matched_update_all().execute(ROWS.slice(3, 4)),
    "update of another column": lambda ds: ds.update({"b": "b + 100"}, where="a < 10"),
    "update of the indexed columns": lambda ds: ds.update({"a": "a + 100", "t": "'x'"}, where="a < 10"),
    "update of rows beyond the index": lambda ds: ds.update({"b": "b + 100"}, where="a in (1, 35)"),
    "update and insertion": lambda ds: ds.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(NEW_AND_OLD),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["BTREE", "ZONEMAP", "BITMAP", "NGRAM"])
def test_indexes_by_stable_row_ids_follow_rows_that_move_as_with_pylance(tmp_path: Path, kind: str, change: str) -> None:
    ds = lance.write_dataset(ROWS.slice(0, 30), tmp_path / "t", max_rows_per_file=15, enable_stable_row_ids=True)
    ds.create_scalar_index("t" if kind == "NGRAM" else "a", kind)
    ds = lance.write_dataset(ROWS.slice(30), ds.uri, mode="append")
    before = open_snapshot(Store(ds.uri)).manifest
    CHANGES[change](ds)
    for version in range(before.version + 1, lance.dataset(ds.uri).version + 1):
        theirs = open_snapshot(Store(ds.uri), version=version)
        assert build(before, transaction_of(theirs), TableSettings(), 0).indexes == theirs.manifest.indexes
        before = theirs.manifest
