"""Tags, branches and the places of streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lance_spark.actions.action import REQUIRED as NEEDED
from lance_spark.actions.action import VERSION, Action, Command, Given, Outcome, Parameter, Said, absent, reference
from lance_spark.display.table import Table
from lance_spark.display.words import printable
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.inspection.metadata_tables import METADATA_TABLES
from lance_spark.table.maintenance import clone
from lance_spark.table.versions.consumers import Consumer, Consumers
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.versions.tags_and_branches import Branches, Tags, resolve

_OF_PYLANCE: Mapping[Any, Said] = {
    "Dataset": Said("the name in pylance", "reference"),
    "LanceTable": Said("the name in pylance", "reference"),
}
_PYTHON_ASKS = absent("a program asks `name in tags.list()`; the methods are those of pylance")
_IN_SQL: Mapping[Any, Said] = {"Dataset": _PYTHON_ASKS, "LanceTable": _PYTHON_ASKS}


def _name(kind: str) -> Parameter:
    said = Said("the name in pylance", kind)
    return Parameter("name", "string", f"the {kind}", NEEDED, says={"Dataset": said, "LanceTable": said})


_VERSION_OF_TAG = Parameter(VERSION, VERSION, "a version by its number, or by its tag (default: the latest)", says=_OF_PYLANCE)
_IF_NOT_EXISTS = Parameter("if_not_exists", "boolean", "leave one that exists as it is", False, says=_IN_SQL)
_OR_REPLACE = Parameter("or_replace", "boolean", "replace one that exists", False, says=_IN_SQL)
_IF_EXISTS = Parameter("if_exists", "boolean", "do nothing if there is none", False, says=_IN_SQL)


def create_tag(
    snapshot: Snapshot,
    name: str,
    version: str | None = None,
    if_not_exists: bool = False,
    or_replace: bool = False,
) -> list[tuple[str, int]]:
    """The row of `create_tag`."""
    tags = Tags(snapshot)
    exists = (if_not_exists or or_replace) and name in tags.list()
    if exists and or_replace:
        return update_tag(snapshot, name, version)
    if not exists:
        tags.create(name, reference(version))
    return [(name, tags.get_version(name))]


def update_tag(snapshot: Snapshot, name: str, version: str | None = None) -> list[tuple[str, int]]:
    """The row of `update_tag`."""
    Tags(snapshot).update(name, reference(version))
    return [(name, Tags(snapshot).get_version(name))]


@dataclass(frozen=True)
class DeletedTag:
    """A tag that was removed, and its version; None if there was none."""

    name: str
    version: int | None


def delete_tag(snapshot: Snapshot, name: str, if_exists: bool = False) -> DeletedTag:
    """The value of `delete_tag`."""
    tags = Tags(snapshot)
    if if_exists and name not in tags.list():
        return DeletedTag(name, None)
    version = tags.get_version(name)
    tags.delete(name)
    return DeletedTag(name, version)


def create_branch(
    snapshot: Snapshot,
    name: str,
    version: str | None = None,
    if_not_exists: bool = False,
    or_replace: bool = False,
) -> list[tuple[str, int]]:
    """The row of `create_branch`."""
    exists = (if_not_exists or or_replace) and name in Branches(snapshot).list()
    if exists and or_replace:
        if resolve(snapshot, reference(version)).store.uri != snapshot.root.uri:
            raise UnsupportedFeatureError(f"the branch {name!r} can be replaced only by a version of the main branch")
        Branches(snapshot).delete(name)
    elif exists:
        others = snapshot.allow_other_stores
        return [(name, open_snapshot(snapshot.root, branch=name, allow_other_stores=others).version)]
    return [(name, clone.create_branch(snapshot, name, reference(version)).version)]


def delete_branch(snapshot: Snapshot, name: str, if_exists: bool = False) -> list[tuple[str]]:
    """The row of `delete_branch`."""
    if not if_exists or name in Branches(snapshot).list():
        Branches(snapshot).delete(name)
    return [(name,)]


def list_consumers(snapshot: Snapshot) -> list[Consumer]:
    """The rows of `consumers`."""
    return Consumers(snapshot).list()


def drop_consumer(snapshot: Snapshot, id: str) -> list[tuple[str]]:
    """The row of `drop_consumer`."""
    Consumers(snapshot).drop(id)
    return [(id,)]


def _tags_told(outcome: Outcome) -> str:
    tags = Tags(outcome.snapshot).list().values()
    rows = [(tag.name, str(tag.version), tag.branch or "main") for tag in tags]
    return str(Table(("tag", "version", "branch"), rows, right=frozenset(["version"])))


def _tag_told(outcome: Outcome) -> str:
    [(name, version)] = outcome.value
    return printable(f"tag {name}: version {version}")


def _tag_plain(outcome: Outcome) -> dict[str, Any]:
    [(name, version)] = outcome.value
    return {"tag": name, "version": version}


def _tag_question(snapshot: Snapshot, given: Given) -> str | None:
    name = given["name"]
    if given.get("if_exists") and name not in Tags(snapshot).list():
        return None
    version = Tags(snapshot).get_version(name)
    return printable(f"Delete the tag {name} of version {version}?")


def _deleted_tag_told(outcome: Outcome) -> str:
    tag: DeletedTag = outcome.value
    if tag.version is None:
        return printable(f"there is no tag {tag.name}")
    return printable(f"deleted the tag {tag.name} of version {tag.version}")


def _deleted(kind: str) -> Command:
    return Command(
        f"{kind} delete",
        question=lambda snapshot, given: printable(f"Delete the {_ONE[kind]} {given['name']}?"),
        told=lambda outcome: printable(f"deleted the {_ONE[kind]} {outcome.value[0][0]}"),
    )


_ONE = {"tags": "tag", "branches": "branch"}
_NAME_AND_VERSION = {"name": "string NOT NULL", "version": "bigint"}
ACTIONS = (
    Action(
        "tags",
        "list the tags",
        {"name": "string", "branch": "string", "version": "bigint", "created_at": "string", "updated_at": "string"},
        METADATA_TABLES["tags"].rows,
        methods={"Dataset": ("tags.list",), "LanceTable": ("tags.list",)},
        command=Command("tags list", told=_tags_told, plain=lambda outcome: Tags(outcome.snapshot).list()),
    ),
    Action(
        "create_tag",
        "create a tag for a version",
        _NAME_AND_VERSION,
        create_tag,
        (_name("tag"), _VERSION_OF_TAG, _IF_NOT_EXISTS, _OR_REPLACE),
        effect="keeps",
        methods={"Dataset": ("tags.create",), "LanceTable": ("tags.create",)},
        command=Command("tags create", told=_tag_told, plain=_tag_plain),
        see="See [branches and tags](branches-and-tags.md).",
    ),
    Action(
        "update_tag",
        "move a tag to another version",
        {"name": "string", "version": "bigint"},
        update_tag,
        (_name("tag"), _VERSION_OF_TAG),
        effect="keeps",
        methods={"Dataset": ("tags.update",), "LanceTable": ("tags.update",)},
        command=Command("tags update", told=_tag_told, plain=_tag_plain),
    ),
    Action(
        "delete_tag",
        "remove a tag",
        {"name": "string NOT NULL"},
        delete_tag,
        (_name("tag"), _IF_EXISTS),
        effect="keeps",
        methods={"Dataset": ("tags.delete",), "LanceTable": ("tags.delete",)},
        command=Command(
            "tags delete",
            about="Its version stays.",
            question=_tag_question,
            told=_deleted_tag_told,
            plain=lambda outcome: {"tag": outcome.value.name, "version": outcome.value.version},
        ),
    ),
    Action(
        "branches",
        "list the branches but the main one",
        {"name": "string", "parent_branch": "string", "parent_version": "bigint", "created_at": "timestamp"},
        METADATA_TABLES["branches"].rows,
        methods={"Dataset": ("branches.list",), "LanceTable": ("branches.list",)},
        command=Command("branches list"),
    ),
    Action(
        "create_branch",
        "create a branch that starts at a version",
        _NAME_AND_VERSION,
        create_branch,
        (
            Parameter("name", "string", "the branch", NEEDED, says={"Dataset": Said("the name in pylance", "branch")}),
            Parameter(
                VERSION,
                VERSION,
                "a version by its number, or by its tag (default: the latest)",
                says={"Dataset": Said("the name in pylance", "reference")},
            ),
            _IF_NOT_EXISTS,
            _OR_REPLACE,
        ),
        effect="keeps",
        methods={"Dataset": ("create_branch",), "LanceTable": ("createBranch",)},
        command=Command("branches create"),
        see="See [branches and tags](branches-and-tags.md).",
    ),
    Action(
        "delete_branch",
        "remove a branch with its files",
        {"name": "string NOT NULL"},
        delete_branch,
        (_name("branch"), _IF_EXISTS),
        effect="keeps",
        methods={"Dataset": ("branches.delete",), "LanceTable": ("branches.delete",)},
        command=_deleted("branches"),
    ),
    Action(
        "consumers",
        "list the places of streams, with their lag in versions",
        {
            "id": "string",
            "branch": "string",
            "version": "bigint",
            "lag": "bigint",
            "updated_at": "timestamp",
            "expires_at": "timestamp",
        },
        list_consumers,
        methods={"Dataset": ("consumers.list",), "LanceTable": ("consumers.list",)},
        command=Command("consumers list"),
        see="See [streaming](streaming.md#a-place-that-cleanups-respect).",
    ),
    Action(
        "drop_consumer",
        "forget the place of a consumer",
        {"id": "string"},
        drop_consumer,
        (Parameter("id", "string", "the id of the consumer", NEEDED),),
        effect="keeps",
        methods={"Dataset": ("consumers.drop",), "LanceTable": ("consumers.drop",)},
        command=Command(
            "consumers drop",
            question=lambda snapshot, given: printable(f"Forget the place of {given['id']}, so that cleanups may remove what it needs?"),
        ),
    ),
)
