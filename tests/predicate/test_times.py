"""TIME and INTERVAL literals in filters: they mean what they mean in Spark, for columns of every unit, with and without an index."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError

TIMES = [datetime.time(10), datetime.time(11, 30), datetime.time(0), None]
SPANS = [datetime.timedelta(days=1), datetime.timedelta(hours=2), datetime.timedelta(seconds=-5), None]
UNITS = ("s", "ms", "us", "ns")

CONDITIONS: list[tuple[str, list[int]]] = [
    ("t = TIME '10:00:00'", [0]),
    ("t = TIME '10:00:00.000001'", []),
    ("t > TIME '9:59'", [0, 1]),
    ("t IN (TIME '10:00', TIME '11:30:00')", [0, 1]),
    ("t < TIME '10:00:00.5' AND t <> TIME '00:00'", [0]),
    ("d > INTERVAL '1' HOUR", [0, 1]),
    ("d = INTERVAL 1 DAY", [0]),
    ("d = INTERVAL '1 day'", [0]),
    ("INTERVAL 24 hours = d", [0]),
    ("d = INTERVAL '1 00:00:00' DAY TO SECOND", [0]),
    ("d = INTERVAL '-0 00:00:05' DAY TO SECOND", [2]),
    ("d = INTERVAL '02:00' HOUR TO MINUTE", [1]),
    ("d < INTERVAL 1 HOUR 60 MINUTES", [2]),
    ("d <= INTERVAL '1 hour 60 minutes'", [1, 2]),
    ("d = -INTERVAL '5' SECOND", [2]),
    ("d = INTERVAL -5 SECOND", [2]),
    ("d < INTERVAL '-4.999999' SECOND", [2]),
    ("d < INTERVAL '1' DAY + INTERVAL '2' HOUR", [0, 1, 2]),
    ("d = INTERVAL '1' DAY - INTERVAL '22' HOUR", [1]),
    ("d BETWEEN INTERVAL -1 DAY AND INTERVAL 2 HOURS", [1, 2]),
    ("d IN (INTERVAL 1 DAY, INTERVAL '-5.000001' SECOND)", [0]),
    ("interval - 3 = 0 AND interval > 1", [2]),
]


@pytest.fixture(scope="module", params=UNITS)
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Dataset]:
    """The same rows without indexes, and with some of each kind."""
    time = pa.time32(request.param) if request.param in ("s", "ms") else pa.time64(request.param)
    columns: dict[str, Any] = {"id": range(4), "interval": [1, 2, 3, 4]}
    columns["t"] = pa.array(TIMES, pa.time64("us")).cast(time)
    columns["d"] = pa.array(SPANS, pa.duration("us")).cast(pa.duration(request.param))
    folder = tmp_path_factory.mktemp("times")
    made = [Dataset.write(folder / "plain", pa.table(columns))]
    for kind in ("BTREE", "BITMAP", "ZONEMAP"):
        made.append(Dataset.write(folder / kind, pa.table(columns)).create_scalar_index("t", kind).create_scalar_index("d", kind))
    return made


@pytest.mark.matrix
@pytest.mark.parametrize(("condition", "ids"), CONDITIONS)
def test_times_and_intervals_select_the_rows_that_spark_would(tables: list[Dataset], condition: str, ids: list[int]) -> None:
    for table in tables:
        assert table.scan(["id"], filter=condition).to_table()["id"].to_pylist() == ids


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("d = INTERVAL '2' MONTH", "do not support intervals in month; expected: microsecond, .*, week"),
        ("d > INTERVAL '1 25:00:00' DAY TO SECOND", "is not an interval of DAY TO SECOND"),
        ("d > INTERVAL '1:00' SECOND TO HOUR", "SECOND TO HOUR is not a span"),
        ("d > INTERVAL '1.5' DAY", "only seconds may have a fraction"),
        ("d > INTERVAL '1'", "expected numbers with units"),
        ("d = INTERVAL 99999999999999 DAYS", "is too long"),
        ("d = d + INTERVAL 1 DAY", "calculates with INTERVAL, which filters do not support"),
        ("t = TIME '25:00'", r"is not a time of day; expected hh:mm"),
        ("t = TIME '10:00:00.0000001'", r"is not a time of day; expected hh:mm"),
        ("CAST(interval AS TIME) = t", "which filters do not support"),
    ],
)
def test_what_filters_cannot_say_is_refused_with_a_hint(tmp_path: Path, condition: str, message: str) -> None:
    table = Dataset.write(tmp_path, pa.table({"interval": [1], "t": pa.array(TIMES[:1]), "d": pa.array(SPANS[:1])}))
    with pytest.raises(InvalidOptionError, match=message):
        table.scan(filter=condition)
