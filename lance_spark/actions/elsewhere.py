"""Procedures of Iceberg's catalogs that have no meaning for Lance tables: each says what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn

from lance_spark.actions.action import Action, Parameter
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.table.versions.snapshot import Snapshot

_TEXTS, _MAP = "array<string>", "map<string,string>"


def _without_meaning(name: str, instead: str, **parameters: str) -> Action:
    """An operation that is refused; `parameters` are its names and types in Iceberg, besides the table."""

    def refused(snapshot: Snapshot, **given: Any) -> NoReturn:
        # CALL says so before it looks for a table.
        raise UnsupportedFeatureError(f"{name} has no meaning for lance tables: {instead}")

    described = tuple(Parameter(parameter, kind, "as in Iceberg") for parameter, kind in parameters.items())
    help = "is an error that says what to do instead"
    return Action(name, help, {"result": "string"}, refused, described, command=None, instead=instead)


_NO_STATISTICS = "nothing is needed: a scan takes rows, bytes and bounds from the table itself"
ACTIONS = (
    _without_meaning(
        "publish_changes",
        "changes wait in a branch to be published; write CALL fast_forward(table => 't', branch => 'main', to => 'dev')",
        wap_id="string",
    ),
    _without_meaning(
        "snapshot",
        "write CREATE TABLE copy SHALLOW CLONE t for a lance table, or LanceTable.convert(spark, source, path) for another one",
        source_table="string",
        location="string",
        properties=_MAP,
        parallelism="bigint",
        ignore_missing_files="boolean",
    ),
    _without_meaning(
        "register_table",
        "write CREATE TABLE t LOCATION '/path', which registers the table that is there, or name the table by its path: lance.`/path`",
        metadata_file="string",
    ),
    _without_meaning(
        "rewrite_position_delete_files",
        "deleted rows are left out when their fragments are compacted; write OPTIMIZE t",
        options=_MAP,
        where="string",
    ),
    _without_meaning(
        "rewrite_table_path",
        "without branches, clones and base paths, a table has relative paths, and its folder may be copied; make a deep clone of others",
        source_prefix="string",
        target_prefix="string",
        start_version="string",
        end_version="string",
        staging_location="string",
        create_file_list="boolean",
    ),
    _without_meaning("compute_table_stats", _NO_STATISTICS, snapshot_id="string", columns=_TEXTS),
    _without_meaning("compute_partition_stats", _NO_STATISTICS, snapshot_id="string"),
)
