"""Pairs of row ids of two branches."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata import branch_merges
from lance_spark.metadata.branch_merges import MERGE, NO_IDS, BranchMerge, IdRuns, record_of, with_record


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def pairs(runs: IdRuns) -> dict[int, int]:
    columns = zip(runs.theirs.tolist(), runs.ours.tolist(), runs.counts.tolist(), strict=True)
    return {theirs + i: ours + i for theirs, ours, count in columns for i in range(count)}


@pytest.mark.parametrize("seed", range(30))
def test_later_pairs_replace_those_with_one_of_their_ids(seed: int) -> None:
    choose = np.random.default_rng(seed)
    known = NO_IDS
    expected: dict[int, int] = {}
    for _ in range(6):
        theirs, ours = (choose.choice(40, 8, replace=False).astype(np.uint64) for _ in range(2))
        if choose.random() < 0.5:  # runs
            theirs, ours = (np.arange(start, start + 8, dtype=np.uint64) for start in choose.integers(0, 32, 2))
        known = known.followed_by(IdRuns.of(theirs, ours))
        gone = set(ours.tolist())
        expected = {a: b for a, b in expected.items() if a not in theirs and b not in gone} | dict(zip(theirs.tolist(), ours.tolist()))
        assert pairs(known) == expected
        assert pairs(known.swapped) == {b: a for a, b in expected.items()}
        found, there = known.ours_of(np.arange(50, dtype=np.uint64))
        assert {i: int(found[i]) for i in np.flatnonzero(there).tolist()} == expected


def test_a_record_is_read_back_and_damage_is_named() -> None:
    merge = BranchMerge("dev", "a1", 7, "7.txn", 0, 5, IdRuns.of(ids(5, 6, 9), ids(0, 1, 2)))
    config = with_record({"own": "kept"}, {MERGE: merge.to_json()}, 8, 20)
    found = record_of(config, "dev")
    assert found is not None
    assert (config["own"], found.into, pairs(found.ids)) == ("kept", 8, {5: 20, 6: 21, 9: 22})
    assert record_of(config, None) is None
    for text in ("", "[]", "{}", '{"branch": 1}'):
        with pytest.raises(CorruptFileError, match="merged branch is damaged"):
            record_of({"lance_spark.merged.dev": text}, "dev")


def test_more_runs_than_a_manifest_should_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch_merges, "MOST_RUNS", 2)
    merge = BranchMerge("dev", "a1", 7, "7.txn", 0, 5, IdRuns.of(ids(5, 7, 9), ids(0, 1, 2)))
    with pytest.raises(UnsupportedFeatureError, match="primary key"):
        with_record({}, {MERGE: merge.to_json()}, 8, 20)
