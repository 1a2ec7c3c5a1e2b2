"""The changes from one version to another, applied to the rows of the first, give the rows of the second, whoever made the versions."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from lance_spark.errors import UnsupportedFeatureError
from tests.table.feed.histories import History, check_replay

SEEDS = 300 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 6
STEPS = 10


def history(place: Path, seed: int, stable: bool) -> History:
    made = History(str(place / "t.lance"), seed, stable)
    for _ in range(STEPS):
        made.step()
    return made


def check(made: History, begin: int, end: int, net: bool) -> None:
    """Check the changes. Those of a struct are refused if fields in it have other types since."""
    try:
        check_replay(made, begin, end, net)
    except UnsupportedFeatureError as e:
        if "the type of column 'p'" not in str(e):
            raise
        check_replay(made, begin, end, net, without=("p",))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_changes_replay_to_the_rows_of_the_last_version(tmp_path: Path, seed: int) -> None:
    made = history(tmp_path, seed, stable=True)
    last, chance = made.table.version, random.Random(seed)
    for begin, end in [(0, last), (1, last), *(sorted(chance.sample(range(last + 1), 2)) for _ in range(2))]:
        for net in (False, True):
            check(made, begin, end, net)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_without_stable_row_ids_changes_replay_or_are_refused(tmp_path: Path, seed: int) -> None:
    made = history(tmp_path, seed, stable=False)
    replays = 0
    for end in range(2, made.table.version + 1):
        operation = made.operation(end)
        try:
            check(made, end - 1, end, net=False)
        except UnsupportedFeatureError:
            assert operation == "Restore"
            continue
        replays += 1
    assert replays
