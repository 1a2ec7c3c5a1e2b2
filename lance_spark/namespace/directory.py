"""The directory namespace: tables below a root folder, found by a listing, by the rows of its `__manifest`, or by both.

Implements the directory namespace specification in the modes of pylance 14.0.2. By default, the tables of the root namespace are the
listed folders, which are added to `__manifest` as well. Child namespaces exist only in `__manifest`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import (
    InvalidOperationError,
    InvalidOptionError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    logged,
    on_refusal,
)
from lance_spark.namespace.directory_tables import DEREGISTERED, RESERVED, State, folder_of, list_folders, state_of
from lance_spark.namespace.manifest_rows import (
    below,
    children,
    described,
    find,
    is_location,
    location_of,
    object_id,
    to_metadata,
)
from lance_spark.namespace.manifest_table import (
    NAMESPACE,
    TABLE,
    WRITER_FLAGS,
    ManifestTable,
    change,
    change_metadata,
    check_flags,
    open_manifest,
)
from lance_spark.namespace.protocol import Id, Namespace, NamespaceTransaction, TableDescription, lost_files, names_of, shown
from lance_spark.namespace.transaction_records import is_quiet, is_record
from lance_spark.namespace.views import is_view, key_of, views_below, views_in
from lance_spark.storage.location import locate
from lance_spark.storage.secrets import shown as shown_uri
from lance_spark.storage.store import Store
from lance_spark.table.versions.clones import dropping, moving
from lance_spark.table.versions.snapshot import list_versions

_CHOSEN = re.compile(r"[0-9a-f]{8}_[^/]+")
"""The folder of a table that is not listed. The id at its end is the first one of a table that was renamed."""


@dataclass(frozen=True)
class DirectoryNamespace(Namespace):
    """The namespace below `root`.

    `has_manifest` and `lists_folders` say which ways tables are found. With both, tables of the root namespace are the listed folders,
    unless `manifest_first`: then they are the rows of `__manifest`, and folders that no row names. Without `has_manifest` there are no
    child namespaces (UnsupportedFeatureError).
    """

    root: Store
    has_manifest: bool = True
    lists_folders: bool = True
    manifest_first: bool = False

    def __repr__(self) -> str:
        return f"DirectoryNamespace({self.root.uri!r})"

    def list_namespaces(self, id: Id = ()) -> list[str]:
        """The names of the namespaces directly in the namespace `id`, sorted. Raises NamespaceNotFoundError."""
        names = names_of(id)
        return children(self._with_namespace(names), names, NAMESPACE)

    def describe_namespace(self, id: Id = ()) -> dict[str, str]:
        """The properties of a namespace; those of the root are the table metadata of `__manifest`. Raises NamespaceNotFoundError.

        Those of a partition have its values, too: `partition.<field>`.
        """
        names = names_of(id)
        table = self._with_namespace(names)
        row = find(table, names) if names else None
        if row:
            return described(table, row)
        return {key: value for key, value in table.metadata.items() if not is_record(key) and not is_view(key)}

    def create_namespace(self, id: Id, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace in one that exists. Raises NamespaceNotFoundError for the parent, and NamespaceAlreadyExistsError."""
        names = names_of(id)
        self._check_depth(names, 0)
        if not names:
            raise NamespaceAlreadyExistsError("the root namespace always exists")
        row = {"object_id": object_id(names), "object_type": NAMESPACE, "metadata": to_metadata(properties or {})}

        def edit(table: ManifestTable) -> pa.Table:
            _check_namespace(table, names[:-1])
            if find(table, names) or key_of(names) in table.metadata:
                raise NamespaceAlreadyExistsError(f"there is a namespace or table {shown(names)} already")
            return table.with_rows([row])

        change(self.root, edit)

    def drop_namespace(self, id: Id) -> None:
        """Drop an empty namespace. Raises NamespaceNotFoundError and NamespaceNotEmptyError."""
        names = names_of(id, least=1)
        self._check_depth(names, 0)

        def edit(table: ManifestTable) -> pa.Table:
            _check_namespace(table, names)
            if inside := below(table, names).num_rows:
                raise NamespaceNotEmptyError(f"the namespace {shown(names)} is not empty: {inside} namespaces and tables are in it")
            if views := views_below(table, names):
                raise NamespaceNotEmptyError(f"the namespace {shown(names)} is not empty: {len(views)} views are in it")
            return table.without([object_id(names)])

        change(self.root, edit)

    def list_tables(self, id: Id = ()) -> list[str]:
        """The names of the tables directly in the namespace `id`, sorted. Raises NamespaceNotFoundError."""
        names = names_of(id)
        if names or not self.lists_folders:
            return children(self._with_namespace(names), names, TABLE)
        listed = list_folders(self.root)
        if not self.has_manifest or not self.manifest_first:
            return listed
        table = open_manifest(self.root)
        taken = set(table.rows["location"].to_pylist())
        return sorted({*children(table, (), TABLE), *(name for name in listed if folder_of(name) not in taken)})

    def describe_table(self, id: Id) -> TableDescription:
        """The location of a table. Raises TableNotFoundError."""
        names = names_of(id, least=1)
        self._check_depth(names, 1)
        ways = (self._by_row, self._by_folder) if self.manifest_first else (self._by_folder, self._by_row)
        for way in ways:
            if found := way(names):
                return found
        raise self._not_found(names)

    def lost_location(self, id: Id) -> str | None:
        """The location of a table whose files are gone. The row of a listed table stays when its folder is deleted."""
        names = names_of(id, least=1)
        row = find(open_manifest(self.root), names) if self.has_manifest else None
        if row and self._is_listed(names, row) and state_of(self.root, folder_of(names[0])) is State.ABSENT:
            return self._uri(folder_of(names[0]))
        return super().lost_location(id)

    def store(self, id: Id) -> Store:
        """The folder of a table, with the changes of all committed transactions. Symbolic links below the root are not followed."""
        return self._settled(self.describe_table(id).location)

    def _settled(self, location: str) -> Store:
        """The folder of a table, after the changes of all committed transactions are in it."""
        if not self.has_manifest or is_quiet(self.root):
            return self.root.at(location)
        from lance_spark.namespace.transaction_commit import settled  # imports all that changes a table

        return settled(self.root, self._folder(location))

    def begin_transaction(self) -> NamespaceTransaction:
        """Begin a transaction. Raises UnsupportedFeatureError for a namespace without `__manifest`, and for a partitioned one."""
        if not self.has_manifest:
            raise UnsupportedFeatureError(
                f"{self}: transactions are recorded in __manifest, which this namespace does not use (manifest_enabled=false)"
            )
        from lance_spark.namespace.transaction_commit import begin  # imports all that changes a table

        return self.seen_by(begin(self.root).id)

    def seen_by(self, transaction: str) -> NamespaceTransaction:
        """The namespace in an open transaction."""
        from lance_spark.namespace.transaction_view import TransactionNamespace  # imports all that changes a table

        return TransactionNamespace(self, self.root, transaction)

    def declare_table(self, id: Id, location: str | None = None) -> TableDescription:
        """Reserve a folder for a table that is written later. Raises NamespaceNotFoundError and TableAlreadyExistsError."""
        names = names_of(id, least=1)
        self._check_depth(names, 1)
        if location is not None:
            raise UnsupportedFeatureError(
                "a directory namespace chooses the folders of its tables; give no location, or use register_table"
            )
        if self.has_manifest:
            table = open_manifest(self.root)
            check_flags(table, WRITER_FLAGS)
            self._check_new(table, names)
        if self._is_folder(names):
            folder = folder_of(names[0])
            if state_of(self.root, folder) is not State.ABSENT:
                raise _exists(names)
        else:
            folder = f"{uuid.uuid4().hex[:8]}_{object_id(names)}"
        try:
            self.root.put_if_absent(f"{folder}/{RESERVED}", b"")
        except FileExistsError:
            raise _exists(names) from None
        if self.has_manifest:

            def undo() -> None:
                with logged(f"{self.root.uri}: removing the folder of a table that was not declared"):
                    if not self._is_folder(names):
                        self.root.delete_folder(folder)

            with on_refusal(undo):
                self._add_table(names, folder)
        return TableDescription(self._uri(folder), is_only_declared=True)

    def register_table(self, id: Id, location: str) -> None:
        """Give an id to the table in the folder `location`, relative to the root. Raises TableAlreadyExistsError.

        Raises InvalidOptionError for a location that is not below the root.
        """
        names = names_of(id, least=1)
        if not self.has_manifest:
            raise UnsupportedFeatureError("tables are registered in __manifest, which this namespace does not use (manifest_enabled=false)")
        if not is_location(location):
            raise InvalidOptionError(f"the location of a table is a folder relative to the root, not {location!r}")
        folder = location.rstrip("/")

        def check(table: ManifestTable) -> None:
            if find(table, names) and state_of(self.root, folder_of(names[0])) is not State.ABSENT:
                raise _exists(names)

        self._add_table(names, folder, check)
        if self._is_folder(names) and folder == folder_of(names[0]):
            self.root.delete(f"{folder}/{DEREGISTERED}")

    def deregister_table(self, id: Id) -> None:
        """Remove a table from the namespace; its files stay. Raises TableNotFoundError.

        A listed folder is marked, so that it is no longer a table.
        """
        names = names_of(id, least=1)
        self._check_depth(names, 1)
        found = self._remove_row(names)
        if self._is_folder(names):
            folder = folder_of(names[0])
            if state_of(self.root, folder) in (State.DECLARED, State.TABLE):
                self.root.put(f"{folder}/{DEREGISTERED}", b"")
                return
        if found is None:
            raise self._not_found(names)

    def drop_table(self, id: Id) -> None:
        """Remove a table from the namespace, then its folder. Raises TableNotFoundError.

        Raises InvalidOperationError if another table is in the same folder or below it. A failure to delete files is logged.
        """
        names = names_of(id, least=1)
        self._check_depth(names, 1)
        folder = self._remove_row(names, check=_check_not_shared)
        if folder is None and self._is_folder(names) and state_of(self.root, folder_of(names[0])) is not State.ABSENT:
            folder = folder_of(names[0])
        if folder is None:
            raise self._not_found(names)
        with logged(f"{self.root.uri}: deleting the files of the table {shown(names)}"), dropping(self.root.at(self._uri(folder))):
            self.root.delete_folder(folder)

    def rename_table(self, id: Id, to: Id) -> None:
        """Give a table another id. Raises TableNotFoundError, NamespaceNotFoundError and TableAlreadyExistsError.

        The folder of a listed table has its name, so it is moved, which object stores do not support (UnsupportedFeatureError).
        """
        old, new = names_of(id, least=1), names_of(to, least=1)
        self._check_depth(old, 1)
        self._check_depth(new, 1)
        location = self.describe_table(old).location
        self._settled(location)  # the changes of a transaction that was interrupted are for this folder
        folder = self._folder(location)
        moves = self._is_folder(new) or folder == folder_of(old[0])
        there = folder
        if self._is_folder(new):
            there = folder_of(new[0])
        elif moves:
            there = f"{uuid.uuid4().hex[:8]}_{object_id(new)}"
        if self.has_manifest:
            table = open_manifest(self.root)
            check_flags(table, WRITER_FLAGS)
            self._check_new(table, new)
        if moves:
            if state_of(self.root, folder) is State.ABSENT:
                raise TableNotFoundError(f"{lost_files(old, self._uri(folder))}, so they cannot be moved; drop_table removes it")
            if state_of(self.root, there) is not State.ABSENT:
                raise _exists(new)
            with moving(self.root.at(self._uri(folder)), self.root.at(self._uri(there))):
                self.root.move_folder(folder, there)
        if self.has_manifest:
            self._rename_row(old, new, there)

    def undrop_table(self, id: Id) -> None:
        """Give a table that was dropped its id again, if its files are there: the last version of `__manifest` with it says where.

        Raises TableNotFoundError if there was no such table or its files are gone, and TableAlreadyExistsError.
        """
        names = names_of(id, least=1)
        if self.table_exists(names) or self.view(names) is not None:
            raise TableAlreadyExistsError(f"there is a table or view {shown(names)}")
        folder = self._last_folder(names)
        if folder is None:
            raise TableNotFoundError(f"{self.root.uri}: no version of __manifest that is kept has a table {shown(names)}")
        if state_of(self.root, folder) not in (State.TABLE, State.DEREGISTERED):
            raise TableNotFoundError(f"the files of the table {shown(names)} at {shown_uri(self._uri(folder))} are gone")
        self.register_table(names, folder)

    def _last_folder(self, names: tuple[str, ...]) -> str | None:
        """The folder of a table in the last version of `__manifest` that has it; None if none has."""
        if self._is_folder(names) and state_of(self.root, folder_of(names[0])) is State.DEREGISTERED:
            return folder_of(names[0])
        latest = open_manifest(self.root) if self.has_manifest else ManifestTable(self.root)
        numbers = list_versions(latest.store) if latest.snapshot else ()
        for number in sorted(numbers, reverse=True):
            try:
                row = find(open_manifest(self.root, version=number), names)
            except VersionNotFoundError:  # removed by a cleanup meanwhile
                return None
            if row is not None and row["object_type"] == TABLE:
                return location_of(row)
        return None

    def list_views(self, id: Id = ()) -> list[str]:
        """The names of the views directly in the namespace `id`, sorted. Raises NamespaceNotFoundError."""
        names = names_of(id)
        return views_in(self._with_namespace(names), names)

    def view(self, id: Id) -> str | None:
        """The definition of a view; None if there is none."""
        names = names_of(id, least=1)
        return open_manifest(self.root).metadata.get(key_of(names)) if self.has_manifest else None

    def put_view(self, id: Id, definition: str, *, replace: bool = False) -> bool:
        """Create a view, or replace it; False if there is one already, which stays.

        Raises NamespaceNotFoundError, and TableAlreadyExistsError for the id of a table.
        """
        names = names_of(id, least=1)
        if not self.has_manifest:
            self._refuse_views()

        def edit(table: ManifestTable) -> Mapping[str, str | None] | None:
            if key_of(names) in table.metadata and not replace:
                return None
            self._check_no_table(table, names)
            return {key_of(names): definition}

        return change_metadata(self.root, edit).applied

    def drop_view(self, id: Id) -> None:
        """Remove a view. Raises TableNotFoundError."""
        names = names_of(id, least=1)
        if self.view(names) is None:
            raise _no_view(names)

        def edit(table: ManifestTable) -> Mapping[str, str | None]:
            if key_of(names) not in table.metadata:
                raise _no_view(names)
            return {key_of(names): None}

        change_metadata(self.root, edit)

    def rename_view(self, id: Id, to: Id) -> None:
        """Give a view another id. Raises TableNotFoundError, NamespaceNotFoundError and TableAlreadyExistsError."""
        old, new = names_of(id, least=1), names_of(to, least=1)
        if self.view(old) is None:
            raise _no_view(old)

        def edit(table: ManifestTable) -> Mapping[str, str | None]:
            if key_of(old) not in table.metadata:
                raise _no_view(old)
            self._check_no_table(table, new)
            _check_no_view(table, new)
            return {key_of(old): None, key_of(new): table.metadata[key_of(old)]}

        change_metadata(self.root, edit)

    def _check_no_table(self, table: ManifestTable, names: tuple[str, ...]) -> None:
        """Raise the error of a view that cannot have this id."""
        _check_namespace(table, names[:-1])
        if find(table, names) is not None or self._by_folder(names) is not None:
            raise TableAlreadyExistsError(f"{table.root.uri}: there is a table or namespace {shown(names)} already")

    def _rename_row(self, old: tuple[str, ...], new: tuple[str, ...], folder: str) -> None:
        def edit(table: ManifestTable) -> pa.Table:
            self._check_new(table, new)
            row = {**(find(table, old) or {"object_type": TABLE}), "object_id": object_id(new), "location": folder}
            kept = table.without([object_id(old), object_id(new)])
            return pa.concat_tables([kept, pa.Table.from_pylist([row], schema=kept.schema)])

        change(self.root, edit)

    def owns_location(self, id: Id, location: str) -> bool:
        """True if the folder of a table has the name that this namespace gives."""
        names = names_of(id, least=1)
        folder = self._folder(location)
        return (len(names) == 1 and folder == folder_of(names[0])) or _CHOSEN.fullmatch(folder) is not None

    def location_to_register(self, location: str) -> str:
        """A location relative to the root. Raises InvalidOptionError for one that is not below the root."""
        return self._folder(locate(location).uri)

    def _folder(self, uri: str) -> str:
        """The folder at `uri`, relative to the root."""
        above = f"{self.root.uri.rstrip('/')}/"
        if not uri.startswith(above):
            raise InvalidOptionError(f"the location {shown_uri(uri)!r} is not below the root of the namespace, {self.root.uri}")
        return uri.removeprefix(above)

    def _uri(self, folder: str) -> str:
        return f"{self.root.uri.rstrip('/')}/{folder}"

    def _is_folder(self, names: tuple[str, ...]) -> bool:
        """True if a table with this id is a folder of the root with its name."""
        return self.lists_folders and len(names) == 1

    def _check_depth(self, names: tuple[str, ...], most: int) -> None:
        if not self.has_manifest and len(names) > most:
            raise UnsupportedFeatureError(
                "child namespaces are kept in __manifest, which this namespace does not use (manifest_enabled=false)"
            )

    def _with_namespace(self, names: tuple[str, ...]) -> ManifestTable:
        """The latest `__manifest`, which must contain this namespace."""
        self._check_depth(names, 0)
        table = open_manifest(self.root) if self.has_manifest else ManifestTable(self.root)
        _check_namespace(table, names)
        return table

    def _by_folder(self, names: tuple[str, ...]) -> TableDescription | None:
        """The table in a folder of the root."""
        if not self._is_folder(names):
            return None
        state = state_of(self.root, folder_of(names[0]))
        if state not in (State.DECLARED, State.TABLE):
            return None
        return TableDescription(self._uri(folder_of(names[0])), is_only_declared=state is State.DECLARED)

    def _by_row(self, names: tuple[str, ...]) -> TableDescription | None:
        """The table in a row of `__manifest`, which is not that of a listed folder."""
        table = open_manifest(self.root) if self.has_manifest else ManifestTable(self.root)
        row = find(table, names)
        if row is None or row["object_type"] != TABLE:
            return None
        if self._is_listed(names, row):
            return None
        folder = location_of(row)
        declared = state_of(self.root, folder) is State.DECLARED
        return TableDescription(self._uri(folder), properties=described(table, row), is_only_declared=declared)

    def _not_found(self, names: tuple[str, ...]) -> TableNotFoundError:
        return TableNotFoundError(f"{self.root.uri}: there is no table {shown(names)}")

    def _add_table(self, names: tuple[str, ...], folder: str, check: Callable[[ManifestTable], None] = lambda table: None) -> None:
        """Add the row of a table, in the place of one that `_check_new` allows, if `check` does, too."""

        def edit(table: ManifestTable) -> pa.Table:
            self._check_new(table, names)
            check(table)
            row = {"object_id": object_id(names), "object_type": TABLE, "location": folder}
            kept = table.without([object_id(names)])
            return pa.concat_tables([kept, pa.Table.from_pylist([row], schema=kept.schema)])

        change(self.root, edit)

    def _check_new(self, table: ManifestTable, names: tuple[str, ...]) -> None:
        """Raise an error if a table with this id cannot be added. Of a row that `_is_listed`, the state of the folder decides this."""
        _check_namespace(table, names[:-1])
        _check_no_view(table, names)
        row = find(table, names)
        if row and not self._is_listed(names, row):
            raise TableAlreadyExistsError(f"{table.root.uri}: there is a table or namespace {shown(names)} already")

    def _is_listed(self, names: tuple[str, ...], row: Mapping[str, Any]) -> bool:
        """True for the row of a folder that is listed: the listing decides whether it is a table, whatever the row says."""
        is_own = row["object_type"] == TABLE and str(row["location"]).rstrip("/") == folder_of(names[0])
        return is_own and self._is_folder(names) and not self.manifest_first

    def _remove_row(self, names: tuple[str, ...], check: Callable[[ManifestTable, str], None] | None = None) -> str | None:
        """Remove the row of a table and return its folder; None if there is no such row. `check` is called with the folder first."""
        folder: str | None = None

        def edit(table: ManifestTable) -> pa.Table | None:
            nonlocal folder
            row = find(table, names)
            if row is None or row["object_type"] != TABLE:
                folder = None
                return None
            if check is not None:
                check(table, location_of(row))
            folder = str(row["location"]).rstrip("/")
            return table.without([object_id(names)])

        if self.has_manifest and open_manifest(self.root).snapshot is not None:
            change(self.root, edit)
        return folder


