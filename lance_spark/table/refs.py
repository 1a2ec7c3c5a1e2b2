"""Tags and branches: named references to versions, kept as JSON files under `_refs` of the table's root.

Implements the branch and tag page of the table specification. A branch is a table of its own in `tree/<branch>`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from lance_spark.errors import CorruptFileError, VersionNotFoundError
from lance_spark.storage import Store

TAGS = "_refs/tags"
BRANCHES = "_refs/branches"
MAIN = "main"
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Tag:
    """A name for `version` of `branch` (None: the main branch)."""

    name: str
    version: int
    branch: str | None


@dataclass(frozen=True)
class Branch:
    """A branch that was made from `parent_version` of `parent_branch` (None: the main branch), `created_at` seconds after 1970."""

    name: str
    parent_version: int
    parent_branch: str | None
    created_at: int


def check_tag_name(name: str) -> None:
    """Raise ValueError for a name that no tag can have, and so for every path in disguise."""
    if not _SEGMENT.fullmatch(name) or name[0] == "." or name[-1] == "." or ".." in name or name.endswith(".lock"):
        raise ValueError(
            f"{name!r} cannot be the name of a tag: letters, digits, '.', '-' and '_', no '.' at either end, no '..', no '.lock' at the end"
        )


def check_branch_name(name: str) -> None:
    """Raise ValueError for a name that no branch can have, and so for every path in disguise."""
    if name == MAIN or ".." in name or name.endswith(".lock") or not all(s != "." and _SEGMENT.fullmatch(s) for s in name.split("/")):
        raise ValueError(
            f"{name!r} cannot be the name of a branch: segments of letters, digits, '.', '-' and '_' between single '/', not 'main'"
        )


def branch_folder(name: str) -> str:
    """Where a branch's table is, below the root of the table."""
    check_branch_name(name)
    return f"tree/{name}"


def tag(store: Store, name: str) -> Tag:
    """One tag. Raises VersionNotFoundError with the tags that there are."""
    check_tag_name(name)
    try:
        return _read_tag(store, name)
    except FileNotFoundError as e:
        raise VersionNotFoundError(f"{store.uri} has no tag {name!r}; there are: {_listed(_names(store, TAGS))}") from e


def tags(store: Store) -> dict[str, Tag]:
    """All tags by name."""
    return {name: _read_tag(store, name) for name in _names(store, TAGS)}


def branch(store: Store, name: str) -> Branch:
    """One branch. Raises VersionNotFoundError with the branches that there are."""
    check_branch_name(name)
    try:
        return _read_branch(store, name)
    except FileNotFoundError as e:
        raise VersionNotFoundError(f"{store.uri} has no branch {name!r}; there are: {_listed(_names(store, BRANCHES))}") from e


def branches(store: Store) -> dict[str, Branch]:
    """All branches but the main one, by name."""
    return {name: _read_branch(store, name) for name in _names(store, BRANCHES)}


def _names(store: Store, folder: str) -> list[str]:
    return [unquote(entry.name.removesuffix(".json")) for entry in store.list(folder) if entry.name.endswith(".json")]


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _path(folder: str, name: str) -> str:
    return f"{folder}/{quote(name, safe='')}.json"


def _read_tag(store: Store, name: str) -> Tag:
    path = _path(TAGS, name)
    content = _read_json(store, path)
    return Tag(name, _number(content, "version", store, path), _text(content, "branch", store, path))


def _read_branch(store: Store, name: str) -> Branch:
    path = _path(BRANCHES, name)
    content = _read_json(store, path)
    parent = _text(content, "parentBranch", store, path)
    return Branch(name, _number(content, "parentVersion", store, path), parent, _number(content, "createAt", store, path))


def _read_json(store: Store, path: str) -> dict[str, Any]:
    data = store.read(path)
    try:
        content = json.loads(data)
    except ValueError as e:
        raise CorruptFileError(f"{store.uri}/{path} is not JSON") from e
    if not isinstance(content, dict):
        raise CorruptFileError(f"{store.uri}/{path} is not a JSON object")
    return content


def _value(content: dict[str, Any], key: str) -> Any:
    """The value of a key, which the specification writes as `parent_version` and writers as `parentVersion`."""
    return content.get(key, content.get(re.sub("[A-Z]", lambda m: "_" + m[0].lower(), key)))


def _number(content: dict[str, Any], key: str, store: Store, path: str) -> int:
    value = _value(content, key)
    if type(value) is not int or value < 0:
        raise CorruptFileError(f"{store.uri}/{path}: {key} must be a number, it is {value!r}")
    return value


def _text(content: dict[str, Any], key: str, store: Store, path: str) -> str | None:
    value = _value(content, key)
    if value is not None and not isinstance(value, str):
        raise CorruptFileError(f"{store.uri}/{path}: {key} must be text, it is {value!r}")
    return value
