"""Segments of indexes: how the rows of one are given to its kind, and what the manifest stores about it."""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as default
from typing import Any, ClassVar, Protocol, TypeVar

import pyarrow as pa
from pyroaring import BitMap

from lance_spark.arrow.types import is_binary
from lance_spark.display.words import nearest as did_you_mean
from lance_spark.errors import InvalidOptionError, StorageError, UnsupportedFeatureError, on_failure
from lance_spark.index import json_path
from lance_spark.index.kinds import TARGETS, Kind, kind_of, url_of
from lance_spark.index.minhash.parameters import new_min_hash
from lance_spark.index.rtree import PAGE_SIZE
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.index.text.analysis.parameters import new_parameters
from lance_spark.index.value_types import TAKES
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.metadata.locations import INDICES
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.geometry import EXTENSION, LAYOUTS, shapely
from lance_spark.predicate.json_paths import lance_path
from lance_spark.predicate.tree import Column
from lance_spark.schema.schema import Field, quoted
from lance_spark.storage.store import Store
from lance_spark.table.commit.same_table import remove_dropped
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.versions.snapshot import Snapshot

PARAMETERS: Mapping[str, frozenset[str]] = {
    "ZONEMAP": frozenset({"rows_per_zone"}),
    "BLOOMFILTER": frozenset({"number_of_items", "probability"}),
    "JSON": frozenset({"path", "target_index_type"}),
    "RTREE": frozenset({"page_size"}),
}
"""The parameters of the kinds that have any."""
ALIASES = {"FTS": "INVERTED"}
_COMMON_BYTES = 8
_BATCH_ROWS = 128 << 10
"""Rows that a kind gets at once, if their values are not too wide (see `DataFileReader.read`): a batch has costs of its own."""
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Segmented(Protocol):
    """A task that writes a segment: a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def uuid(self) -> bytes:
        """The uuid of the segment."""


Task = TypeVar("Task", bound=Segmented)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Definition:
    """An index: its name, the path and the field of its column, the type URL, the details and the parameters of its kind."""

    name: str
    path: tuple[str, ...]
    field: Field
    details_type: str
    parameters: Mapping[str, object] = default(default_factory=dict)
    details: bytes = b""

    @property
    def kind(self) -> Kind:
        """The kind of the index."""
        kind = kind_of(self.details_type, self.details)
        assert kind is not None, "indexes of unknown kinds have no definition"
        return kind

    def numbers(self, snapshot: Snapshot) -> str:
        """The column of the scan that identifies the rows of new segments."""
        stable = snapshot.manifest.has_stable_row_ids
        return "_rowaddr" if self.kind.has_addresses(self.kind.new_version(0, stable), stable) else "_rowid"

    def scan(self, snapshot: Snapshot) -> ScanPlan:
        """What a scan must read to build the index."""
        return ScanPlan(columns=(quoted(self.path), self.numbers(snapshot)), batch_size=_BATCH_ROWS)


def kind_named(name: str) -> str:
    """The kind of a new index by its name or alias. Raises InvalidOptionError or UnsupportedFeatureError for one that is not made."""
    kind = ALIASES.get(name.upper(), name.upper())
    if kind not in TAKES:
        kinds = ", ".join(TAKES)
        raise InvalidOptionError(f"unknown kind of index {name!r}{did_you_mean(kind, TAKES)}; the kinds are: {kinds}")
    return kind


def define(snapshot: Snapshot, column: str, kind: str, name: str | None, parameters: Mapping[str, object]) -> Definition:
    """The definition of a new index. Raises InvalidOptionError, SchemaMismatchError or UnsupportedFeatureError."""
    wanted = kind_named(kind)
    known, details = PARAMETERS.get(wanted, frozenset()), b""
    if wanted == "JSON":
        parameters, details = _of_json(snapshot, parameters)
        known |= PARAMETERS.get(str(parameters["target_index_type"]), frozenset())
    steps = snapshot.manifest.schema.resolve(column)
    found = steps[-1]
    if wanted == "INVERTED":
        parameters = {"parameters": new_parameters(parameters, found.logical_type == "json")}
    elif wanted == "MINHASHLSH":
        parameters = {"parameters": new_min_hash(parameters)}
    elif unknown := sorted(parameters.keys() - known):
        hint = f"{did_you_mean(unknown[0], known)}; its parameters are: {', '.join(sorted(known)) or 'none'}"
        raise InvalidOptionError(f"an index of the kind {wanted} has no parameter {unknown[0]!r}{hint}")
    if found.is_blob or not _takes(wanted, found):
        raise InvalidOptionError(f"an index of the kind {wanted} cannot be built for column {column!r} of type {found.type}")
    if wanted == "RTREE":
        parameters = {"layout": layout_of(found, column), "page_size": page_size(parameters)}
    path = tuple(f.name for f in steps)
    return Definition(name or f"{'.'.join(path)}_idx", path, found, url_of(wanted), dict(parameters), details)


def layout_of(field: Field, column: str) -> str:
    """The name of the extension of a column of geometries. Raises InvalidOptionError or UnsupportedFeatureError, also without Shapely."""
    told = (field.extension or b"").decode(errors="replace")
    if not told.startswith(EXTENSION):
        raise InvalidOptionError(f"an index of the kind RTREE cannot be built for column {column!r}: its extension is not one of GeoArrow")
    if told.removeprefix(EXTENSION) not in LAYOUTS:
        raise UnsupportedFeatureError(f"an index of the kind RTREE of a column of {told} is not supported: {', '.join(LAYOUTS)} are")
    shapely()
    return told.removeprefix(EXTENSION)


def page_size(parameters: Mapping[str, object]) -> int:
    """The parameter of RTREE. Raises InvalidOptionError."""
    size = parameters.get("page_size", PAGE_SIZE)
    if not isinstance(size, int) or isinstance(size, bool) or not 2 <= size < 1 << 31:
        raise InvalidOptionError(f"page_size must be an integer of at least 2, not {size!r}")
    return size


def _takes(kind: str, field: Field) -> bool:
    """Whether an index of the kind can be built for a field. JSON has its own kind, and is text for a full-text index."""
    is_json = field.logical_type == "json"
    right = is_json == is_binary(field.type) if kind == "INVERTED" else is_json == (kind == "JSON")
    return right and TAKES[kind](field.type)


def _of_json(snapshot: Snapshot, parameters: Mapping[str, object]) -> tuple[Mapping[str, object], bytes]:
    """The parameters and the details of a JSON index."""
    path, target = parameters.get("path"), str(parameters.get("target_index_type", "BTREE")).upper()
    if not isinstance(path, str):
        raise InvalidOptionError(f"an index of the kind JSON needs the parameter path, such as '$.a.b'; found {path!r}")
    lance_path(path)
    if target not in TARGETS:
        raise InvalidOptionError(f"invalid target_index_type {target!r} of a JSON index; expected {', '.join(TARGETS)}")
    details = json_path.details(path, target)
    kind = kind_of(url_of("JSON"), details)
    if snapshot.manifest.has_stable_row_ids and kind is not None and not kind.stable:
        raise UnsupportedFeatureError(
            f"{snapshot}: a JSON index with target_index_type={target} is not supported in a table with stable row ids; use BITMAP"
        )
    return {**parameters, "path": path, "target_index_type": target}, details


@dataclass(frozen=True)
class BuildTask:
    """Builds one segment from the rows of a scan of `definition.scan`, those of `fragments` in `version`."""

    definition: Definition
    scan: ScanTask
    numbers: str
    store: Store
    fragments: BitMap
    version: int
    stable_row_ids: bool
    uuid: bytes = default(default_factory=lambda: uuid.uuid4().bytes)

    @property
    def folder(self) -> str:
        """The folder of the segment."""
        return folder(self.uuid)


def folder(unique: bytes) -> str:
    """The folder of a segment with this uuid, in the store of its table."""
    return f"{INDICES}/{uuid.UUID(bytes=unique)}"


def build(task: BuildTask) -> Trained:
    """Write the files of the segment. If this fails, they are deleted."""
    definition = task.definition
    with on_failure(lambda: discard(task.store, task.uuid)):
        rows = rows_of(definition, task.scan, task.numbers)
        return definition.kind.train(rows, definition.field.type, IndexTarget(task.store, task.folder), definition.parameters)


def rows_of(definition: Definition, scan: ScanTask, numbers: str) -> Iterator[pa.RecordBatch]:
    """The values and the numbers of the rows of a scan of `definition.scan`, as its kind takes them."""
    column = Column(definition.path, definition.field.type)
    for batch in scan.read() if scan.parts else ():
        yield pa.RecordBatch.from_arrays([raw_values(column, batch), batch.column(numbers)], names=["value", "row"])


def attempted(run: Callable[[Task], Result], task: Task) -> Result:
    """Run a task that writes a segment, with a uuid of this attempt: Spark may run a task again, or twice at once.

    Attempts have the first half of the task's uuid in common, by which `discard_attempts` finds those that were lost.
    """
    return run(replace(task, uuid=task.uuid[:_COMMON_BYTES] + uuid.uuid4().bytes[_COMMON_BYTES:]))


def discard_attempts(store: Store, tasks: Iterable[Segmented]) -> None:
    """`discard` what all attempts of tasks have written, lost ones too."""
    common = {task.uuid[:_COMMON_BYTES] for task in tasks}
    with contextlib.suppress(StorageError):
        names = (name for name in store.contents(INDICES)[1] if common and _UUID.fullmatch(name))
        discard(store, *(unique for unique in (uuid.UUID(name).bytes for name in names) if unique[:_COMMON_BYTES] in common))


def discard(store: Store, *uuids: bytes) -> None:
    """Delete the files of segments that no version names. Best effort: cleanup finds the rest."""
    for unique in uuids:
        try:
            store.delete_folder(folder(unique))
        except StorageError:
            continue
    remove_dropped(store)


def build_segment(task: BuildTask) -> IndexMetadata:
    """Write the files of the segment; what the manifest stores about it. If this fails, the files are deleted."""
    return metadata(task.definition, task.version, task.stable_row_ids, task.uuid, build(task), task.fragments)


def metadata(
    definition: Definition, version: int, stable_row_ids: bool, unique: bytes, trained: Trained, fragments: BitMap
) -> IndexMetadata:
    """What the manifest stores about a new segment, built from the rows of these fragments in `version`."""
    return IndexMetadata(
        uuid=unique,
        name=definition.name,
        fields=(definition.field.id,),
        dataset_version=version,
        fragment_bitmap=fragments.serialize(),
        details_type=definition.details_type,
        details=trained.details,
        index_version=definition.kind.new_version(trained.version, stable_row_ids),
        created_at=int(time.time() * 1000),
        files=trained.files,
    )
