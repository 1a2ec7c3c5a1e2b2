"""Tags, branches and clones of a table: JSON files in the folder `_refs` of its root that reference versions.

Implements the branch and tag page of the table specification. A branch is a table of its own in `tree/<branch>`. A clone is a tag, see
`table.versions.clones`; lance-spark 0.1 recorded clones in `_refs/clones` instead, which only its own cleanups respect.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeGuard, TypeVar
from urllib.parse import quote, unquote

from lance_spark.display.listing import SHOWN, Named, left_out
from lance_spark.display.table import Table
from lance_spark.display.words import moment
from lance_spark.errors import (
    CorruptFileError,
    MissingFileError,
    RefConflictError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    check_type,
)
from lance_spark.options.tag_names import SEGMENT, is_new_tag_name, is_tag_name
from lance_spark.storage.store import Store

TAGS = "_refs/tags"
BRANCHES = "_refs/branches"
CLONES = "_refs/clones"
CLONE_TAG = "lance_spark.clone."
"""How the names of tags begin that hold the version that a clone reads."""
MERGED_TAG = "lance_spark.merged."
"""How the names of tags begin that hold the version of a branch that was merged into another one."""
CLONE_URI = "lance_spark.clone_uri"
"""The key of such a tag's metadata with the URI of the clone."""
TRANSACTION_BRANCH = "lance_spark.transaction."
"""How the names of the branches of transactions over several tables begin, which the id of the transaction follows."""
MAIN = "main"
_LOG = logging.getLogger(__name__)
_Ref = TypeVar("_Ref")


