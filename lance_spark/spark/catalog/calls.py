"""CALL of an operation, from LanceProcedure.java: its rows, or the tasks of its job."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lance_spark.actions.action import Action, Job, Parameter, noted
from lance_spark.actions.all import ACTIONS
from lance_spark.actions.compact import COMPACT, WHERE
from lance_spark.actions.iceberg import ADD_FILES, CHANGELOG_VIEW
from lance_spark.errors import InvalidOptionError, LanceError, TableAlreadyExistsError, UnsupportedFeatureError
from lance_spark.spark.catalog import copy_into
from lance_spark.spark.catalog.changelog_view import changelog_view
from lance_spark.spark.catalog.tables import Place, base_of, current_at, new_table
from lance_spark.spark.catalog_settings import Catalog
from lance_spark.spark.protocol import handed_back
from lance_spark.spark.read.opened import OpenedNamespace
from lance_spark.table.changes import alter
from lance_spark.table.commit.commit import with_own_ids
from lance_spark.table.compaction.compaction import CompactionOptions
from lance_spark.table.compaction.optimize import CompactionMetrics
from lance_spark.table.scan.runner import Here
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot, reopened
from lance_spark.table.write.properties import check_properties

if TYPE_CHECKING:
    from lance_spark.namespace.partitioned.root import PartitionedVersion

NEW_TABLE, IF_NOT_EXISTS = "made", "if_not_exists"
"""Arguments that a statement gives to an operation which makes a table: the table's id, and whether there may be one."""
LOCATION, PROPERTIES = "made_at", "made_with"
"""More of these: the place of the table, and its properties besides those of the table that it is made of."""
_CORES = 8
"""The tasks that a job is planned for: a large index is built as so many segments at least."""
_EPOCH = datetime.fromtimestamp(0, UTC)


def describe(catalog: Catalog) -> dict[str, Any]:
    """The signatures of all operations, for LanceProcedure.java."""
    return {
        name: {
            "help": action.help,
            "columns": action.ddl,
            "parameters": [["table", "string", "the table, by its name or path"], *([p.name, p.type, p.help] for p in action.at("CALL"))],
            "required": 1 + sum(p.is_required for p in action.at("CALL")),
            "effect": action.effect,
            "instead": action.instead,
        }
        for name, action in ACTIONS.items()
    }


def call(
    catalog: Catalog,
    name: str,
    place: Place,
    arguments: Mapping[str, Any],
    version: int | None = None,
    results: Sequence[Sequence[str]] = (),
) -> dict[str, Any]:
    """The `rows` of an operation, or the `version` that the next `tasks` of its job are based on.

    With the rows may come a statement, `sql`, that is run in the session first; without rows, those of the statement are the operation's.
    `place` has the parts of the table's name in SQL, `called`, or its path alone, and the `catalog` of the procedure.
    After the tasks, the call comes again, with that version and the `results` of the tasks of each stage so far.
    """
    action = ACTIONS[name]
    given = _given(action, arguments)
    current = current_at(catalog, place)
    if name == COMPACT.name and isinstance(current, OpenedNamespace):
        return {"rows": _rows(action, _compacted(current.version, given))}
    snapshot = base_of(catalog, current)
    if name == CHANGELOG_VIEW.name:
        view = changelog_view(snapshot, place["called"], given)
        return {"rows": [[view.name]], "sql": view.statement(place["called"])}
    if name == ADD_FILES.name:
        return {"sql": copy_into.of_added_files(place, given)}
    if NEW_TABLE in given:
        return {"rows": _made(catalog, action, snapshot, given)}
    if not isinstance(action.work, Job):
        return {"rows": _rows(action, action.run(Here(), snapshot, given))}
    if version is None:
        return {"version": with_own_ids(snapshot).version}
    if len(results) < len(action.work.stages):
        return {"version": version}
    snapshot = reopened(snapshot, version)
    how = action.work.how(snapshot, **given)
    return {"rows": _rows(action, action.work.commit(snapshot, how, _results(results)))}


