"""What a table or branch knows of the branches that were merged into it.

The commit of a merge has the property `MERGE`: the branch that was merged, up to which version. From it,
the config of the new version gets the record `lance_spark.merged.<branch>`, which later versions keep, so
that neither a cleanup nor another writer loses it. The next merge of the two branches starts from there.

Without a primary key, rows are known by their stable row ids. A row that a merge inserts gets another id
than it has in its own branch. The record has the pairs of ids, as runs of consecutive ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError

MERGE = "lance_spark.merge"
"""The property of a transaction that merges a branch: a `BranchMerge` as JSON."""
MERGED = "lance_spark.merged."
"""How the keys of the config begin whose values are records; the name of the branch follows."""
MAIN = "main"
MOST_RUNS = 10_000
"""Runs of row ids in a record, which is a part of each manifest: about 200 kB of JSON."""


@dataclass(frozen=True)
class IdRuns:
    """Pairs of row ids (uint64) of the same rows in two branches: `counts[i]` ids from `theirs[i]`, and from `ours[i]`."""

    theirs: np.ndarray
    ours: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, theirs: np.ndarray, ours: np.ndarray) -> IdRuns:
        """The pairs of these ids."""
        order = np.argsort(theirs)
        theirs, ours = theirs[order], ours[order]
        theirs_follow = theirs[1:] == theirs[:-1] + np.uint64(1)
        ours_follow = ours[1:] == ours[:-1] + np.uint64(1)
        follows = theirs_follow & ours_follow
        starts = np.flatnonzero(np.append(True, ~follows)[: len(theirs)])
        counts = np.diff(np.append(starts, len(theirs))).astype(np.uint64)
        return cls(theirs[starts], ours[starts], counts)

    @cached_property
    def swapped(self) -> IdRuns:
        """The same pairs, seen from the other branch."""
        order = np.argsort(self.ours)
        return IdRuns(self.ours[order], self.theirs[order], self.counts[order])

    def followed_by(self, later: IdRuns) -> IdRuns:
        """The pairs of both; a later pair replaces those with one of its ids, which are of rows that were made again."""
        kept = self._without(later)
        theirs, ours, counts = (np.concatenate(pair) for pair in zip(vars_of(kept), vars_of(later), strict=True))
        order = np.argsort(theirs)
        return IdRuns(theirs[order], ours[order], counts[order])

    def _without(self, other: IdRuns) -> IdRuns:
        """The pairs that have no id of a pair in `other`."""
        meets = _meet(self.theirs, self.counts, other.theirs, other.counts)
        meets |= _meet(self.ours, self.counts, other.ours, other.counts)
        if not meets.any():
            return self
        some, rest = self._at(meets), self._at(~meets)
        counts = some.counts.astype(np.int64)
        within = (np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)).astype(np.uint64)
        theirs, ours = (np.repeat(starts, counts) + within for starts in (some.theirs, some.ours))
        gone = other.ours_of(theirs)[1] | other.swapped.ours_of(ours)[1]
        split = IdRuns.of(theirs[~gone], ours[~gone])
        return IdRuns(*(np.concatenate(pair) for pair in zip(vars_of(rest), vars_of(split), strict=True)))

    def _at(self, runs: np.ndarray) -> IdRuns:
        return IdRuns(*(column[runs] for column in vars_of(self)))

    def ours_of(self, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ids of rows in our branch, and for which rows there are such (bool)."""
        if not len(self.theirs):
            return theirs, np.zeros(len(theirs), bool)
        run = np.maximum(np.searchsorted(self.theirs, theirs, "right").astype(np.int64) - 1, 0)
        known = (theirs >= self.theirs[run]) & (theirs < self.theirs[run] + self.counts[run])
        return np.where(known, theirs - self.theirs[run] + self.ours[run], theirs), known


