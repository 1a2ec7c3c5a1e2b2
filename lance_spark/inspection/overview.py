"""The overview of a version for notebooks and shells, from its manifest alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lance_spark.display.listing import SHOWN, left_out
from lance_spark.display.table import Table, escape
from lance_spark.display.words import counted, moment, printable
from lance_spark.errors import LanceError
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.metadata.manifest import Manifest
from lance_spark.schema.schema import Field
from lance_spark.table.versions.snapshot import Snapshot, to_datetime

_OPEN = 30
"""Maximum number of columns that a notebook shows unfolded."""
_MUTED = "opacity: 0.7; overflow-wrap: anywhere"


@dataclass(frozen=True)
class Column:
    """A field of the schema, `depth` levels below the top; `type` is Arrow's name of the type, for nested fields only its kind."""

    name: str
    depth: int
    field_id: int
    type: str
    nullable: bool


@dataclass(frozen=True)
class Overview:
    """The overview. `rows` is the number of live rows, None if a writer left out a required number."""

    uri: str
    version: int
    branch: str | None
    timestamp: datetime
    storage_version: str
    writer: str
    rows: int | None
    fragments: int
    columns: tuple[Column, ...]
    indexes: tuple[str, ...]

    def __str__(self) -> str:
        """A heading and the columns."""
        return f"{printable(self.uri)}, {self.title}\n{self.counts}\n\n{self.schema}"

    @property
    def title(self) -> str:
        """The version, its branch and its time."""
        branch = f" of branch {printable(self.branch)}" if self.branch else ""
        return f"version {self.version}{branch}, {moment(self.timestamp)}"

    @property
    def counts(self) -> str:
        """Rows, fragments, the storage version and the names of indexes."""
        parts = [counted(self.rows, "row"), counted(self.fragments, "fragment"), f"storage version {printable(self.storage_version)}"]
        parts += [f"indexes: {', '.join(printable(name) for name in self.indexes)}"] if self.indexes else []
        return ", ".join(parts)

    @property
    def schema(self) -> Table:
        """The columns, those of structs and lists indented."""
        rows = [("  " * c.depth + c.name, c.type, "" if c.nullable else "not null") for c in self.columns[:SHOWN]]
        return Table(("column", "type", ""), rows, note=left_out(self.columns))

    def _repr_html_(self) -> str:
        return (
            f'<div><div><strong style="overflow-wrap: anywhere">{escape(self.uri)}</strong></div>'
            f'<div style="{_MUTED}">{escape(self.title)}</div><div style="{_MUTED}">{escape(self.counts)}</div>'
            f"{self._schema_html()}</div>"
        )

    def _schema_html(self) -> str:
        """The columns, folded if there are many."""
        table = self.schema._repr_html_()
        if len(self.columns) <= _OPEN:
            return table
        return f"<details><summary>{counted(len(self.columns), 'column')}</summary>{table}</details>"


def overview(snapshot: Snapshot) -> Overview:
    """The overview of a version; reads no file."""
    manifest = snapshot.manifest
    return Overview(
        snapshot.store.uri,
        manifest.version,
        manifest.branch,
        to_datetime(manifest.timestamp),
        manifest.data_format,
        writer_of(manifest),
        manifest.num_rows,
        len(manifest.fragments),
        tuple(_columns(manifest.schema.fields)),
        tuple(index_names(manifest.indexes)),
    )


def writer_of(manifest: Manifest) -> str:
    """The library that wrote the manifest, such as "lance 14.0.2"; "" if it is not recorded."""
    return f"{manifest.writer.library} {manifest.writer.version}".strip() if manifest.writer else ""


def index_names(indexes: Sequence[IndexMetadata]) -> list[str]:
    """The distinct names of indexes; the segments of an index share its name."""
    return list(dict.fromkeys(index.name for index in indexes))


def _columns(fields: Sequence[Field], depth: int = 0) -> Iterator[Column]:
    for f in fields:
        inner = () if f.is_leaf else f.children
        yield Column(f.name, depth, f.id, type_name(f), f.nullable)
        yield from _columns(inner, depth + 1)


def type_name(f: Field) -> str:
    """Arrow's name of the field's type. For nested fields it is the kind alone, and for unknown types the logical type in the manifest."""
    if f.extension:
        return f.extension.decode(errors="replace")
    if f.is_blob:
        return "blob"
    if f.children:
        return f.logical_type.split(":")[0].removesuffix(".struct")
    try:
        return str(f.type)
    except LanceError:
        return f.logical_type
