"""JSON: the values at a path of a column of JSON documents, in the files of another kind of index, the target.

Implements `JsonIndexDetails`: the path, and the details of the target. The values are all of one type, that of the first one: int64,
float64, bool or string. A document without a value there, or with null, has null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError

from lance_spark._proto import index_pb2
from lance_spark.errors import CorruptFileError, InvalidOptionError, UnsupportedFeatureError
from lance_spark.index import btree, keyed_rows, zone_map
from lance_spark.index.answer import Found
from lance_spark.index.files import IndexFiles
from lance_spark.index.kinds import Kind, kind_named, kind_of, url_of
from lance_spark.index.moves import Translation
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.predicate.json_functions import GETTERS, is_json, typed_values
from lance_spark.predicate.json_paths import Path, key_or_path, lance_path, spark_path
from lance_spark.predicate.one_column import VALUE, holds_for_null, substituted
from lance_spark.predicate.tree import And, Call, Column, Compare, Expression, In, Literal, Or, walk
from lance_spark.schema.schema import from_arrow

VERSION = 0
_VALUES = {"BTREE": (btree.LOOKUP, "max"), "BITMAP": (keyed_rows.FILE, "keys"), "ZONEMAP": (zone_map.FILE, "max")}
"""By the kind of the target: a column of a file that has a value if any row has one."""


def search(files: IndexFiles, condition: Expression, column: Column) -> Found | None:
    """The rows whose value at the path satisfies the condition, which must be checked; None if the index is not of this path.

    It is not asked for nulls among strings and floats: older writers stored null as "null", and infinity is no JSON text.
    """
    target, path = _read(files)
    t = _value_type(files, target)
    try:
        values = _over_values(condition, lance_path(path), t)
    except InvalidOptionError:
        return None  # a path that filters do not support
    if values is None or (t in (pa.string(), pa.float64()) and holds_for_null(values, t)):
        return None
    found = target.search(_of_values(files, target), values, Column((VALUE,), t))
    return None if found is None else Found(found.rows, exact=False)


def _over_values(node: Expression, path: Path, t: pa.DataType) -> Expression | None:
    """The condition on documents as one on the values at the path; None if it asks for something else."""
    value = Column((VALUE,), t)
    match node:
        case And(operands) | Or(operands):
            parts = [_over_values(o, path, t) for o in operands]
            return None if None in parts else replace(node, operands=tuple(p for p in parts if p is not None))
        case Compare("=", Call("get_json_object", (_, Literal(str(asked)))), Literal(str(text))) if _is_at(asked, path, t, text):
            return Compare("=", value, Literal(text, t))
        case In(Call("get_json_object", (_, Literal(str(asked)))), texts) if _is_at(asked, path, t, *texts):
            return In(value, texts, node.has_null)

    def of_value(n: Expression) -> Expression | None:
        match n:
            case Call(name, (Column(), Literal(str(asked)))) if GETTERS.get(name) == t and key_or_path(asked) == path:
                return value
            case Column():
                return Column((), n.type)
            case _:
                return None

    out = substituted(node, of_value)
    return out if all(n == value for n in walk(out) if isinstance(n, Column)) else None


def _is_at(asked: str, path: Path, t: pa.DataType, *texts: str) -> bool:
    """Whether get_json_object is asked for texts at the path. A text that is JSON may also come from a value that is not a text."""
    return t == pa.string() and spark_path(asked) == path and not any(is_json(text) for text in texts)


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write the index of the rows. Parameters: `path`, `target_index_type`, `value_type` (string) and those of the target.

    Raises InvalidOptionError for a value that is not of the type `value_type`.
    """
    path, kind = str(parameters["path"]), kind_named(str(parameters["target_index_type"]))
    t = parameters.get("value_type", pa.string())  # there are only nulls
    trained = kind.train(_extracted(rows, path, t), t, target, parameters)
    return Trained(details(path, kind.name, trained.details), VERSION, trained.files)


def _extracted(rows: Iterable[pa.RecordBatch], path: str, t: pa.DataType) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        values = typed_values(batch.column("value"), lance_path(path), path, t)
        yield pa.RecordBatch.from_arrays([values, batch.column("row")], names=["value", "row"])


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one index with the rows of all sources that still exist. Raises CorruptFileError if their values are of several types."""
    kind, path = _read(sources[0][0])
    types = [_value_type(files, kind) for files, _ in sources]
    if any(t != types[0] for t in types):
        raise CorruptFileError(f"the segments of a JSON index have values of several types: {', '.join(map(str, types))}")
    trained = kind.rewrite([(_of_values(files, kind), translation) for files, translation in sources], target)
    return Trained(details(path, kind.name, trained.details), VERSION, trained.files)


def parameters(files: IndexFiles) -> dict[str, object]:
    """The parameters that a segment was built with; without `value_type` if it has no values."""
    kind, path = _read(files)
    given: dict[str, object] = {"path": path, "target_index_type": kind.name}
    if kind.name == "NGRAM" or _has_values(files, kind):
        given["value_type"] = _value_type(files, kind)
    return given | (kind.parameters(_of_values(files, kind)) if kind.zoned else {})


def _has_values(files: IndexFiles, target: Kind) -> bool:
    name, column = _VALUES[target.name]
    return any(batch.column(0).null_count < batch.num_rows for batch in files.open(name).batches((column,)))


def same_values(details: Iterable[bytes]) -> bool:
    """Whether indexes with these details have values of one path, which filters support, in files of one kind."""
    try:
        kinds = {(kind_of(url_of("JSON"), d), lance_path(path_of(d))) for d in details}
    except (CorruptFileError, InvalidOptionError):
        return False
    return len(kinds) == 1


def details(path: str, target: str, target_details: bytes = b"") -> bytes:
    """The details of an index of the values at `path` in files of the kind `target`."""
    message = index_pb2.JsonIndexDetails(path=path, target_details=Any(type_url=url_of(target), value=target_details))
    return message.SerializeToString(deterministic=True)


def _read(files: IndexFiles) -> tuple[Kind, str]:
    """The kind of the target and the path. Raises CorruptFileError or UnsupportedFeatureError."""
    kind = kind_of(url_of("JSON"), files.details)
    if kind is None or kind.target is None:
        raise UnsupportedFeatureError(f"{files.folder}: the details of the JSON index name no known kind of index")
    return kind.target, path_of(files.details)


def path_of(details: bytes) -> str:
    """The path of an index with these details. Raises CorruptFileError."""
    try:
        return index_pb2.JsonIndexDetails.FromString(details).path
    except DecodeError as e:
        raise CorruptFileError("the details of a JSON index are damaged") from e


def _value_type(files: IndexFiles, target: Kind) -> pa.DataType:
    """The type of the values of an index."""
    if target.name == "NGRAM":
        return pa.string()
    name, column = _VALUES[target.name]
    file = files.open(name)
    at = file.schema.get_field_index(column)
    found = file.schema[at].type if at >= 0 else None
    if found not in GETTERS.values():
        raise CorruptFileError(f"{file.path}: expected values of JSON in the column {column!r}, found {found}")
    return found


def _of_values(files: IndexFiles, target: Kind) -> IndexFiles:
    """The files as those of an index of the target kind, whose column has the values."""
    field = from_arrow(pa.schema([pa.field(VALUE, _value_type(files, target))])).fields[0]
    return replace(files, indexed=field)