@dataclass(frozen=True)
class Tag:
    """A name for `version` of `branch` (None: the main branch).

    `created_at` and `updated_at` are ISO 8601 in UTC; `manifest_size` is in bytes. They are None if an old writer left them out.
    """

    name: str
    version: int
    branch: str | None
    manifest_size: int | None = None
    created_at: str | None = None
    updated_at: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Branch:
    """A branch of `parent_version` of `parent_branch` (None: the main branch). `created_at` is in seconds since 1970.

    `identifier` distinguishes it from earlier branches of the same name: for the branch and each of its ancestors, the version at which
    it was created and a unique id. It is empty if an old writer left it out. `manifest_size` is that of the parent version in bytes.
    """

    name: str
    parent_version: int
    parent_branch: str | None
    created_at: int
    manifest_size: int | None = None
    identifier: tuple[tuple[int, str], ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


class TagList(Named[Tag]):
    """Tags by name."""

    def table(self, shown: int = SHOWN) -> Table:
        """One row for each tag."""
        rows = []
        for tag in islice(self.values(), shown):
            rows.append((tag.name, str(tag.version), tag.branch or MAIN, tag.created_at or ""))
        return Table(("tag", "version", "branch", "created"), rows, frozenset(["version"]), left_out(self, shown=shown))


class BranchList(Named[Branch]):
    """Branches by name."""

    def table(self, shown: int = SHOWN) -> Table:
        """One row for each branch."""
        rows = []
        for branch in islice(self.values(), shown):
            created = moment(datetime.fromtimestamp(branch.created_at, UTC))
            parent = (str(branch.parent_version), branch.parent_branch or MAIN)
            rows.append((branch.name, *parent, created))
        return Table(("branch", "from version", "of branch", "created"), rows, frozenset(["from version"]), left_out(self, shown=shown))


@dataclass(frozen=True)
class CloneRecord:
    """A clone, which reads files of `version` of `branch` of this table. `path` is that of the file in which it is recorded.

    `made_at` (ISO 8601) is when it was recorded; None if that is unknown.
    """

    path: str
    uri: str
    version: int
    branch: str | None
    made_at: str | None = None


def now() -> str:
    """The time as references have it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def is_branch_name(name: str) -> bool:
    """True if this is a valid name of a branch other than the main one. Raises TypeError for anything but text."""
    check_type("the name of a branch", name, str, "text")
    segments = all(s != "." and SEGMENT.fullmatch(s) for s in name.split("/"))
    return segments and name != MAIN and ".." not in name and not name.endswith(".lock")


def check_tag_name(name: str) -> None:
    """Raise ValueError for an invalid name of a tag. A valid name cannot be a path outside of its folder."""
    if not is_tag_name(name):
        raise ValueError(
            f"invalid tag name {name!r}: use letters, digits, '.', '-' and '_', no '.' at either end, no '..', no '.lock' at the end"
        )


def check_not_in_transaction(where: object, branch: str | None, what: str) -> None:
    """Raise UnsupportedFeatureError for the branch of a transaction: `what` would be seen outside of it, and keep the branch."""
    if branch is not None and branch.startswith(TRANSACTION_BRANCH):
        raise UnsupportedFeatureError(f"{where}: a transaction contains no {what}; COMMIT or ROLLBACK first")


def check_new_tag_name(name: str) -> None:
    """Raise ValueError if no new tag may have this name. Tags that have such a name already can be read, moved and removed."""
    check_tag_name(name)
    if not is_new_tag_name(name):
        raise ValueError(
            f"invalid name of a new tag {name!r}: use only the letters a to z and A to Z, because pylance cannot list "
            "the tags of a table that has a tag with other letters or digits in its name"
        )


def check_branch_name(name: str) -> None:
    """Raise ValueError for an invalid name of a branch. A valid name cannot be a path outside of its folder."""
    if not is_branch_name(name):
        raise ValueError(
            f"invalid branch name {name!r}: use letters, digits, '.', '-' and '_' in segments separated by '/', no '..', and not 'main'"
        )


def branch_folder(name: str) -> str:
    """The folder of a branch, relative to the table's root."""
    check_branch_name(name)
    return f"tree/{name}"


def tag(store: Store, name: str) -> Tag:
    """Read a tag. Raises VersionNotFoundError, which lists the existing tags."""
    check_tag_name(name)
    try:
        return _read_tag(store, name, _path(TAGS, name))
    except FileNotFoundError as e:
        raise _no_tag(store, name) from e


def _no_tag(store: Store, name: str) -> VersionNotFoundError:
    return VersionNotFoundError(f"{store.uri} has no tag {name!r}; existing tags: {_listed(_names(store, TAGS))}")


def tags(store: Store) -> TagList:
    """All tags by name."""
    return TagList({tag.name: tag for tag in _read_all(store, TAGS, _read_tag, is_tag_name)})


def branch(store: Store, name: str) -> Branch:
    """Read a branch. Raises VersionNotFoundError, which lists the existing branches."""
    check_branch_name(name)
    try:
        return _read_branch(store, name, _path(BRANCHES, name))
    except FileNotFoundError as e:
        raise VersionNotFoundError(f"{store.uri} has no branch {name!r}; existing branches: {_listed(_names(store, BRANCHES))}") from e


def branches(store: Store) -> BranchList:
    """All branches except the main one, by name."""
    return BranchList({branch.name: branch for branch in _read_all(store, BRANCHES, _read_branch, is_branch_name)})


def clones(store: Store) -> list[CloneRecord]:
    """The recorded clones, including those that no longer exist. `uri` is "" if the record has none.

    A record of lance-spark 0.1 without a valid version keeps no files; it is skipped with a warning.
    """
    old = [clone for clone in _read_all(store, CLONES, _read_clone) if clone is not None]
    holding = [tag for tag in tags(store).values() if tag.name.startswith(CLONE_TAG)]
    return [*old, *(clone_of(tag) for tag in holding)]


def clone_of(tag: Tag) -> CloneRecord:
    """The clone that a tag is there for."""
    return CloneRecord(_path(TAGS, tag.name), tag.metadata.get(CLONE_URI, ""), tag.version, tag.branch, tag.created_at)


def put_tag(store: Store, tag: Tag, *, new: bool) -> None:
    """Write a tag. With `new`, raises RefConflictError if it exists."""
    check_tag_name(tag.name)
    content = {"branch": tag.branch, "version": tag.version, "createdAt": tag.created_at, "updatedAt": tag.updated_at}
    _put(store, TAGS, tag.name, content | {"manifestSize": tag.manifest_size, "metadata": dict(tag.metadata)}, new)


def put_branch(store: Store, branch: Branch, *, new: bool) -> None:
    """Write the record of a branch. With `new`, raises RefConflictError if it exists."""
    check_branch_name(branch.name)
    content = {
        "parentBranch": branch.parent_branch,
        "identifier": {"version_mapping": [list(step) for step in branch.identifier]},
        "parentVersion": branch.parent_version,
        "createAt": branch.created_at,
        "manifestSize": branch.manifest_size,
        "metadata": dict(branch.metadata),
    }
    _put(store, BRANCHES, branch.name, content, new)


def delete_tag(store: Store, name: str) -> None:
    """Remove a tag, even if its file is invalid. Raises VersionNotFoundError if it does not exist."""
    check_tag_name(name)
    if not store.exists(_path(TAGS, name)):
        raise _no_tag(store, name)
    store.delete(_path(TAGS, name))


def delete_branch(store: Store, name: str) -> None:
    """Remove the record of a branch, but none of its files."""
    check_branch_name(name)
    store.delete(_path(BRANCHES, name))


def _put(store: Store, folder: str, name: str, content: dict[str, Any], new: bool) -> None:
    path, data = _path(folder, name), json.dumps(content, indent=2).encode()
    if not new:
        store.put(path, data)
        return
    what = {TAGS: "the tag", BRANCHES: "the branch"}.get(folder, "the record")
    move = "; move it with tags.update, or delete it first" if folder == TAGS else ""
    conflict = RefConflictError(f"{store.uri}: {what} {name!r} already exists{move}")
    if store.manifest_store:  # the store has no conditional put
        if store.exists(path):
            raise conflict
        store.put(path, data)
        return
    try:
        store.put_if_absent(path, data)
    except FileExistsError:
        # Clients of object stores retry internally, so the existing file may be our own.
        if store.read(path) != data:
            raise conflict from None


def _names(store: Store, folder: str) -> dict[str, str]:
    """The references in a folder: name -> path of the file."""
    files = [entry.name for entry in store.list(folder) if entry.name.endswith(".json")]
    return {unquote(file.removesuffix(".json")): f"{folder}/{file}" for file in files}


def _read_all(
    store: Store, folder: str, read: Callable[[Store, str, str], _Ref], is_name: Callable[[str], bool] = lambda _: True
) -> Iterator[_Ref]:
    """Read all references in a folder, skipping files with invalid names."""
    for name, path in _names(store, folder).items():
        if not is_name(name):
            continue
        # The file may be deleted after the listing.
        with contextlib.suppress(MissingFileError):
            yield read(store, name, path)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _path(folder: str, name: str) -> str:
    return f"{folder}/{quote(name, safe='')}.json"


def _read_tag(store: Store, name: str, path: str) -> Tag:
    content = _read_json(store, path)
    times = _text(content, "createdAt", store, path), _text(content, "updatedAt", store, path)
    version, branch = _number(content, "version", store, path), _branch_name(content, "branch", store, path)
    return Tag(name, version, branch, _size(content, store, path), *times, _metadata(content, store, path))


def _read_branch(store: Store, name: str, path: str) -> Branch:
    content = _read_json(store, path)
    parent = _branch_name(content, "parentBranch", store, path)
    version, created = _number(content, "parentVersion", store, path), _number(content, "createAt", store, path)
    size, metadata = _size(content, store, path), _metadata(content, store, path)
    return Branch(name, version, parent, created, size, _identifier(content, store, path), metadata)


def _read_clone(store: Store, name: str, path: str) -> CloneRecord | None:
    try:
        content = _read_json(store, path)
        version, branch = _number(content, "version", store, path), _branch_name(content, "branch", store, path)
    except CorruptFileError as e:
        _LOG.warning("skipping an invalid record of a clone: %s", e)
        return None
    uri = content.get("uri")
    return CloneRecord(path, uri if isinstance(uri, str) else "", version, branch)


def _size(content: dict[str, Any], store: Store, path: str) -> int | None:
    return None if _value(content, "manifestSize") is None else _number(content, "manifestSize", store, path)


def _metadata(content: dict[str, Any], store: Store, path: str) -> dict[str, str]:
    metadata = content.get("metadata") or {}
    if not isinstance(metadata, dict) or not all(_is_text(text) for entry in metadata.items() for text in entry):
        raise CorruptFileError(f"{store.uri}/{path}: metadata is {_shown(metadata)}, expected an object with string values")
    return metadata


def _is_step(step: object) -> bool:
    return isinstance(step, list) and [type(part) for part in step] == [int, str]


def _identifier(content: dict[str, Any], store: Store, path: str) -> tuple[tuple[int, str], ...]:
    identifier = content.get("identifier") or {}
    steps = identifier.get("version_mapping", []) if isinstance(identifier, dict) else None
    if not isinstance(steps, list) or not all(map(_is_step, steps)):
        raise CorruptFileError(f"{store.uri}/{path}: identifier is {_shown(identifier)}, expected pairs of a version and an id")
    return tuple((version, id) for version, id in steps)


def _read_json(store: Store, path: str) -> dict[str, Any]:
    data = store.read(path)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise CorruptFileError(f"{store.uri}/{path} is not JSON") from e
    if not isinstance(content, dict):
        raise CorruptFileError(f"{store.uri}/{path} is not a JSON object")
    return content


def _value(content: dict[str, Any], key: str) -> Any:
    """The value of a key: `parentVersion`, as writers spell it, or `parent_version`, as in the specification."""
    return content.get(key, content.get(re.sub("[A-Z]", lambda m: "_" + m[0].lower(), key)))


def _number(content: dict[str, Any], key: str, store: Store, path: str) -> int:
    value = _value(content, key)
    if type(value) is not int or not 0 <= value < 2**64:
        raise CorruptFileError(f"{store.uri}/{path}: {key} is {_shown(value)}, expected an unsigned 64-bit integer")
    return value


def _text(content: dict[str, Any], key: str, store: Store, path: str) -> str | None:
    value = _value(content, key)
    if value is not None and not _is_text(value):
        raise CorruptFileError(f"{store.uri}/{path}: {key} is {_shown(value)}, expected a string")
    return value


def _is_text(value: Any) -> TypeGuard[str]:
    """True for a string without lone surrogates, which JSON can contain but UTF-8 cannot."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def _branch_name(content: dict[str, Any], key: str, store: Store, path: str) -> str | None:
    """The name of a branch; None for the main one."""
    name = _text(content, key, store, path)
    if name is None or name == MAIN:
        return None
    if not is_branch_name(name):
        raise CorruptFileError(f"{store.uri}/{path}: {key} is {_shown(name)}, expected a valid branch name")
    return name


_shown = reprlib.repr
"""Abbreviates a value of any size and depth."""
