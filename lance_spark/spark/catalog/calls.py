"""CALL of a procedure, from LanceProcedure.java: its rows, or the tasks of its job."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from lance_spark.errors import InvalidOptionError, LanceError, TableAlreadyExistsError
from lance_spark.spark.catalog.connector import SHOWN
from lance_spark.spark.catalog.iceberg import ICEBERG
from lance_spark.spark.catalog.procedures import PROCEDURES as OWN
from lance_spark.spark.catalog.procedures import Job
from lance_spark.spark.catalog.tables import Place, latest_at, new_table
from lance_spark.spark.catalog_settings import Catalog
from lance_spark.spark.protocol import handed_back
from lance_spark.table.commit.commit import with_own_ids
from lance_spark.table.versions.snapshot import Snapshot, reopened

PROCEDURES = {**OWN, **ICEBERG, **SHOWN}
"""All procedures of the SQL catalog, by name."""
NEW_TABLE, IF_NOT_EXISTS = "made", "if_not_exists"
"""Arguments that a statement gives to a procedure which makes a table: the table's id, and whether there may be one."""


def describe(catalog: Catalog) -> dict[str, Any]:
    """The signatures of all procedures, for LanceProcedure.java."""
    return {
        name: {
            "columns": p.columns,
            "parameters": [["table", "string"], *p.parameters.items()],
            "required": p.required + 1,
            "stages": len(p.work.stages) if isinstance(p.work, Job) else 0,
        }
        for name, p in PROCEDURES.items()
    }


def call(catalog: Catalog, name: str, place: Place, arguments: Mapping[str, Any], job: Mapping[str, Any] | None = None) -> Any:
    """The rows of a procedure.

    For one with a job, the first call without `job` returns the version that it is based on, and the last one, with `version` and the
    `results` of the tasks, the rows.
    """
    work = PROCEDURES[name].work
    given = _given(name, arguments)
    snapshot = latest_at(catalog, place)
    if NEW_TABLE in given:
        return _made(catalog, work, snapshot, given)
    if not isinstance(work, Job):
        return [list(row) for row in work(snapshot, **given)]
    if job is None:
        return with_own_ids(snapshot).version
    return [list(row) for row in work.commit(reopened(snapshot, job["version"]), _results(job["results"]), **given)]


def _given(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are not null. Raises InvalidOptionError for nulls in lists, and in the place of arguments that are needed."""
    given = {key: value for key, value in arguments.items() if value is not None}
    needed = list(PROCEDURES[name].parameters.items())[: PROCEDURES[name].required]
    for key, kind in needed:
        if key not in given and NEW_TABLE not in given:
            raise InvalidOptionError(f"{name}: the argument {key} is null, expected {kind}")
    for key, value in given.items():
        if isinstance(value, list) and None in value:
            raise InvalidOptionError(f"{name}: the argument {key} has null in its list")
    return given


def _made(catalog: Catalog, work: Any, snapshot: Snapshot, given: dict[str, Any]) -> list[list[Any]]:
    """The rows of a procedure that makes a table at `path`, for a table with an id instead."""
    id, if_not_exists = given.pop(NEW_TABLE), given.pop(IF_NOT_EXISTS)
    try:
        with new_table(catalog, id) as path:
            return [list(row) for row in work(snapshot, path=path, **given)]
    except TableAlreadyExistsError:
        if not if_not_exists:
            raise
    return []


def tasks(
    catalog: Catalog, name: str, place: Place, arguments: Mapping[str, Any], version: int, results: Sequence[Sequence[str]]
) -> list[bytes]:
    """The tasks, pickled, of the stage of a procedure's job that follows those with these results."""
    job = PROCEDURES[name].work
    assert isinstance(job, Job)
    snapshot = reopened(latest_at(catalog, place), version)
    return [pickle.dumps(task) for task in job.stages[len(results)].tasks(snapshot, _results(results), **_given(name, arguments))]


def run(name: str, stage: int, task: bytes) -> bytes:
    """The result of a task, or its error: Spark repeats a task that fails, which is in vain for our errors."""
    job = PROCEDURES[name].work
    assert isinstance(job, Job)
    try:
        return pickle.dumps(job.stages[stage].run(pickle.loads(task)))
    except LanceError as e:
        return pickle.dumps(e)


def _results(stages: Sequence[Sequence[str]]) -> list[list[Any]]:
    return [[_result(text) for text in texts] for texts in stages]


def _result(text: str) -> Any:
    value = handed_back(text)
    if isinstance(value, LanceError):
        raise value
    return value
