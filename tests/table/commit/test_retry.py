"""A change is planned again only after conflicts that another try can solve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError
from lance_spark.table.commit.retry import retried
from lance_spark.table.versions.snapshot import Snapshot


@pytest.mark.parametrize(("retryable", "plans"), [(False, 1), (True, 10)])
def test_a_conflict_that_no_try_can_solve_ends_the_tries(tmp_path: Path, retryable: bool, plans: int) -> None:
    planned = []

    def plan(snapshot: Snapshot) -> Callable[[], NoReturn]:
        planned.append(snapshot.version)

        def commit() -> NoReturn:
            raise CommitConflictError("another writer was first", retryable=retryable)

        return commit

    with pytest.raises(CommitConflictError, match="another writer was first"):
        retried(Dataset.write(tmp_path / "t.lance", pa.table({"id": [1]})).snapshot, plan)
    assert planned == [1] * plans
