"""`verify`: check the files of a version."""

from __future__ import annotations

from typing import Any

from lance_spark.actions.action import Action, Command, Parameter
from lance_spark.table.indexes.check import check_indexes
from lance_spark.table.maintenance import verify as checked
from lance_spark.table.maintenance.progress import Track, untracked
from lance_spark.table.maintenance.verify import Report
from lance_spark.table.versions.snapshot import Snapshot


def verify(snapshot: Snapshot, decode: bool = True, track: Track = untracked) -> Report:
    """The report on a version; with `decode`, indexes are asked for a sample of their rows."""
    return checked.verify(snapshot, decode, track, check_indexes(snapshot) if decode else ())


def _rows(report: Report) -> list[tuple[Any, ...]]:
    problems = [f"{p.kind}: {p.path}: {p.message}" for p in report.problems]
    return [(report.version, report.files, report.ok, problems, list(report.orphans))]


VERIFY = Action(
    "verify",
    "check that every file of a version exists and is intact",
    {
        "version": "bigint",
        "files": "bigint",
        "ok": "boolean",
        "problems": "array<string>",
        "orphans": "array<string>",
    },
    verify,
    (Parameter("decode", "boolean", "decode all values, and not only check sizes and numbers of rows", True),),
    methods={"Dataset": ("verify",), "LanceTable": ("verify",)},
    command=Command(
        about="The exit code is 1 if there are problems.",
        told=lambda outcome: str(outcome.value),
        plain=lambda outcome: {"ok": outcome.value.ok, "report": outcome.value},
        code=lambda outcome: 0 if outcome.value.ok else 1,
        of_version=True,
    ),
    as_rows=_rows,
    tracks=True,
)
ACTIONS = (VERIFY,)