def _given(action: Action, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are not null, as values of Python.

    Raises InvalidOptionError for nulls in lists, and in the place of arguments that are needed.
    """
    given = {key: value for key, value in arguments.items() if value is not None}
    for parameter in action.at("CALL"):
        name = f"{action.name}: the argument {parameter.name}"
        if parameter.name not in given:
            if parameter.is_required and NEW_TABLE not in given:
                raise InvalidOptionError(f"{name} is null, expected {parameter.type}")
            continue
        value = given[parameter.name]
        if isinstance(value, list) and None in value:
            raise InvalidOptionError(f"{name} has null in its list")
        given[parameter.name] = _value(parameter, value)
    return given


def _value(parameter: Parameter, value: Any) -> Any:
    """A value of JSON, in which times are microseconds, as Python's."""
    if parameter.kind == "timestamp":
        try:
            return _EPOCH + timedelta(microseconds=value)
        except OverflowError as e:
            raise InvalidOptionError(f"the {parameter.name} must be in the years 1 to 9999") from e
    if parameter.kind.startswith("interval"):
        return timedelta(microseconds=value)
    return value


def _rows(action: Action, value: Any) -> list[list[Any]]:
    """The rows of a value of an operation, for JSON."""
    return [[_plain(cell) for cell in row] for row in action.rows(value)]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1)
    return dict(value) if isinstance(value, Mapping) else value


def _compacted(version: PartitionedVersion, given: dict[str, Any]) -> CompactionMetrics:
    """The result of a compaction of the tables of a partitioned namespace."""
    from lance_spark.namespace.partitioned.maintenance import compact, with_rows_for

    where = given.pop(WHERE.name, None)
    write = noted(given)
    chosen = None if where is None else with_rows_for(version, where)
    return compact(version, CompactionOptions(**given), chosen, write.noted).metrics


def _made(catalog: Catalog, action: Action, snapshot: Snapshot, given: dict[str, Any]) -> list[list[Any]]:
    """The rows of an operation that makes a table at `path`, for a table with an id instead."""
    id, if_not_exists = given.pop(NEW_TABLE), given.pop(IF_NOT_EXISTS, None)
    location, properties = given.pop(LOCATION, None), given.pop(PROPERTIES, {})
    check_properties(properties)
    try:
        with new_table(catalog, id, location) as path:
            made = action.run(Here(), snapshot, {**given, "path": path})
            if properties:
                alter.update_config(open_snapshot(snapshot.store.at(path)), properties)
            return _rows(action, made)
    except TableAlreadyExistsError as e:
        if if_not_exists is None:
            raise UnsupportedFeatureError(_NOT_REPLACED) from e
        if not if_not_exists:
            raise
    return []


_NOT_REPLACED = (
    "CREATE OR REPLACE TABLE .. CLONE: the table exists, and a clone is a new table; write DROP TABLE first, or INSERT OVERWRITE to keep "
    "its versions"
)


def tasks(
    catalog: Catalog,
    name: str,
    place: Place,
    arguments: Mapping[str, Any],
    version: int,
    results: Sequence[Sequence[str]],
) -> list[bytes]:
    """The tasks, pickled, of the stage of an operation's job that follows those with these results."""
    action, snapshot = ACTIONS[name], reopened(base_of(catalog, current_at(catalog, place)), version)
    job = _job(action)
    how = job.how(snapshot, **_given(action, arguments))
    planned = job.stages[len(results)].tasks(snapshot, how, _CORES, _results(results))
    return [pickle.dumps(task) for task in planned]


def run(name: str, stage: int, task: bytes) -> bytes:
    """The result of a task, or its error: Spark repeats a task that fails, which is in vain for our errors."""
    try:
        return pickle.dumps(_job(ACTIONS[name]).stages[stage].run(pickle.loads(task)))
    except LanceError as e:
        return pickle.dumps(e)


def _job(action: Action) -> Job[Any]:
    assert isinstance(action.work, Job)
    return action.work


def _results(stages: Sequence[Sequence[str]]) -> list[list[Any]]:
    return [[_result(text) for text in texts] for texts in stages]


def _result(text: str) -> Any:
    value = handed_back(text)
    if isinstance(value, LanceError):
        raise value
    return value
