"""The flat list of field messages in a manifest or file descriptor <-> the schema tree.

Implements "Fields" of the schema page of the table specification. A message refers to its parent by id; parents need not come first, so the
tree is built from ids alone. The parts of a message that `schema.Field` does not model are kept as bytes and written back.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from google.protobuf.message import DecodeError

from lance_spark._proto import file_pb2 as pb
from lance_spark.buffers.messages import discard_unknown_fields
from lance_spark.errors import CorruptFileError
from lance_spark.schema.primary_key import primary_key_position
from lance_spark.schema.schema import NO_METADATA, Field, Schema

TOP_LEVEL = -1
"""The parent id of a top-level field."""

_MAX_DEPTH = 64
"""Fields are parsed by recursion."""
_MODELLED = ("name", "id", "parent_id", "logical_type", "nullable", "metadata", "dictionary")


def parse_fields(messages: Iterable[pb.Field], metadata: Mapping[str, bytes]) -> Schema:
    """The schema of these field messages; siblings keep the order of the list.

    Fields with a negative id are omitted: data files list the parts of a blob descriptor like this, and nothing refers to them.
    Raises CorruptFileError if an id is duplicated, or a field cannot be reached from the top level.
    """
    return _parse_schema(pb.Schema(fields=messages, metadata=metadata).SerializeToString(deterministic=True))


@lru_cache(8)
def _parse_schema(data: bytes) -> Schema:
    """`parse_fields` of a Schema message. The versions and files of a table usually have the same one, maybe with thousands of fields."""
    whole = pb.Schema.FromString(data)
    messages = whole.fields
    if discard_unknown_fields(whole):
        messages = pb.Schema.FromString(data).fields
        rest_of = _rest
    else:
        rest_of = _unmodelled
    by_parent: dict[int, list[pb.Field]] = defaultdict(list)
    ids: set[int] = set()
    for message in messages:
        if message.id < 0:
            continue
        if message.id in ids:
            raise CorruptFileError(f"field id {message.id} of {message.name!r} is duplicated")
        ids.add(message.id)
        by_parent[message.parent_id].append(message)
    fields = tuple([_parse(m, by_parent, rest_of, 1) for m in by_parent[TOP_LEVEL]])
    schema = Schema(fields, {k.encode(): v for k, v in whole.metadata.items()})
    reached = sum(1 for _ in schema.walk())
    if reached != len(ids):
        # Ids are unique, so a field that is not below the top level has a missing parent or is part of a cycle.
        raise CorruptFileError(f"{len(ids) - reached} of {len(ids)} fields have a parent that does not exist or form a cycle")
    return schema


def _parse(message: pb.Field, by_parent: Mapping[int, Sequence[pb.Field]], rest_of: Callable[[pb.Field], bytes], depth: int) -> Field:
    if depth > _MAX_DEPTH:
        raise CorruptFileError(f"field {message.name!r} is nested more than {_MAX_DEPTH} levels deep")
    own, kind = message.id, message.logical_type
    has_dictionary = message.HasField("dictionary") and message.dictionary.ByteSize()
    return Field(
        message.name,
        own,
        kind,
        message.nullable or kind == "null",
        tuple([_parse(m, by_parent, rest_of, depth + 1) for m in by_parent[own]]) if own in by_parent else (),
        {k.encode(): v for k, v in message.metadata.items()} if message.metadata else NO_METADATA,
        (message.dictionary.offset, message.dictionary.length) if has_dictionary else None,
        rest_of(message),
    )


def _unmodelled(message: pb.Field) -> bytes:
    """`_rest` of a message without unknown fields, which is rarely anything."""
    position = message.unenforced_primary_key or message.unenforced_primary_key_position
    is_plain = message.encoding == _encoding(message.logical_type) and not (message.type or message.extension_name or position)
    return b"" if is_plain else _rest(message)


def _rest(message: pb.Field) -> bytes:
    """The message without the parts that `Field` models or implies; deprecated and unknown fields remain."""
    rest = pb.Field()
    rest.CopyFrom(message)
    for name in _MODELLED:
        rest.ClearField(name)
    if rest.encoding == _encoding(message.logical_type):
        rest.ClearField("encoding")
    return rest.SerializeToString(deterministic=True)


_latest: tuple[weakref.ref[Schema], Sequence[pb.Field]] | None = None
"""The schema that was serialised last, and its messages: a commit needs them in the data file, the transaction and the manifest."""


def serialise_fields(schema: Schema) -> Sequence[pb.Field]:
    """The field messages of a schema, depth first, to be copied."""
    global _latest
    latest = _latest
    if latest is not None and latest[0]() is schema:
        return latest[1]
    messages: list[pb.Field] = []
    for field in schema.fields:
        _add_messages(messages, field, TOP_LEVEL)
    _latest = weakref.ref(schema), messages
    return messages


def _add_messages(messages: list[pb.Field], field: Field, parent: int) -> None:
    kind = field.logical_type
    message = pb.Field(name=field.name, id=field.id, parent_id=parent, logical_type=kind, nullable=field.nullable, encoding=_encoding(kind))
    if field.unknown:
        try:
            message.MergeFromString(field.unknown)
        except DecodeError as e:
            raise CorruptFileError(f"the unknown parts of field {field.name!r} are not a valid message") from e
    if field.metadata:
        for key, value in field.metadata.items():
            message.metadata[key.decode()] = value
        if (position := primary_key_position(field)) is not None:
            # Other readers use these instead of the metadata.
            message.unenforced_primary_key, message.unenforced_primary_key_position = True, position
    if kind.startswith("dict:"):
        message.dictionary.SetInParent()  # empty in all files but those of 0.1
    if field.dictionary is not None:
        message.dictionary.offset, message.dictionary.length = field.dictionary
    messages.append(message)
    for child in field.children:
        _add_messages(messages, child, field.id)


@lru_cache(1024)
def _encoding(logical_type: str) -> pb.Encoding:
    """How pylance says that values of the type are encoded, whatever the version of the files; its comparisons of schemas include it."""
    kind = logical_type.split(":")[0]
    if kind in ("struct", "null"):
        return pb.NONE
    if kind in ("string", "large_string", "binary", "large_binary", "json", "blob"):
        return pb.VAR_BINARY
    return pb.DICTIONARY if kind == "dict" else pb.PLAIN
