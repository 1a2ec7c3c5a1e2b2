"""What a process keeps of the keys that it has read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lance_spark import Dataset
from lance_spark.table.mem_wal.keys import read_once
from lance_spark.table.scan.parts import Part
from lance_spark.table.scan.plan import ScanPlan, plan_parts


def test_the_parts_of_a_fragment_have_rows_of_their_own(tmp_path: Path) -> None:
    snapshot = Dataset.write(tmp_path / "t", pa.table({"id": range(6)})).snapshot
    [fragment] = snapshot.manifest.fragments
    for start, stop in ((0, 2), (2, 6), (0, 6), (0, 2)):
        task = plan_parts(snapshot, ScanPlan(("id",)), [Part(fragment, start, stop)])
        assert read_once(task)["id"].to_pylist() == list(range(start, stop))
