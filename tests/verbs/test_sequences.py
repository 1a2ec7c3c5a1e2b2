"""Random sequences of verbs, with other writers in between: after each step both libraries read what a plain model has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sample import others_slow
from tests.verbs.sequences import Run

SEEDS, STEPS = (300, 12) if os.environ.get("HYPOTHESIS_PROFILE") == "full" else (6, 8)

pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize("seed", others_slow(range(SEEDS), range(3)))
def test_verbs_match_the_model(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    run = Run(seed, str(tmp_path / "t.lance"), spark)
    try:
        run.run(STEPS)
        run.finish(planner=seed % 2 == 0)
    except Exception as e:
        e.add_note("\n".join(run.told))
        raise
