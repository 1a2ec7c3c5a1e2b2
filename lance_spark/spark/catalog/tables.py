"""Operations of the SQL catalog on tables."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from lance_spark.display.words import nearest
from lance_spark.errors import (
    InvalidOptionError,
    MissingFileError,
    NamespaceNotFoundError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    logged,
    on_failure,
)
from lance_spark.inspection.metadata_tables import METADATA_TABLES
from lance_spark.metadata.row_columns import check_new_names, check_not_reserved
from lance_spark.namespace.manifest_rows import PARTITION_VALUE
from lance_spark.namespace.partitioned.described import described
from lance_spark.namespace.partitioned.root import LEAF
from lance_spark.namespace.protocol import TRANSACTION, Namespace, lost_files, shown
from lance_spark.schema.schema import Schema, from_arrow
from lance_spark.spark.catalog import views
from lance_spark.spark.catalog.definition import (
    OPTION,
    Definition,
    as_declared,
    declared_columns,
    location_of,
    options_of_each_write,
    shown_properties,
)
from lance_spark.spark.catalog_settings import Catalog, branch_of, is_path, reference_of
from lance_spark.spark.columns.field_metadata import printable
from lance_spark.spark.columns.projection import with_parameters
from lance_spark.spark.columns.types import of_json, stored, to_spark
from lance_spark.spark.options.known import parse_options, table_properties
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import carried, of_user
from lance_spark.spark.read.opened import Opened, OpenedNamespace, open_version
from lance_spark.spark.source import LanceDataSource
from lance_spark.spark.write.rows import commit_empty
from lance_spark.storage.location import of_hadoop
from lance_spark.storage.store import Store
from lance_spark.table.compaction.clustered import Clustered
from lance_spark.table.versions.history import history
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.versions.table_folder import delete_table
from lance_spark.table.write.properties import check_properties

Id = Sequence[str]
Place = Mapping[str, Any]
"""A table: its `id` in the catalog, or the `options` of the format lance that locate it."""
LOCATION, COMMENT, PROVIDER, MANAGED, EXTERNAL = "location", "comment", "provider", "is_managed_location", "external"
NOW: Mapping[str, str] = {}
"""The options of the latest version."""
_TRAVEL = ("version", "tag", "timestamp")
_TOGETHER = ", whose tables cannot be changed together by this; use lance_spark.PartitionedNamespace, or the table of a partition"
_SHOWN_VERSIONS = 10
_LEAST_NAMES = 2
"""The names of a metadata table: at least its table's and its own."""


def load(
    catalog: Catalog,
    place: Place,
    version: str | None = None,
    timestamp: str | None = None,
    declared: str = "",
) -> dict[str, Any]:
    """Open a table: the pickled data source, its schema, options and properties.

    `version` is a number, a tag or else a branch, `timestamp` is in ISO 8601. If there is no table `t.branch_x`, this is the branch x of
    the table t; and if there is no table `t.files`, this is the metadata table "files" of the table t (see `inspection.metadata_tables`).
    A place by options is an entry of Spark's own catalog, which has the properties that are its own; `declared` has its columns.
    """
    travel = {} if version is None else {"version" if version.isdecimal() else "tag": version}
    if timestamp is not None:
        travel["timestamp"] = timestamp
    id = place.get("id", ())
    try:
        source = _opened_at(catalog, place, travel)
    except TableNotFoundError:
        if (view := views.found(catalog, id)) is not None:
            _check_no_travel(id, travel)
            return {"view": view}
        _check_said_otherwise(catalog, id)
        if len(id) < _LEAST_NAMES or id[-1].lower() not in METADATA_TABLES:
            raise
        return _about(opened(catalog, id[:-1], travel), id[-1])
    except VersionNotFoundError as e:
        is_reference = bool(id) and (branch_of(id) is not None or reference_of(id) is not None)
        if "tag" not in travel or is_reference:
            raise
        try:
            source = _opened_at(catalog, place, {"branch": travel["tag"]})
        except VersionNotFoundError:
            raise e from None
    if source.declared:
        of_entry = stored(as_declared(declared_columns(source.declared)), {})
        columns = with_parameters(to_spark(of_entry), of_json(source.declared))
        clusters = _clusters(table_properties(source.options), from_arrow(of_entry))
        return {"source": carried(source), "schema": columns.json(), "options": place["options"], "properties": {}, "clusters": clusters}
    schema, snapshot = source.schema(), source.opened().shape
    schema = with_parameters(schema, of_json(declared)) if declared else schema
    config = snapshot.manifest.config
    is_old = any(name in source.options for name in _TRAVEL)
    options = {**place.get("options", {}), **source.options, **({} if is_old else options_of_each_write(config))}
    properties = shown_properties(config)
    if isinstance(whole := source.opened(), OpenedNamespace):
        properties |= {key: printable(value) for key, value in described(whole.version).items()}
    if id:
        properties |= {PROVIDER: "lance", LOCATION: snapshot.root.uri} | _partition_values(catalog, id)
        properties[MANAGED if _is_managed(catalog, id, snapshot.root.uri) else EXTERNAL] = "true"
    clusters = _clusters(config, snapshot.manifest.schema)
    return {"source": carried(source), "schema": schema.json(), "options": options, "properties": properties, "clusters": clusters}


