"""Materialized views: what Spark's part (MaterializedView.java) asks to create, refresh and explain one.

Spark analyses the query of a view, and says which inputs and columns it reads and into which units its result divides
(ViewQuery.java). Here each input is opened and pinned to one version, and compared with the one that the view has read. A plan
says whether there is nothing to do, or the changed units are computed anew, or all rows, and why. The record of the view
(see `metadata.view_records`) is committed with the rows.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lance_spark.errors import InvalidOptionError, LanceError, UnsupportedFeatureError
from lance_spark.metadata.numbered_writes import APP_ID, APP_VERSION, COPY_BITS, VIEWS
from lance_spark.metadata.view_records import VIEW, ViewInput, ViewRecord, record_of
from lance_spark.namespace.protocol import TRANSACTION
from lance_spark.spark.catalog.namespaces import list_tables
from lance_spark.spark.catalog.tables import Place, latest_at
from lance_spark.spark.catalog_settings import Catalog
from lance_spark.spark.options.known import parse_options
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.read.opened import open_version
from lance_spark.table.changes.row_changes import changes_noted
from lance_spark.table.versions.history import transaction_of
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.views.inputs import InputChanges, changes_since, now_read, pending_rows, read_input, written_by_others

_PARTS = ("filter", "columns", "limit", "fragments", "nearest", "fullTextQuery", "hybrid", "readChangeFeed")
"""Options of reads that choose a part of a table, or something else of it."""

_REFERENCES = ("version", "tag", "timestamp")


@dataclass(frozen=True)
class _Input:
    """An input, pinned."""

    snapshot: Snapshot
    read: ViewInput


def view_query(catalog: Catalog, place: Place) -> dict[str, Any]:
    """The query of a view, where its names are looked up, and what its rows are of. Raises UnsupportedFeatureError for another table."""
    view, record = _view_at(catalog, place)
    return {
        "query": record.query,
        "current": record.catalog,
        "namespace": record.namespace,
        "inputs": [{"version": each.version, "branch": each.branch} for each in record.inputs],
        "has_row": record.has_row,
        "adds_only": False,
        "version": view.version,
    }


def view_list(catalog: Catalog, id: Sequence[str]) -> list[list[Any]]:
    """The views of a namespace: name, version, versions of inputs that they have not read, rows changed in these, and query."""
    found = []
    for name in list_tables(catalog, id):
        try:
            view = latest_at(catalog, {"id": [*id, name]})
            record = record_of(view.manifest.config)
        except LanceError:
            continue  # a table that cannot be opened is no view that can be refreshed
        if record is None:
            continue
        behind, pending = _staleness(catalog, record)
        found.append([".".join(id), name, view.version, behind, pending, record.query])
    return found


def _staleness(catalog: Catalog, record: ViewRecord) -> tuple[int | None, int | None]:
    """The versions and the changed rows of the inputs that a view has not read; None if they are unknown."""
    behind, pending = 0, 0
    for each in record.inputs:
        if each.reference and not each.tag:
            continue  # a version, which stays
        try:
            latest = now_read(each, catalog.at)
        except LanceError:
            return None, None
        if latest is None or latest.version < each.version:
            return None, None
        rows = pending_rows(each, latest)
        if rows is None:
            return None, None
        behind += latest.version - each.version
        pending += rows
    return behind, pending


def view_plan(
    catalog: Catalog,
    query: str,
    namespace: Sequence[str],
    shape: Mapping[str, Any],
    place: Place | None = None,
    full: bool = False,
    makes: bool = False,
    *,
    current: str,
) -> dict[str, Any]:
    """What is done to refresh the view at a place, or if it `makes` one, to make it, also in the place of that one.

    `current` is the name of the current catalog, `shape` what Spark knows of the query.
    """
    view, before = (None, None) if place is None else _view_at(catalog, place)
    inputs = [_opened(given) for given in shape["inputs"]]
    if view is not None and any(each.read.uri == view.store.uri for each in inputs):
        raise UnsupportedFeatureError(f"{view}: a materialized view cannot read itself")
    has_row = shape["by_row"] and not shape["why"] and inputs[0].snapshot.manifest.has_stable_row_ids
    read = tuple(each.read for each in inputs)
    based_on = 0 if view is None or makes else view.version
    number = _next_number(before)
    record = ViewRecord(
        query,
        current,
        tuple(namespace),
        shape["columns"],
        has_row,
        read,
        number,
        based_on,
        meaning=hashlib.sha256(shape["meaning"].encode()).hexdigest(),
        settings=shape["settings"],
    )
    if view is None or before is None or makes:
        changes = [InputChanges(each.snapshot.version, each.snapshot.version) for each in inputs]
        refresh = _Refresh("full", "", replaces=True)
    else:
        changes = [_changes(before, i, each) for i, each in enumerate(inputs)]
        refresh = _refresh(view, before, record, shape, changes, full)
    if refresh.replaces:
        record = replace(record, based_on=0)
    return {
        "mode": refresh.mode,
        "why": refresh.why,
        "replaces": refresh.replaces,
        "adds_only": refresh.adds_only,
        "has_row": has_row,
        "number": str(number),
        "based_on": based_on,
        "identity": "" if view is None else view.identity,
        "inputs": [_told(each, change) for each, change in zip(inputs, changes, strict=True)],
        "properties": _properties(record, refresh.replaces),
        "end": {"deleted": 0, "inserted": 0, "version": based_on},
    }


@dataclass(frozen=True)
class _Refresh:
    """What a refresh does: `none`, `incremental` or `full`, and why not less.

    If it `replaces` the table, its columns may change. With `adds_only`, no row leaves the view.
    """

    mode: str
    why: str
    replaces: bool = False
    adds_only: bool = False


def _refresh(
    view: Snapshot,
    before: ViewRecord,
    record: ViewRecord,
    shape: Mapping[str, Any],
    changes: Sequence[InputChanges],
    full: bool,
) -> _Refresh:
    """The least that makes the view what its query is now."""
    if before.schema != record.schema or before.has_row != record.has_row:
        return _Refresh("full", "the columns of the query are others than those of the view", replaces=True)
    if full:
        return _Refresh("full", "FULL was asked for")
    if why := written_by_others(view, before.based_on, before.version):
        return _Refresh("full", why)
    meant_otherwise = _meant_otherwise(before, record)
    if not meant_otherwise and not any(each.is_changed for each in changes):
        return _Refresh("none", "no input has changed")
    unknown = [each.unknown for each in changes if each.unknown]
    if why := shape["why"] or next(iter(unknown), "") or meant_otherwise:
        return _Refresh("full", why)
    if not shape["by_row"] or record.has_row:
        return _Refresh("incremental", "")
    others = any(each.is_changed for each in changes[1:])
    if others or not changes[0].only_adds:
        name = record.inputs[0].name
        return _Refresh("full", f"{name} has no stable row ids, by which the rows of the view that a change concerns would be known")
    return _Refresh("incremental", "", adds_only=True)


def _meant_otherwise(before: ViewRecord, now: ViewRecord) -> str:
    """Why the same query gives other values of the same rows than at the last refresh; empty if it gives the same."""
    if before.meaning != now.meaning:
        return "a view, a function or a literal such as DATE 'today' in the query is another than at the last refresh"
    for name, value in now.settings.items():
        if (known := before.settings.get(name)) != value:
            return f"the {name} of the session is {value}, and was {known} at the last refresh"
    return ""


def _changes(before: ViewRecord, number: int, given: _Input) -> InputChanges:
    if number >= len(before.inputs):
        version = given.snapshot.version
        return InputChanges(version, version, is_changed=True, only_adds=False, unknown=f"{given.read.name} was not read before")
    return changes_since(before.inputs[number], given.read, given.snapshot)


def _told(given: _Input, change: InputChanges) -> dict[str, Any]:
    """An input of a plan, for Java."""
    what = change.unknown or ("rows are added" if change.only_adds else "rows have changed")
    return {
        "name": given.read.name,
        "old": change.old,
        "version": change.new,
        "branch": given.read.branch,
        "changed": change.is_changed,
        "net": "true" if given.snapshot.manifest.has_stable_row_ids else "false",
        "shown": what if change.is_changed else "none",
    }


def view_end(catalog: Catalog, place: Place, number: str) -> dict[str, Any]:
    """Whether the refresh with a number is committed, and its figures; it is not if another one was committed first."""
    view, record = _view_at(catalog, place)
    if record.number != int(number):
        return {"done": False}
    refreshed = open_snapshot(view.store, version=record.version, allow_other_stores=view.allow_other_stores)
    changes = changes_noted(record.version, transaction_of(refreshed).properties)
    figures = {"deleted": changes.num_deleted_rows, "inserted": changes.num_inserted_rows, "version": record.version}
    return {"done": True, **figures}


def _view_at(catalog: Catalog, place: Place) -> tuple[Snapshot, ViewRecord]:
    if TRANSACTION in catalog.settings and "id" in place:
        raise UnsupportedFeatureError("a transaction contains no statement about a materialized view; COMMIT or ROLLBACK first")
    view = latest_at(catalog, place)
    record = record_of(view.manifest.config)
    if record is None:
        raise UnsupportedFeatureError(f"{view} is a table, and no materialized view")
    return view, record


def _opened(given: Mapping[str, Any]) -> _Input:
    """Open an input. Raises InvalidOptionError for a part of a table, and UnsupportedFeatureError for a namespace."""
    options = parse_options(ReadOptions, given["options"])
    chosen = [name for name in _PARTS if getattr(options, name, None)]
    if chosen:
        what = f"the input {given['name']} has the option {chosen[0]!r}, which selects a part of it"
        raise InvalidOptionError(f"{what}; name the whole table, and write conditions into the query")
    what = ", whose tables have changes of their own; make a view of the table of a partition"
    snapshot = open_version(options).table_for(what)
    references = [str(value) for name in _REFERENCES if (value := getattr(options, name)) is not None]
    reference, tag = " ".join(references), options.tag or ""
    return _Input(snapshot, read_input(given["name"], snapshot, given["columns"], reference, tag))


def _next_number(before: ViewRecord | None) -> int:
    """The number of a refresh: of those that follow the same one, only the first is committed."""
    last = 0 if before is None else before.number
    return ((last >> COPY_BITS) + 1) << COPY_BITS | secrets.randbits(COPY_BITS)


def _properties(record: ViewRecord, replaces: bool) -> dict[str, str]:
    """The properties of the transaction of a refresh, or of a table that is made."""
    if replaces:
        return {VIEW: record.to_json(), "enable_stable_row_ids": "true"}
    return {VIEW: record.to_json(), APP_ID: VIEWS, APP_VERSION: str(record.number)}
