"""The schema of a table: a tree of fields with ids and logical types, and its Arrow form.

Implements the schema page of the table specification. The tree determines nesting; the stored `Field.type` is ignored, since writers leave
it 0.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lance_spark.display.words import nearest
from lance_spark.errors import CorruptFileError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.schema.logical_types import (
    EXTENSION_METADATA,
    EXTENSION_NAME,
    LISTS,
    PRIMITIVES,
    logical_type,
    nested_type,
    parse_logical_type,
    primitive_name,
)

PRIMARY_KEY = b"lance-schema:unenforced-primary-key"
PRIMARY_KEY_POSITION = b"lance-schema:unenforced-primary-key:position"
BLOB = b"lance-encoding:blob"
PACKED = (b"lance-encoding:packed", b"packed")
BLOB_V2 = b"lance.blob.v2"
JSON = b"lance.json"

ITEM_NAMES = ("element", "item")
"""What Spark and Arrow call the item of a list in paths, whatever its name is."""

NO_METADATA: Mapping[bytes, bytes] = {}
"""The metadata of fields without any; never changed."""


@dataclass(frozen=True, slots=True)
class Field:
    """One node of the schema tree.

    `id` is unique in the table and never changes; `children` are the fields of a struct, the item of a list, the entries of
    a map or the item of a fixed-size list of structs. `metadata` is Arrow's field metadata. `dictionary` (offset, length)
    points into the manifest file and is used by 0.1 files only. `unknown` are the unknown protobuf fields, as read.
    With `descriptors` a blob column has the locations of its values as children (see `lance_spark.schema.blobs`) instead of the values.
    """

    name: str
    id: int
    logical_type: str
    nullable: bool = True
    children: tuple[Field, ...] = ()
    metadata: Mapping[bytes, bytes] = field(default_factory=lambda: NO_METADATA, hash=False)
    dictionary: tuple[int, int] | None = None
    unknown: bytes = b""
    descriptors: bool = False

    @property
    def type(self) -> pa.DataType:
        """The Arrow storage type, also of extension types (json and blobs: large_binary)."""
        if not self.children and (plain := PRIMITIVES.get(self.logical_type)) is not None:
            return plain
        if self.extension == BLOB_V2 and not self.descriptors:
            return pa.large_binary()
        return parse_logical_type(self.logical_type, self.name, [c.to_arrow() for c in self.children])

    def to_arrow(self) -> pa.Field:
        """The Arrow field with its metadata, as storage type (see `Schema.to_arrow` for extension types)."""
        return pa.field(self.name, self.type, self.nullable, dict(self.metadata) or None)

    @property
    def extension(self) -> bytes | None:
        """The Arrow extension name, such as b"lance.json"."""
        return self.metadata.get(EXTENSION_NAME)

    @property
    def is_packed(self) -> bool:
        """Whether the struct is stored row by row in one column (`lance-encoding:packed`)."""
        return self.logical_type == "struct" and any(self.metadata.get(k, b"").lower() == b"true" for k in PACKED)

    @property
    def is_blob(self) -> bool:
        """Whether values are stored out of line: blob v1 (metadata) or blob v2 (extension)."""
        return bool(self.metadata) and (self.metadata.get(BLOB, b"").lower() == b"true" or self.extension == BLOB_V2)

    @property
    def is_leaf(self) -> bool:
        """Whether a 2.1+ file stores the field as one column: no children, or packed children."""
        return not self.children or self.is_packed or self.is_blob

    def walk(self) -> Iterator[Field]:
        """This field and all fields below it, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def leaves(self) -> Iterator[Field]:
        """The fields at or below this one that own a column in a 2.1+ file."""
        if self.is_leaf:
            yield self
            return
        for child in self.children:
            yield from child.leaves()


