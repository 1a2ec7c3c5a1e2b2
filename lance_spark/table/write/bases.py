"""Base paths of a table for writers: how they are given, registered and chosen as the folders of new data files.

Implements the base path system of the table layout specification. Only data files are written to base paths, as by
pylance; deletion files, indexes and everything else stay in the table's own folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from lance_spark.errors import InvalidOptionError, check_type
from lance_spark.metadata.data_file_names import mark_of
from lance_spark.metadata.fragment import BasePath
from lance_spark.metadata.locations import DATA, Locations
from lance_spark.storage.secrets import shown
from lance_spark.storage.store import Store

OWN_FOLDER = "."
"""The name of the table's own folder among targets."""


@dataclass(frozen=True)
class DatasetBasePath:
    """A base path as users give it, with the arguments of pylance's class of this name.

    Data files are in `path` itself, or in its folder `data` if it is to look like the root of a table. `id` is by default
    the next free one.
    """

    path: str
    name: str | None = None
    is_dataset_root: bool = False
    id: int | None = None

    def __post_init__(self) -> None:
        check_type("the path of a base path", self.path, str, "text")
        check_type("the name of a base path", self.name or "", str, "text")
        check_type("is_dataset_root of a base path", self.is_dataset_root, bool, "true or false")
        check_type("the id of a base path", self.id or 0, int, "a number")
        if self.name in ("", OWN_FOLDER):
            raise InvalidOptionError(f"{self.name!r} is not a name of a base path; choose another name, or leave it out")


def given_bases(bases: Iterable[Any]) -> tuple[DatasetBasePath, ...]:
    """The base paths that are given as objects with pylance's fields, or as mappings."""
    check_type("base paths", bases, (list, tuple), "a list of DatasetBasePath")
    return tuple(map(_given, bases))


def _given(base: Any) -> DatasetBasePath:
    if isinstance(base, DatasetBasePath):
        return base
    names = [f.name for f in fields(DatasetBasePath)]
    if isinstance(base, Mapping):
        if "path" not in base or not set(names).issuperset(base):
            raise InvalidOptionError(f"a base path has the fields {', '.join(names)}, of which path is required, not {', '.join(base)}")
        return DatasetBasePath(**base)
    if all(hasattr(base, name) for name in names):
        return DatasetBasePath(base.path, base.name, base.is_dataset_root, base.id or None)
    raise InvalidOptionError(f"a base path is a DatasetBasePath(path, name, is_dataset_root, id), not {type(base).__name__}")


def new_bases(store: Store, bases: Sequence[DatasetBasePath], registered: Sequence[BasePath] = ()) -> tuple[BasePath, ...]:
    """The messages of base paths that are added to those that the table at `store` has, with absolute paths.

    Raises InvalidOptionError for one that is in the table's own folder, or has the id, name or path of another one.
    """
    known = list(registered)
    for base in bases:
        path = store.at(base.path).uri
        if f"{path}/".startswith(f"{store.uri}/"):
            raise InvalidOptionError(
                f"the base path {shown(path)!r} is in the folder of the table, {store.uri}, whose cleanup removes files there; "
                "choose a folder outside"
            )
        base_id = base.id or max((b.id for b in known), default=0) + 1
        for other in known:
            if other.id == base_id or other.path == path or (base.name is not None and other.name == base.name):
                raise InvalidOptionError(
                    f"the base path {shown(path)!r} (id {base_id}, name {base.name!r}) conflicts with the base path "
                    f"{shown(other.path)!r} (id {other.id}, name {other.name!r})"
                )
        known.append(BasePath(base_id, path, base.is_dataset_root, base.name))
    return tuple(known[len(registered) :])


def are_registered(store: Store, bases: Sequence[DatasetBasePath], registered: Sequence[BasePath]) -> bool:
    """True if a table has all these base paths."""
    there = {(b.path, b.name, b.is_dataset_root) for b in registered}
    return all((store.at(b.path).uri, b.name, b.is_dataset_root) in there for b in bases)


@dataclass(frozen=True)
class Folder:
    """A folder for new data files: `path` in a store, "" for its root; `base_id` is None for the table's own folder.

    The names of files at base paths, which other tables may share, contain the `mark` of their table.
    """

    store: Store
    path: str = DATA
    base_id: int | None = None
    mark: str = ""

    def place(self, name: str) -> str:
        """The path of a file in the store."""
        return f"{self.path}/{name}" if self.path else name


@dataclass(frozen=True)
class Targets:
    """Where new data files go: `names` are names or paths of base paths, or `OWN_FOLDER`.

    Instead, `every` means all base paths: with True after the table's own folder, with False without it. Without both, the
    table's own folder.
    """

    names: tuple[str, ...] = ()
    every: bool | None = None

    def __post_init__(self) -> None:
        if self.names and self.every is not None:
            raise InvalidOptionError("give either target_bases or target_all_bases, not both")

    def __bool__(self) -> bool:
        return bool(self.names) or self.every is not None

    def folders(self, locations: Locations, root: Store) -> tuple[Folder, ...]:
        """The folders that these are in a table; `root` is the root of the table, also for a branch.

        Raises InvalidOptionError for a base path that is not registered, or is the root of another table, and
        UnsupportedFeatureError for one in another store, unless `locations` allows these.
        """
        return folders_of([base.id if base is not None else None for base in self._bases(locations)], locations, root)

    def _bases(self, locations: Locations) -> list[BasePath | None]:
        if self.every is None:
            return [_named(name, locations) for name in self.names]
        registered = sorted(locations.base_paths, key=lambda base: base.id)
        known = [base for base in registered if not locations.is_table(base)]
        if not known and not self.every:
            raise InvalidOptionError(f"{locations.store.uri} has no base paths to write to; register some with add_bases")
        return [None, *known] if self.every else [*known]


def folders_of(base_ids: Iterable[int | None], locations: Locations, root: Store) -> tuple[Folder, ...]:
    """The folders for new data files at these base paths (None: the table's own folder)."""
    known = {base.id: base for base in locations.base_paths}
    found = []
    for base_id in base_ids:
        if base_id is None:
            found.append(Folder(locations.store))
            continue
        base = known[base_id]
        if locations.is_table(base):
            raise InvalidOptionError(
                f"the base path {shown(base.path)!r} is the root of another table, whose cleanup would remove new files there; "
                "choose another base path"
            )
        found.append(Folder(locations.store_of(base), DATA if base.is_dataset_root else "", base_id, mark_of(root.uri)))
    return tuple(found)


def _named(name: str, locations: Locations) -> BasePath | None:
    """The base path with a name, or at a path; None for the table's own folder."""
    by_name = [base for base in locations.base_paths if base.name == name]
    if by_name:
        return by_name[0]
    if name == OWN_FOLDER:
        return None
    by_path = [base for base in locations.base_paths if base.path == name or base.path == locations.store.at(name).uri]
    if by_path:
        return by_path[0]
    known = ", ".join(repr(base.name or shown(base.path)) for base in locations.base_paths) or "none"
    raise InvalidOptionError(f"{locations.store.uri} has no base path {shown(name)!r}; registered are: {known}; add_bases adds more")