def load_about(catalog: Catalog, place: Place, about: str) -> dict[str, Any]:
    """Open a metadata table of a table of Spark's own catalog, whose names have no more parts than `db.t.files`."""
    source = _opened_at(catalog, place, NOW)
    if source.declared:
        raise UnsupportedFeatureError(f"the table has no version before its first rows, so there is nothing yet that {about!r} is about")
    if about.lower() in METADATA_TABLES:
        return _about(source, about)
    instead = {"changes": "table_changes('t', 1), the changes from version 1 on"}
    if (branch := branch_of(("t", about))) is not None:
        instead[about] = f"t VERSION AS OF '{branch[1]}' for the branch"
    hint = f"; write {instead[about]}" if about in instead else nearest(about, METADATA_TABLES)
    raise UnsupportedFeatureError(f"a table of the session catalog has no {about!r}{hint}")


def _check_no_travel(view: Id, travel: Mapping[str, str]) -> None:
    if travel:
        raise UnsupportedFeatureError(f"the view {shown(view)} has no versions; name those of its tables in its query")


_OF_A_TIME = re.compile(r"(.+)@(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)\d{3}")
"""A table of Delta Lake as of a time."""


def _check_said_otherwise(catalog: Catalog, id: Id) -> None:
    """Raise UnsupportedFeatureError for a name that Delta Lake or Iceberg give to a part of a table; there is no table `id`."""
    found = _OF_A_TIME.fullmatch(id[-1]) if id else None
    if found is not None and exists(catalog, (*id[:-1], found[1])):
        name, year, month, day, hour, minute, second = found.groups()
        time = f"{year}-{month}-{day} {hour}:{minute}:{second}"
        raise UnsupportedFeatureError(f"there is no table {shown(id)}; write {name} TIMESTAMP AS OF '{time}'")
    if len(id) >= _LEAST_NAMES and id[-1].lower() == "changes" and exists(catalog, id[:-1]):
        write = f"table_changes({shown(id[:-1])}, 1)"
        raise UnsupportedFeatureError(f"there is no table {shown(id)}; write {write}, the changes from version 1 on")


def _clusters(config: Mapping[str, str], schema: Schema) -> tuple[str, ...]:
    """The columns by which the table is clustered, as in SQL; none if it lacks one of them by now, for which Spark would look."""
    found = Clustered.in_config(config).columns
    try:
        for column in found:
            schema.resolve(column)
    except SchemaMismatchError:
        return ()
    return found


def _opened_at(catalog: Catalog, place: Place, travel: Mapping[str, str]) -> LanceDataSource:
    if "id" in place:
        return opened(catalog, place["id"], travel)
    source = LanceDataSource({**place["options"], **travel})
    if not source.declared:
        source.opened()
    return source


def _partition_values(catalog: Catalog, id: Id) -> dict[str, str]:
    """The partition values of a table of a partitioned namespace, as properties."""
    if id[-1] != LEAF or len(id) < _LEAST_NAMES or _has_path(id):
        return {}
    with contextlib.suppress(TableNotFoundError):
        found = catalog.namespace.describe_table(id).properties
        return {key: printable(value) for key, value in found.items() if key.startswith(PARTITION_VALUE)}
    return {}


def exists(catalog: Catalog, id: Id) -> bool:
    """True if `load` finds the table. False for one whose files are gone: a statement may create it again."""
    try:
        load(catalog, {"id": id})
    except TableNotFoundError:
        return False
    except MissingFileError:
        if _lost(catalog, id) is None:
            raise
        return False
    return True


def is_named(catalog: Catalog, id: Id) -> bool:
    """True if there is something to drop: a table, with or without its files, or a declaration of one."""
    return exists(catalog, id) or (not _has_path(id) and (catalog.namespace.table_exists(id) or _lost(catalog, id) is not None))