def _meet(starts: np.ndarray, counts: np.ndarray, others: np.ndarray, other_counts: np.ndarray) -> np.ndarray:
    """Which runs of ids have an id of one of the other runs, which are disjoint (bool)."""
    if not len(others):
        return np.zeros(len(starts), bool)
    order = np.argsort(others)
    first, last = others[order], others[order] + other_counts[order]
    # The first of the other runs that ends after the start of this one.
    place = np.searchsorted(last, starts, "right")
    is_there = place < len(first)
    meets: np.ndarray = is_there & (first[np.minimum(place, len(first) - 1)] < starts + counts)
    return meets


def vars_of(runs: IdRuns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The columns of the runs."""
    return runs.theirs, runs.ours, runs.counts


_NONE = np.empty(0, np.uint64)
NO_IDS = IdRuns(_NONE, _NONE, _NONE)


@dataclass(frozen=True)
class BranchMerge:
    """The merge of a branch up to `version`, whose manifest has this `identity`, into the version `into` of another branch.

    `branch_id` distinguishes the branch from earlier ones of the same name; it is empty for the main branch.

    Both branches have the same rows under ids below `same_below`. Other rows are the same if `ids` has the pair.
    If `published`, the version `into` is the version `version` of the branch.
    """

    branch: str
    branch_id: str
    version: int
    identity: str
    into: int
    same_below: int
    ids: IdRuns = NO_IDS
    published: bool = False

    def to_json(self) -> str:
        """The record as text."""
        record = {
            "branch": self.branch,
            "branch_id": self.branch_id,
            "version": self.version,
            "identity": self.identity,
            "into": self.into,
            "same_below": self.same_below,
            "ids": [column.tolist() for column in vars_of(self.ids)],
            "published": self.published,
        }
        return json.dumps(record)

    @classmethod
    def parse(cls, text: str, where: str) -> BranchMerge:
        """Read a record. Raises CorruptFileError, which names `where` it stands."""
        try:
            found = json.loads(text)
            runs = IdRuns(*(np.array(column, np.uint64) for column in found["ids"]))
            numbers = [int(found[key]) for key in ("version", "into", "same_below")]
            version, into, same_below = numbers
            branch, branch_id, identity = (str(found[key]) for key in ("branch", "branch_id", "identity"))
            return cls(branch, branch_id, version, identity, into, same_below, runs, bool(found["published"]))
        except (ValueError, TypeError, KeyError, OverflowError) as e:
            raise CorruptFileError(f"{where}: the record of a merged branch is damaged: {e}") from e


def publishes(properties: Mapping[str, str]) -> bool:
    """Whether a transaction with these properties makes a branch what another one is."""
    return MERGE in properties and BranchMerge.parse(properties[MERGE], f"the property {MERGE}").published


def key_of(branch: str | None) -> str:
    """The key of the config whose value is the record of a branch (None: the main one)."""
    return f"{MERGED}{branch or MAIN}"


def record_of(config: Mapping[str, str], branch: str | None) -> BranchMerge | None:
    """The record of a branch (None: the main one) in the config of another; None if it was not merged. Raises CorruptFileError."""
    key = key_of(branch)
    return BranchMerge.parse(config[key], f"the config key {key}") if key in config else None


def with_record(config: Mapping[str, str], properties: Mapping[str, str], version: int, next_row_id: int) -> Mapping[str, str]:
    """The config of `version`, made by a transaction with these properties.

    In the property, the ids of inserted rows in our branch count from 0; they are the next ones from `next_row_id`.
    """
    if MERGE not in properties:
        return config
    merge = BranchMerge.parse(properties[MERGE], f"the property {MERGE}")
    ids = replace(merge.ids, ours=merge.ids.ours + np.uint64(next_row_id))
    before = record_of(config, merge.branch)
    if before is not None and (before.branch_id, before.same_below) == (merge.branch_id, merge.same_below):
        ids = before.ids.followed_by(ids)
    if len(ids.theirs) > MOST_RUNS:
        raise UnsupportedFeatureError(
            f"the rows that were merged from the branch {merge.branch!r} have row ids in more than {MOST_RUNS} runs; "
            "give the table a primary key, so that rows are known by it"
        )
    return {**config, key_of(merge.branch): replace(merge, into=version, ids=ids).to_json()}