@dataclass(frozen=True)
class Schema:
    """The top-level fields of a table or file, and the schema's own metadata.

    The columns that were resolved, the Arrow schema and what others `derived` from it stay in memory with it, but not in its pickle.
    """

    fields: tuple[Field, ...]
    metadata: Mapping[bytes, bytes] = field(default_factory=dict, hash=False)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in _IN_MEMORY}

    @cached_property
    def _resolved(self) -> dict[str, tuple[Field, ...]]:
        """The results of `resolve`."""
        return {}

    @cached_property
    def derived(self) -> dict[type, Any]:
        """What follows from the schema alone and takes longer to make than to find, by its type."""
        return {}

    @cached_property
    def ids(self) -> frozenset[int]:
        """The ids of all fields."""
        return frozenset(f.id for f in self.walk())

    @cached_property
    def _plain(self) -> pa.Schema | None:
        """The Arrow schema; None if it depends on the extension types that are registered."""
        if any(_may_have_extension(f) for f in self.walk()):
            return None
        return pa.schema([_shown(f) for f in self.fields], dict(self.metadata) or None)

    @property
    def is_fixed(self) -> bool:
        """Whether the Arrow schema does not depend on the extension types that are registered."""
        return self._plain is not None

    @property
    def names(self) -> list[str]:
        return [f.name for f in self.fields]

    def walk(self) -> Iterator[Field]:
        """All fields, depth first."""
        for f in self.fields:
            if f.children:
                yield from f.walk()
            else:
                yield f

    def paths(self) -> Iterator[tuple[Field, ...]]:
        """All fields, depth first, each with its parents before it, from the top level down."""
        waiting: list[tuple[Field, ...]] = [(f,) for f in reversed(self.fields)]
        while waiting:
            path = waiting.pop()
            yield path
            waiting += [(*path, child) for child in reversed(path[-1].children)]

    def leaves(self) -> Iterator[Field]:
        """All fields that own a column in a 2.1+ file, in column order."""
        for f in self.fields:
            if f.children:
                yield from f.leaves()
            else:
                yield f

    @property
    def max_field_id(self) -> int:
        """The largest field id, -1 if there are no fields."""
        return max((f.id for f in self.walk()), default=-1)

    def to_arrow(self) -> pa.Schema:
        """The Arrow schema as users see it: registered extension types restored, json as `arrow.json`."""
        if self._plain is not None:
            return self._plain
        shown = [_shown(f) for f in self.fields]
        try:
            return _restored(shown, self.metadata)
        except CorruptFileError:
            for f in shown:
                _restored([f], {})  # identifies the column
            raise

    def resolve(self, path: str) -> tuple[Field, ...]:
        """The fields from top level down to the column named by `path`, matched as Spark does: case-insensitively, nested by dots.

        A name that contains dots is tried as one name first, or is quoted with backticks, doubled within a name. Raises SchemaMismatchError
        for a name that does not exist or is ambiguous.
        """
        found = self._resolved.get(path)
        if found is None:
            found = self._resolved[path] = _resolve(self.fields, path, path)
        return found

    def resolve_field(self, path: str) -> tuple[Field, ...]:
        """Resolve a path as `resolve` does, and also into lists and maps, whose items no scan returns alone.

        The item of a list has its name, or `element` (Spark) or `item` (Arrow); a map has `key` and `value`.
        """
        return _resolve(self.fields, path, path, in_lists=True)

    def select(self, paths: Sequence[str]) -> Schema:
        """The schema of these columns only, in the order given; nested paths keep their parents with the named children."""
        chosen: list[Field] = []
        for path in paths:
            steps = self.resolve(path)
            pruned = steps[-1]
            for parent in reversed(steps[:-1]):
                pruned = replace(parent, children=(pruned,))
            for i, other in enumerate(chosen):
                if other.id == pruned.id:
                    chosen[i] = _union(steps[0], other, pruned)
                    break
            else:
                chosen.append(pruned)
        return Schema(tuple(chosen), self.metadata)

    def keep(self, wanted: Callable[[Field], bool]) -> Schema:
        """The schema with only the leaves for which `wanted` is true, and their parents; order is kept."""
        return Schema(tuple(f for f in (_keep(f, wanted) for f in self.fields) if f is not None), self.metadata)


_IN_MEMORY = frozenset(("_resolved", "_plain", "derived", "ids"))
"""The members of a schema that are not in its pickle."""


def _may_have_extension(field: Field) -> bool:
    """True if the type of the field, or of its items that are no field, may be an extension type, which metadata marks."""
    return bool(field.metadata) or field.logical_type == "json" or field.logical_type.startswith("fixed_size_list")