def _exists(names: tuple[str, ...]) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(f"there is a table {shown(names)} already, or a folder with its name")


def _check_namespace(table: ManifestTable, names: tuple[str, ...]) -> None:
    """Raise NamespaceNotFoundError unless the namespace exists; the root always does."""
    row = find(table, names) if names else None
    if names and (row is None or row["object_type"] != NAMESPACE):
        raise NamespaceNotFoundError(f"{table.root.uri}: there is no namespace {shown(names)}")


def _check_no_view(table: ManifestTable, names: tuple[str, ...]) -> None:
    if key_of(names) in table.metadata:
        raise TableAlreadyExistsError(f"{table.root.uri}: there is a view {shown(names)} already; DROP VIEW removes it")


def _no_view(names: tuple[str, ...]) -> TableNotFoundError:
    return TableNotFoundError(f"there is no view {shown(names)}")


def _check_not_shared(table: ManifestTable, folder: str) -> None:
    """Raise InvalidOperationError if more than one row has the folder `folder`, one below it or one above it."""
    places = pc.utf8_rtrim(pc.replace_substring_regex(table.rows["location"], r"(^|/)(\./)+", r"\1"), "/")
    parts = folder.split("/")
    around = pa.array(["/".join(parts[: i + 1]) for i in range(len(parts))], pa.string())
    shared = pc.or_(pc.is_in(places, around), pc.starts_with(places, f"{folder}/"))
    ids = table.rows["object_id"].filter(shared).to_pylist()
    if len(ids) > 1:
        what = f"the tables {', '.join(ids[:5])} share the folder {folder!r} or are inside each other"
        raise InvalidOperationError(f"{table.root.uri}: {what}; deregister this one instead")