def _lost(catalog: Catalog, id: Id) -> str | None:
    """What to say of a table, or of that of a branch or version, whose files are gone although the namespace has it; None of others."""
    for reference in (branch_of(id), reference_of(id)):
        id = id if reference is None else reference[0]
    location = None if _has_path(id) else catalog.namespace.lost_location(id)
    return None if location is None else lost_files(id, location)


def _has_path(id: Id) -> bool:
    """Whether a path names the table, or the table of a branch, a version or a metadata table."""
    return is_path(id) or is_path(id[:-1])


def _about(source: LanceDataSource, name: str) -> dict[str, Any]:
    """The same of a metadata table."""
    source.about = name
    return {"source": carried(source), "schema": source.schema().json(), "options": {}, "properties": {}, "metadata": True}


def _is_managed(catalog: Catalog, id: Id, location: str) -> bool:
    """False for a table at a path, or a branch of it, and one with a LOCATION."""
    if is_path(id[:1]):
        return False
    branch = branch_of(id)
    return any(catalog.namespace.owns_location(i, location) for i in ((id,) if branch is None else (id, branch[0])))


def opened(catalog: Catalog, id: Id, travel: Mapping[str, str] = NOW) -> LanceDataSource:
    """The data source of a table, pinned to a version.

    If there is no table `t.branch_x` or `t__branch__x`, this is the branch x of the table t; without `t__tag__x` and `t@v5`, a version.
    Raises TableNotFoundError, and MissingFileError for a table that the namespace has, but whose files are gone.
    """
    try:
        return _found(catalog, id, travel)
    except TableNotFoundError as e:
        if (lost := _lost(catalog, id)) is None:
            raise
        raise MissingFileError(f"{lost}. DROP TABLE removes it from the namespace, and CREATE OR REPLACE TABLE makes it again") from e


def _found(catalog: Catalog, id: Id, travel: Mapping[str, str]) -> LanceDataSource:
    branch, reference = branch_of(id), reference_of(id)
    # The numbers and tags of versions are those of the table, which a transaction does not change.
    versions = catalog.outside
    if is_path(id[:-1]):
        if branch is None and reference is None:
            raise TableNotFoundError(f"there is no table {shown(id)}")
    else:
        try:
            return _opened({**(versions if travel else catalog).source_options(id), **travel})
        except TableNotFoundError:
            if branch is None and reference is None:
                raise
    if reference is not None:
        return _opened({**versions.source_options(reference[0]), **travel, **reference[1]})
    assert branch is not None
    if TRANSACTION in catalog.settings:
        raise UnsupportedFeatureError(f"{shown(id)} is a branch, which a transaction does not contain; COMMIT or ROLLBACK first")
    return _opened({**catalog.source_options(branch[0]), **travel, "branch": branch[1]})


def _opened(options: dict[str, str]) -> LanceDataSource:
    source = LanceDataSource(options)
    try:
        source.opened()
    except NamespaceNotFoundError as e:
        raise TableNotFoundError(str(e)) from None
    return source


def details(catalog: Catalog, place: Place) -> dict[str, str]:
    """What DESCRIBE EXTENDED adds to a table's properties: figures of its latest version, its indexes and its last versions."""
    current = current_at(catalog, place)
    if isinstance(current, OpenedNamespace):
        return {"version": str(current.version.version), "tables": str(current.version.leaves.num_rows)}
    snapshot = current.table_for("")
    manifest = snapshot.manifest
    found = {"version": str(snapshot.version), "storage version": manifest.data_format, "fragments": str(len(manifest.fragments))}
    found |= {} if manifest.num_rows is None else {"rows": str(manifest.num_rows)}
    found |= {"indexes": ", ".join(sorted({index.name for index in manifest.indexes}))} if manifest.indexes else {}
    for entry in history(snapshot.store, _SHOWN_VERSIONS):
        message = f": {entry.message}" if entry.message else ""
        found[f"version {entry.version}"] = f"{entry.timestamp.isoformat(' ', 'seconds')} {entry.operation}{message}"
    return found


def check(catalog: Catalog, properties: Mapping[str, str], schema: str | None = None) -> None:
    """Raise the error of a new table with these properties and columns, of which Spark's own catalog makes an entry only."""
    check_properties(properties)
    # They apply to each read and write of the table.
    parse_options(ReadOptions, {key.removeprefix(OPTION): value for key, value in properties.items() if key.startswith(OPTION)})
    if schema is not None:
        columns = from_arrow(stored(declared_columns(schema), {}))
        check_not_reserved(columns)
        check_new_names(columns.fields)