def _restored(fields: Sequence[pa.Field], metadata: Mapping[bytes, bytes]) -> pa.Schema:
    """The schema of `fields` with registered extension types. Raises CorruptFileError for invalid metadata of an extension type."""
    try:
        # pyarrow restores registered extension types from metadata when it reads a serialised schema.
        return pa.ipc.read_schema(pa.schema(fields, dict(metadata) or None).serialize())
    except (pa.ArrowException, ValueError, LookupError, TypeError, AttributeError, RecursionError) as e:
        # Types defined in Python may raise any exception.
        names = ", ".join(repr(f.name) for f in fields)
        raise CorruptFileError(f"column {names}: the metadata of the extension type cannot be read: {type(e).__name__}: {e}") from e


def _keep(field: Field, wanted: Callable[[Field], bool]) -> Field | None:
    if field.is_leaf:
        return field if wanted(field) else None
    children = tuple(c for c in (_keep(c, wanted) for c in field.children) if c is not None)
    return replace(field, children=children) if children else None


def _union(full: Field, a: Field, b: Field) -> Field:
    """`full` with the children that `a` or `b` (prunings of it) have, in the order of `full`."""
    have_a, have_b = {c.id: c for c in a.children}, {c.id: c for c in b.children}
    children = []
    for child in full.children:
        x, y = have_a.get(child.id), have_b.get(child.id)
        if x is not None and y is not None:
            children.append(_union(child, x, y))
        elif x is not None or y is not None:
            children.append(x or y)  # type: ignore[arg-type]
    return replace(full, children=tuple(children))


_SHOWN = 20
"""Maximum number of columns that a message names."""
_IN_BACKTICKS = re.compile(r"`((?:[^`]|``)+)`(?:\.(.+))?", re.DOTALL)


