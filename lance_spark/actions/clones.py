"""Clones: tables with the files of another one, or with copies of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from lance_spark.actions.action import AT, REQUIRED, Action, Parameter, Said, absent, version_at
from lance_spark.table.maintenance import clone
from lance_spark.table.versions.snapshot import Snapshot


def _cloning(make: Callable[..., Snapshot]) -> Callable[..., Any]:
    def work(
        snapshot: Snapshot,
        path: str,
        version: str | None = None,
        timestamp: datetime | None = None,
        **shown: Any,
    ) -> list[tuple[str, int]]:
        made = make(version_at(snapshot, version, timestamp), snapshot.store.at(path), **shown)
        return [(made.store.uri, made.version)]

    return work


_PYLANCE = "the name in pylance"
_VERSION, _TIMESTAMP = AT
_NO_TIME = absent("restoreToTimestamp and the option timestamp open a version by its time")
_PARAMETERS = (
    Parameter("path", "string", "where the clone is made", REQUIRED, says={"Dataset": Said(_PYLANCE, "target_path")}),
    Parameter(_VERSION.name, _VERSION.kind, _VERSION.help, says={"Dataset": Said(_PYLANCE, "reference")}),
    Parameter(
        _TIMESTAMP.name,
        _TIMESTAMP.kind,
        _TIMESTAMP.help,
        says={"Dataset": _NO_TIME, "LanceTable": _NO_TIME},
    ),
)
ACTIONS = (
    Action(
        "shallow_clone",
        "create a table that refers to the files of this one",
        {"path": "string", "version": "bigint"},
        _cloning(clone.shallow_clone),
        _PARAMETERS,
        effect="keeps",
        methods={"Dataset": ("shallow_clone",), "LanceTable": ("shallowClone",)},
        see="See [clones](branches-and-tags.md).",
    ),
    Action(
        "deep_clone",
        "create a table with copies of all files of one version",
        {"path": "string", "version": "bigint"},
        _cloning(clone.deep_clone),
        _PARAMETERS,
        effect="keeps",
        methods={"Dataset": ("deep_clone",), "LanceTable": ("deepClone",)},
        tracks=True,
        see="See [clones](branches-and-tags.md).",
    ),
)
