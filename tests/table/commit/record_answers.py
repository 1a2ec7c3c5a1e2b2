"""Records what pylance answers to every pair of changes: `make conflict-answers`, after pylance or the changes are others."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import lance

from tests.table.commit.changes import make_table
from tests.table.commit.test_every_conflict import ANSWERS, PAIRS, Table, answer, by_pylance

if __name__ == "__main__":
    answers: dict[str, dict[str, dict[str, str]]] = {}
    with tempfile.TemporaryDirectory() as name:
        tables = {}
        for stable_row_ids, kind in ((False, "row addresses"), (True, "stable row ids")):
            make_table(Path(name) / kind / "base", stable_row_ids)
            tables[stable_row_ids] = Table(Path(name) / kind, stable_row_ids)
            answers[kind] = {}
        for number, (stable_row_ids, ours, theirs) in enumerate(PAIRS):
            table, place = tables[stable_row_ids], Path(name) / str(number)
            outcome = by_pylance(table, place, ours, theirs)
            answers[table.folder.name].setdefault(ours, {})[theirs] = answer(outcome, place)
    ANSWERS.write_text(json.dumps({"pylance": lance.__version__, **answers}, indent=1) + "\n")
    print(f"{len(PAIRS)} answers of pylance {lance.__version__}")
