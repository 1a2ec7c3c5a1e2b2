"""What the table of a materialized view remembers: its query, and the versions of its inputs that its rows are of.

A refresh commits rows with the record as the property `VIEW` of their transaction. From it, the config of the new version gets the
record under the same key, with the number of the version. So the rows and the versions that they are of are committed together,
and each version of the view, a branch and a clone of it, and what RESTORE brings back have the record of their rows.

A commit of another writer of this package that changes the rows or columns of a view is refused: see `check_keeps_rows`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.metadata.operations import (
    CreateIndex,
    Operation,
    Overwrite,
    ReserveFragments,
    Rewrite,
    UpdateBases,
    UpdateConfig,
)

VIEW = "lance_spark.view"
"""The property of a refresh, and the key of the config, whose value is the record of a view."""
_KEEPS_ROWS = (Rewrite, CreateIndex, ReserveFragments, UpdateConfig, UpdateBases)
"""Operations after which a view has the same rows and columns."""


@dataclass(frozen=True)
class ViewInput:
    """An input as a refresh has read it: where it is, the version and its identity, and the columns that the query reads.

    `columns` has the id and the type of the field of each column, and the ids of the fields in it: those of one struct may swap
    their names. `reference` is the version, tag or time that the query names, or empty if it reads the latest version; `tag` is the
    tag. `branch` is that of the version; it is empty for the main one.
    """

    name: str
    uri: str
    version: int
    identity: str
    columns: Mapping[str, list[Any]]
    reference: str = ""
    branch: str = ""
    tag: str = ""


@dataclass(frozen=True)
class ViewRecord:
    """A view: the query, whose names are those in `catalog` and `namespace`, and its inputs.

    `schema` is that of the query, as Spark's JSON. Its rows have the column with the ids of rows of the first input if `has_row`.
    `number` tells refreshes apart. The refresh was based on the version `based_on` of the view (0: it made or replaced the table),
    and made `version`. `meaning` is a digest of the query with the views, functions and literals that its names stood for, and
    `settings` those of the session that its values depend on.
    """

    query: str
    catalog: str
    namespace: tuple[str, ...]
    schema: str
    has_row: bool
    inputs: tuple[ViewInput, ...]
    number: int
    based_on: int
    version: int = 0
    meaning: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The record as text."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> ViewRecord:
        """Read a record. Raises CorruptFileError."""
        try:
            found = json.loads(text)
            inputs = tuple(ViewInput(**each) for each in found.pop("inputs"))
            return cls(**{**found, "namespace": tuple(found["namespace"])}, inputs=inputs)
        except (ValueError, TypeError, KeyError, AttributeError) as e:
            raise CorruptFileError(f"the record of the materialized view in the config key {VIEW} is damaged: {e}") from e


def record_of(config: Mapping[str, str]) -> ViewRecord | None:
    """The record in the config of a table; None if it is no view. Raises CorruptFileError."""
    return ViewRecord.parse(config[VIEW]) if VIEW in config else None


def with_view(config: Mapping[str, str], operation: Operation, properties: Mapping[str, str], version: int) -> Mapping[str, str]:
    """The config of `version`, made by an operation of a transaction with these properties."""
    is_replaced = isinstance(operation, Overwrite) and VIEW in operation.config_upsert_values
    text = properties.get(VIEW) or (config[VIEW] if is_replaced else None)
    if text is None:
        return config
    return {**config, VIEW: replace(ViewRecord.parse(text), version=version).to_json()}


def keeps_rows(operation: Operation) -> bool:
    """Whether a table has the same rows and columns after an operation."""
    return isinstance(operation, _KEEPS_ROWS)


def check_keeps_rows(config: Mapping[str, str], operation: Operation, properties: Mapping[str, str]) -> None:
    """Raise UnsupportedFeatureError if the table with this config is a view, and an operation other than a refresh changes its rows.

    No other operation changes the record of a view either.
    """
    if VIEW in properties:
        return
    if isinstance(operation, UpdateConfig) and _changes_record(config, operation):
        raise UnsupportedFeatureError(
            f"the property {VIEW} is what a materialized view remembers, and is written by CREATE and REFRESH MATERIALIZED VIEW alone"
        )
    if VIEW not in config or keeps_rows(operation):
        return
    if isinstance(operation, Overwrite) and VIEW in operation.config_upsert_values:
        return
    query = ViewRecord.parse(config[VIEW]).query
    raise UnsupportedFeatureError(
        f"the table is a materialized view of {query!r}, so its rows and columns come from there and cannot be written; "
        "write to its inputs, and then REFRESH MATERIALIZED VIEW; or make a table of its rows by CREATE TABLE t AS SELECT"
    )


def _changes_record(config: Mapping[str, str], operation: UpdateConfig) -> bool:
    update = operation.config_updates
    if update is None:
        return False
    return VIEW in update.updates or (update.replace and VIEW in config)
