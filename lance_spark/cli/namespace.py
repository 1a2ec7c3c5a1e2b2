"""`namespace`: what is in a namespace, one thing in it, dropping it, and whether its tables are whole."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance_spark.cli.arguments import add_json, add_storage_options, add_yes, confirmed, key_and_value
from lance_spark.cli.output import print_json
from lance_spark.display.table import Table
from lance_spark.display.words import counted, printable
from lance_spark.errors import InvalidOptionError, LanceError, NamespaceNotFoundError, TableNotFoundError

if TYPE_CHECKING:
    from lance_spark.namespace.partitioned.root import PartitionedVersion
    from lance_spark.namespace.protocol import Namespace

Names = tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """A namespace or a table."""

    id: Names
    kind: str


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "list, describe, drop, verify and compact the tables of a namespace"
    parser = commands.add_parser("namespace", help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument("uri", metavar="URI", help="the namespace: a local path, or a URI such as s3://bucket/lake or https://host/api")
    add_storage_options(parser)
    parser.add_argument(
        "--property", metavar="KEY=VALUE", type=key_and_value, action="append", default=[],
        help="a property of the namespace, such as manifest_enabled=false; may be repeated",
    )  # fmt: skip
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    for name, run, what, least in (
        ("ls", _ls, "list what is in a namespace, the root by default", 0),
        ("describe", _describe, "print where a table is and what it holds, or the properties of a namespace", 0),
        ("drop", _drop, "remove a table and its files, or an empty namespace", 1),
        ("verify", _verify, "check every file of every table; the exit code is 1 if one is not whole", 0),
        ("compact", _compact, "compact the tables of a partitioned namespace, in one version", None),
    ):
        action = actions.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        if least is None:
            action.add_argument("--where", metavar="TEXT", help="only tables with a row for which this condition of Spark's SQL is true")
        else:
            action.add_argument("id", metavar="ID", nargs=None if least else "?", type=_id, default=(), help="names with dots between")
        if name == "ls":
            action.add_argument("-r", "--recursive", action="store_true", help="also list what is in the namespaces below")
        if name == "drop":
            add_yes(action)
        add_json(action)
        action.set_defaults(run=run)


def _id(text: str) -> Names:
    from lance_spark.options.values import parse_id

    try:
        return parse_id(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"expected {e}") from None


def _open(arguments: argparse.Namespace) -> Namespace:
    from lance_spark.namespace.connect import connect  # loads the decoders, which help and usage errors do without

    return connect(arguments.uri, dict(arguments.storage_option), dict(arguments.property))


def _entries(namespace: Namespace, id: Names, recursive: bool) -> Iterator[Entry]:
    for name in namespace.list_tables(id):
        yield Entry((*id, name), "table")
    for name in namespace.list_namespaces(id):
        yield Entry((*id, name), "namespace")
        if recursive:
            yield from _entries(namespace, (*id, name), recursive)


def _ls(arguments: argparse.Namespace) -> int:
    found = list(_entries(_open(arguments), arguments.id, arguments.recursive))
    if arguments.json:
        print_json(found)
    else:
        print(Table(("kind", "id"), [(entry.kind, ".".join(entry.id)) for entry in found]))
    return 0


def _describe(arguments: argparse.Namespace) -> int:
    namespace = _open(arguments)
    about: dict[str, Any]
    try:
        table = namespace.describe_table(arguments.id) if arguments.id else None
    except TableNotFoundError:
        table = None
    if table is None:
        try:
            about = {"kind": "namespace", "properties": namespace.describe_namespace(arguments.id)}
        except NamespaceNotFoundError:
            there = ", ".join(".".join(entry.id) for entry in _entries(namespace, (), recursive=True)) or "none"
            raise NamespaceNotFoundError(
                f"{arguments.uri} has no table or namespace {'.'.join(arguments.id)!r}; there are: {there}"
            ) from None
    else:
        about = {"kind": "table", "location": table.location, "properties": dict(table.properties)}
        if not table.is_only_declared:
            dataset = namespace.open(arguments.id)
            about |= {"version": dataset.version, "rows": dataset.count_rows(), "columns": dataset.schema.names}
    if arguments.json:
        print_json({"id": arguments.id, **about})
        return 0
    properties = about.pop("properties")
    for key, value in (*about.items(), *((f"property {key}", value) for key, value in properties.items())):
        print(printable(f"{key}: {', '.join(value) if isinstance(value, list) else value}"))
    return 0


def _drop(arguments: argparse.Namespace) -> int:
    namespace, kind, name = _open(arguments), "table", ".".join(arguments.id)
    if namespace.namespace_exists(arguments.id):
        kind = "namespace"
    elif not arguments.yes:
        namespace.describe_table(arguments.id)
    if not confirmed(arguments, printable(f"Drop the {kind} {name}{' and all its files' if kind == 'table' else ''}?")):
        return 1
    drop = namespace.drop_table if kind == "table" else namespace.drop_namespace
    drop(arguments.id)
    if arguments.json:
        print_json(Entry(arguments.id, kind))
    else:
        print(printable(f"dropped the {kind} {name}"))
    return 0


def _partitioned(namespace: Namespace) -> PartitionedVersion | None:
    """The latest version of a partitioned namespace; None for another one."""
    from lance_spark.namespace.directory import DirectoryNamespace
    from lance_spark.namespace.partitioned.root import open_partitioned

    return open_partitioned(namespace.root) if isinstance(namespace, DirectoryNamespace) and namespace.has_manifest else None


def _compact(arguments: argparse.Namespace) -> int:
    from lance_spark.namespace.partitioned.namespace import PartitionedNamespace

    version = _partitioned(_open(arguments))
    if version is None:
        raise InvalidOptionError(f"{arguments.uri} is no partitioned namespace; compact each of its tables: lance_spark compact TABLE")
    done = PartitionedNamespace(version).compact(where=arguments.where)
    if arguments.json:
        print_json(done)
    else:
        became = f"{done.fragments_removed} fragments became {done.fragments_added}"
        print(f"version {done.version}: compacted {counted(done.tables, 'table')}, {became}; {counted(done.conflicts, 'conflict')}")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from lance_spark.namespace.partitioned.maintenance import verify_partitioned

    namespace = _open(arguments)
    if not arguments.id and (partitioned := _partitioned(namespace)) is not None:
        report = verify_partitioned(partitioned)
        if arguments.json:
            print_json({"ok": report.ok, "report": report})
        else:
            print(report)
        return 0 if report.ok else 1
    tables = [entry.id for entry in _entries(namespace, arguments.id, recursive=True) if entry.kind == "table"]
    results = {".".join(id): _problems(namespace, id) for id in tables}
    ok = not any(results.values())
    if arguments.json:
        print_json({"ok": ok, "tables": results})
        return 0 if ok else 1
    for id, problems in results.items():
        print(printable(f"{id}: {'ok' if not problems else f'{len(problems)} problems'}"))
        for problem in problems:
            print(printable(f"  {problem}"))
    return 0 if ok else 1


def _problems(namespace: Namespace, id: Names) -> list[str]:
    """What is wrong with a table; nothing for one that is only declared."""
    try:
        if namespace.describe_table(id).is_only_declared:
            return []
        return [str(problem) for problem in namespace.open(id).verify().problems]
    except LanceError as e:
        return [str(e)]