def create(catalog: Catalog, id: Id, schema: str, properties: Mapping[str, str]) -> None:
    """Create a table without rows in one commit, or with LOCATION, register the table that is there.

    Raises TableAlreadyExistsError, and SchemaMismatchError if the table at the location has other columns.
    """
    definition = Definition.parse(schema, properties, defaults=catalog.new_table_options)
    if catalog.asked.is_again and _is_made(catalog, id, definition):
        with contextlib.suppress(TableAlreadyExistsError):
            finish(catalog, id, properties)
        return
    begun = stage(catalog, id, properties)
    with on_failure(lambda: abandon(catalog, id, **begun)):
        there = _at(catalog, definition.location)
        if there is not None:
            _check_same(there, definition.schema)
        else:
            commit_empty(begun_store(catalog, id, definition), definition.schema, "create", definition.write_options)
    finish(catalog, id, properties)


def replace(catalog: Catalog, id: Id, schema: str, properties: Mapping[str, str]) -> None:
    """Replace a table by one without rows in one commit; older versions are kept. Raises TableNotFoundError."""
    definition = Definition.parse(schema, properties)
    if catalog.asked.is_again and _is_made(catalog, id, definition):
        return
    commit_empty(replaced_store(catalog, id, definition), definition.schema, "overwrite", definition.write_options)


def _is_made(catalog: Catalog, id: Id, definition: Definition) -> bool:
    """Whether the request, which was asked before, has committed the table."""
    try:
        store = begun_store(catalog, id, definition)
    except (TableNotFoundError, NamespaceNotFoundError):
        return False
    there = _latest(store)
    return there is not None and catalog.asked.has_made(store, there.version)


def stage(catalog: Catalog, id: Id, properties: Mapping[str, str]) -> dict[str, bool]:
    """Begin to create a table: declare it in its namespace. Returns the arguments of `abandon`.

    Raises NamespaceNotFoundError, TableAlreadyExistsError, and UnsupportedFeatureError for a name and location that do not fit.
    """
    location = location_of(properties)
    if is_path(id):
        if location is not None:
            raise InvalidOptionError(f"the table has two locations: its name {id[0]!r} and LOCATION {location!r}")
        if _latest(catalog.at(id[0])) is not None:
            raise TableAlreadyExistsError(f"a Lance table already exists at {id[0]}")
        return {"declared": False}
    namespace = catalog.namespace
    if location is not None:
        namespace.location_to_register(location)
    try:
        description = namespace.describe_table(id)
    except TableNotFoundError:
        if location is None:
            namespace.declare_table(id)
        elif len(id) > 1:
            namespace.describe_namespace(id[:-1])
        return {"declared": location is None}
    if location is not None or (not description.is_only_declared and _latest(catalog.store(id)) is not None):
        raise TableAlreadyExistsError(f"there is a table {shown(id)} already")
    return {"declared": False}


def begun_store(catalog: Catalog, id: Id, definition: Definition) -> Store:
    """The folder of a table that was staged."""
    return catalog.store(id) if definition.location is None else catalog.at(definition.location)


def replaced_store(catalog: Catalog, id: Id, definition: Definition) -> Store:
    """The folder of a table that is replaced. Raises UnsupportedFeatureError for a LOCATION elsewhere."""
    store = catalog.store(id)
    if definition.location is not None and catalog.at(definition.location).uri != store.uri:
        raise UnsupportedFeatureError(
            f"REPLACE TABLE keeps the table at {store.uri}, because its versions are there; leave out LOCATION, or drop the table first"
        )
    return store


def replaced_in(store: Store, definition: Definition, options: SparkWriteOptions) -> Snapshot | None:
    """The table in which the option replaceWhere replaces some rows; None without this option.

    Raises InvalidOptionError for what a write of rows cannot change.
    """
    if options.replaceWhere is None:
        return None
    if definition.config:
        what = ", ".join(sorted(definition.config))
        raise InvalidOptionError(f"the option replaceWhere replaces rows and keeps the table, so its properties ({what}) cannot be set")
    return open_snapshot(store)


def finish(catalog: Catalog, id: Id, properties: Mapping[str, str]) -> None:
    """Register a table with a LOCATION after its commit."""
    location = location_of(properties)
    if location is None:
        return
    namespace = catalog.namespace
    namespace.register_table(id, namespace.location_to_register(location))