def quoted(names: Iterable[str]) -> str:
    """The path of the column with these nested names, quoted for `Schema.resolve`."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def _resolve(fields: Sequence[Field], path: str, full_path: str, in_lists: bool = False, is_item: bool = False) -> tuple[Field, ...]:
    in_backticks = _IN_BACKTICKS.fullmatch(path)
    if in_backticks:
        candidates = [(in_backticks[1].replace("``", "`"), in_backticks[2] or "")]
    else:
        cuts = [i for i, c in enumerate(path[:-1]) if c == "."]
        candidates = [(path, "")] + [(path[:i], path[i + 1 :]) for i in reversed(cuts)]
    for head, rest in candidates:
        found = [f for f in fields if f.name == head] or [f for f in fields if f.name.lower() == head.lower()]
        if is_item and not found and head.lower() in ITEM_NAMES:
            found = list(fields)
        if len(found) > 1:
            raise SchemaMismatchError(f"column {full_path!r} is ambiguous: it could be {', '.join(repr(f.name) for f in found)}")
        if not found:
            continue
        if not rest:
            return (found[0],)
        if not found[0].children:
            continue
        if found[0].logical_type == "struct":
            return (found[0], *_resolve(found[0].children, rest, full_path, in_lists))
        if in_lists and found[0].logical_type == "map":
            (entries,) = found[0].children
            return (found[0], entries, *_resolve(entries.children, rest.removeprefix(f"{entries.name}."), full_path, in_lists))
        if in_lists:
            return (found[0], *_resolve(found[0].children, rest, full_path, in_lists, is_item=True))
    hint = nearest(_unquoted(path), [f.name for f in fields]) or _existing(fields)
    raise SchemaMismatchError(f"no column {_unquoted(full_path)!r}{hint}")


def _unquoted(path: str) -> str:
    """A path for messages: without backticks if it is one name."""
    in_backticks = _IN_BACKTICKS.fullmatch(path)
    return in_backticks[1].replace("``", "`") if in_backticks and not in_backticks[2] else path


def _existing(fields: Sequence[Field]) -> str:
    """The end of a message about an unknown column: the first columns. Those that are not stored are left out."""
    names = [f.name for f in fields if f.id >= -1]
    shown = ", ".join(names[:_SHOWN]) or "none"
    return f"; existing columns: {shown}{f' and {len(names) - _SHOWN} more' if len(names) > _SHOWN else ''}"


def _shown(field: Field) -> pa.Field:
    """The Arrow field as users see it, before extension types are restored."""
    if not field.metadata and not field.children and field.logical_type != "json":
        return pa.field(field.name, field.type, field.nullable)
    metadata = dict(field.metadata)
    if field.logical_type == "json" or field.extension == JSON:
        metadata[EXTENSION_NAME], metadata[EXTENSION_METADATA] = b"arrow.json", b""
        return pa.field(field.name, pa.string(), field.nullable, metadata)
    if field.is_blob:
        metadata = {k: v for k, v in metadata.items() if k not in (EXTENSION_NAME, BLOB)}
        # A column marked as a blob would become one if the rows are written again; descriptors are plain structs.
        return pa.field(field.name, field.type, field.nullable, (metadata if field.descriptors else {**metadata, BLOB: b"true"}) or None)
    if field.children and field.logical_type != "null":
        children = [_shown(c) for c in field.children]
        return pa.field(field.name, nested_type(field.logical_type, field.name, children), field.nullable, metadata or None)
    return pa.field(field.name, field.type, field.nullable, metadata or None)


def _children(t: pa.DataType) -> list[pa.Field]:
    if not t.num_fields:
        return []
    if pa.types.is_struct(t):
        return [t.field(i) for i in range(t.num_fields)]
    if pa.types.is_map(t):
        return [pa.field("entries", pa.struct([t.key_field, t.item_field]), nullable=False)]
    if pa.types.is_fixed_size_list(t):
        item = t.value_type
        while pa.types.is_fixed_size_list(item):
            item = item.value_type
        return [t.value_field] if pa.types.is_struct(item) else []
    return [t.value_field] if any(check(t) for _, checks in LISTS for check in checks) else []


def _from_arrow(field: pa.Field, ids: Iterator[int]) -> Field:
    given, t = field.metadata, field.type
    if not given and (kind := primitive_name(t)) is not None:
        return Field(field.name, next(ids), kind, field.nullable)
    metadata = dict(given or {})
    if isinstance(t, pa.BaseExtensionType):
        metadata[EXTENSION_NAME] = t.extension_name.encode()
        metadata[EXTENSION_METADATA] = _extension_parameters(t)
        t = t.storage_type
    if metadata.get(EXTENSION_NAME) in (b"arrow.json", JSON):
        metadata[EXTENSION_NAME], metadata[EXTENSION_METADATA] = JSON, b""
        return Field(field.name, next(ids), "json", field.nullable, (), metadata)
    own = next(ids)
    children = tuple(_from_arrow(c, ids) for c in _children(t))
    return Field(field.name, own, logical_type(t, field.name), field.nullable, children, metadata)


def _extension_parameters(t: pa.BaseExtensionType) -> bytes:
    """The serialised parameters of an extension type; pyarrow exposes them only for types defined in Python."""
    if isinstance(t, pa.ExtensionType):
        return bytes(t.__arrow_ext_serialize__())
    keys = {"arrow.fixed_shape_tensor": ("shape", "dim_names", "permutation"), "arrow.opaque": ("type_name", "vendor_name")}
    values = {k: getattr(t, k) for k in keys.get(t.extension_name, ())}
    return json.dumps({k: v for k, v in values.items() if v is not None}).encode() if values else b""


def from_arrow(schema: pa.Schema, first_id: int = 0) -> Schema:
    """The Lance schema of an Arrow schema, ids given depth first from `first_id`. Raises UnsupportedFeatureError naming the column."""
    ids = itertools.count(first_id)
    made = Schema(tuple([_from_arrow(f, ids) for f in schema]), dict(schema.metadata or {}))
    check_ids(first_id, next(ids), made.names)
    return made


def check_ids(first: int, stop: int, names: Sequence[str]) -> None:
    """Raise UnsupportedFeatureError if the ids from `first` to before `stop`, of the columns `names`, are not 32-bit integers."""
    if stop > 2**31:
        raise UnsupportedFeatureError(f"there are not enough field ids from {first} for the columns {', '.join(names)}")