def abandon(catalog: Catalog, id: Id, declared: bool) -> None:
    """Undo `stage`. A table that another writer has created meanwhile is kept. Errors are logged."""
    with logged(f"removing the declaration of the table {shown(id)}"):
        if declared:
            namespace = catalog.namespace
            if namespace.describe_table(id).is_only_declared and not catalog.store(id).list("data"):
                namespace.drop_table(id)


@contextlib.contextmanager
def new_table(catalog: Catalog, id: Id, location: str | None) -> Iterator[str]:
    """The folder of a new table, which another function makes: at a LOCATION, or else by its name. Raises the errors of `stage`."""
    properties = {} if location is None else {LOCATION: location}
    begun = stage(catalog, id, properties)
    with on_failure(lambda: abandon(catalog, id, **begun)):
        yield catalog.store(id).uri if location is None else catalog.at(of_hadoop(location)).uri
    finish(catalog, id, properties)


def drop(catalog: Catalog, id: Id, purge: bool) -> bool:
    """Remove a table and its files. Unless `purge`, those of a table with a LOCATION stay. False if there is none."""
    if is_path(id):
        return _drop_folder(catalog.at(id[0]))
    try:
        remove(catalog.namespace, id, purge)
    except (TableNotFoundError, NamespaceNotFoundError):
        views.check_no_view(catalog, id, "DROP VIEW")
        if branch_of(id) is not None:
            raise UnsupportedFeatureError(f"{shown(id)} is a branch: CALL system.delete_branch removes it") from None
        return catalog.asked.is_again
    return True


def remove(namespace: Namespace, id: Id, purge: bool) -> None:
    """Remove a table from its namespace, with its files unless it has a LOCATION and not `purge`. Raises TableNotFoundError."""
    if purge or namespace.owns_location(id, namespace.lost_location(id) or namespace.describe_table(id).location):
        namespace.drop_table(id)
    else:
        namespace.deregister_table(id)


def _drop_folder(store: Store) -> bool:
    """Delete a table that is named by its path. Raises UnsupportedFeatureError if its folder has other contents."""
    if _latest(store) is None:
        return False
    delete_table(store)
    return True


def rename(catalog: Catalog, id: Id, to: Id) -> None:
    """Give a table another id in the same catalog."""
    if is_path(id) or is_path(to):
        raise UnsupportedFeatureError("RENAME TO is for tables of a namespace; tables named by their path can only be copied")
    catalog.namespace.rename_table(id, to)


def latest_version(catalog: Catalog, id: Id) -> Snapshot:
    """The latest version of a table, or of its branch for `t.branch_x`. Raises InvalidOptionError for `t__tag__x` and `t@v5`."""
    return _latest_opened(catalog, id).table_for(_TOGETHER)


def _latest_opened(catalog: Catalog, id: Id) -> Opened:
    try:
        source = opened(catalog, id)
    except TableNotFoundError:
        views.check_no_view(catalog, id, "ALTER VIEW, or name the table")
        raise
    if any(name in source.options for name in _TRAVEL):
        raise InvalidOptionError(f"{shown(id)} is one version of a table; name the table itself")
    return source.opened()


def latest_at(catalog: Catalog, place: Place) -> Snapshot:
    """The latest version of the table at a place, on which a change is based (see `asked`)."""
    return base_of(catalog, current_at(catalog, place))


def base_of(catalog: Catalog, current: Opened) -> Snapshot:
    """The version of a table on which a change is based. Raises UnsupportedFeatureError for a partitioned namespace."""
    return catalog.asked.base(current.table_for(_TOGETHER))


def current_at(catalog: Catalog, place: Place) -> Opened:
    """The latest version of the table, or of the partitioned namespace, at a place."""
    if "id" in place:
        return _latest_opened(catalog, place["id"])
    return open_version(parse_options(ReadOptions, of_user(place["options"])))


def _at(catalog: Catalog, location: str | None) -> Snapshot | None:
    return None if location is None else _latest(catalog.at(location))


def _latest(store: Store) -> Snapshot | None:
    try:
        return open_snapshot(store)
    except TableNotFoundError:
        return None


def _check_same(there: Snapshot, declared: StructType) -> None:
    """Raise SchemaMismatchError unless the columns of the statement, if it has any, are those of the table."""
    own = to_spark(there.manifest.schema.to_arrow())
    if declared.fields and [(f.name, f.dataType) for f in declared] != [(f.name, f.dataType) for f in own]:
        what = f"the statement declares {declared.simpleString()}, but the table there has {own.simpleString()}"
        raise SchemaMismatchError(f"{there}: {what}; leave the columns out")
