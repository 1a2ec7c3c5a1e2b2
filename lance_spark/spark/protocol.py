"""What this package and the classes in Spark's JVM tell each other, and the names of both.

Their half is the Java package lancespark.protocol. No other file packs or unpacks for the JVM.

A message is a frame: "LNC", the number of the protocol and the kind, a byte each, and the fields in
order. An integer is signed, of 8 bytes, little endian. Text (UTF-8), JSON and bytes have 4 bytes
with their size before them.

Spark carries objects of Python as pickles. One that the JVM looks at is pickled as a call of
`unpacked(frame, body)`: so its frame is at the begin, where PickleReader.java finds it without a
search. The JVM makes pickles of the same form, see PickleWriter.java.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import pickle
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.types import StringType, StructField, StructType

from lance_spark.errors import LanceError, UnsupportedFeatureError

PROTOCOL = 7
"""The number of the protocol, which Protocol.java has, too.

Who changes a message or a name raises it.
"""

_HEAD = struct.Struct("<3sBB")
_MAGIC = b"LNC"
_INTEGER = struct.Struct("<q")
_SIZE = struct.Struct("<I")
_CODES = {"int": "q", "str": "s", "bytes": "b", "Json": "j"}

Json = Any
"""A field that has a value of JSON."""


class Message:
    """A message. `KIND` is its number; its fields are integers, texts, bytes and JSON."""

    KIND: ClassVar[int]

    def frame(self) -> bytes:
        """The message as bytes."""
        values = [*self.__dict__.values()]
        begin, rest = _BEGINS[self.KIND]
        integers = len(values) - len(rest)
        frame = begin.pack(_MAGIC, PROTOCOL, self.KIND, *values[:integers])
        for code, value in zip(rest, values[integers:]):
            frame += _INTEGER.pack(value) if code == "q" else _sized(code, value)
        return frame

    @classmethod
    def read(cls, frame: bytes) -> Self:
        """The message of a frame. Raises UnsupportedFeatureError for one of another protocol."""
        if kind_of(frame) is not cls:
            raise LanceError(f"expected the message {cls.__name__}, found another one")
        values, at = [], _HEAD.size
        try:
            for code in LAYOUTS[cls.KIND]:
                value, at = _field(code, frame, at)
                values.append(value)
        except (struct.error, ValueError) as e:
            raise LanceError(f"the message {cls.__name__} is damaged: {e}") from None
        if at != len(frame):
            more = len(frame) - at
            raise LanceError(f"the message {cls.__name__} has {more} bytes more than its fields")
        return cls(*values)

    def opened(self, body: bytes) -> Any:
        """The object that is pickled with this message as its header."""
        return _restored(*pickle.loads(body))


@dataclass(frozen=True)
class Source(Message):
    """The header of a data source: the version that it has pinned, its identity, and the read.

    The version is 0 if there is no table yet. `abilities` are the names of those that the read has,
    with spaces between, and `unjoined` says why a join by nearness does not find its rows (see
    `read.kind`).
    """

    KIND = 1
    version: int
    identity: str
    abilities: str
    unjoined: str


@dataclass(frozen=True)
class Task(Message):
    """The header of a partition of a scan: what its task reads at most, in `rows` and `bytes`.

    Of a partitioned namespace, `tables_read` of its `tables` are read. `skipped` fragments are read
    by no task of the scan. `indexes` names the indexes that planning used, and the rows that they
    leave.
    """

    KIND = 2
    rows: int
    bytes: int
    tables_read: int
    tables: int
    skipped: int
    indexes: str


@dataclass(frozen=True)
class Found(Message):
    """The header of the answer to a search.

    It is `rows` (`ROWS`), or that a scan finds them, or that the partitions are its tasks.

    The rows are an Arrow stream.
    """

    KIND = 3
    ROWS: ClassVar = 0
    BY_A_SCAN: ClassVar = 1
    TASKS: ClassVar = 2
    what: int
    rows: bytes


@dataclass(frozen=True)
class Steps(Message):
    """The header of the answer to a join by nearness.

    `about` has the `groups`, the type of the elements of a `vector`, what is `told`, and for each
    of the `steps` its name, schema and number of bytes in `functions`.
    """

    KIND = 4
    about: Json
    functions: bytes


@dataclass(frozen=True)
class Read(Message):
    """What a task has read, as the update of the accumulator `ACCUMULATOR`. Times are nanoseconds."""

    KIND = 5
    rows: int
    bytes_read: int
    bytes: int
    pages_read: int
    pages: int
    store_time: int
    decoding_time: int
    log_rows: int


@dataclass(frozen=True)
class Writer(Message):
    """The header of a writer: whether its commit writes the rows of tasks that have few.

    It writes none, or `ROWS`, or the delta rows of a command (`CHANGES`).
    """

    KIND = 6
    NONE: ClassVar = 0
    ROWS: ClassVar = 1
    CHANGES: ClassVar = 2
    few: int


@dataclass(frozen=True)
class Written(Message):
    """The header of a commit message: what a task has written.

    The last three are numbers of rows that a row-level command changes. Times are nanoseconds.
    """

    KIND = 7
    files: int
    bytes: int
    rows: int
    store_time: int
    encoding_time: int
    deleted: int
    updated: int
    inserted: int


@dataclass(frozen=True)
class Bound(Message):
    """The pickle of a data source, with the request for one scan of it (see `read.request`)."""

    KIND = 8
    request: Json

    def opened(self, body: bytes) -> Any:
        """The source for this scan."""
        return pickle.loads(body).bound(self.request)


@dataclass(frozen=True)
class Few(Written):
    """The commit message of a task that has few rows: these, as an Arrow stream (empty: none)."""

    KIND = 9

    def opened(self, body: bytes) -> FewRows:
        """The rows, which the commit writes."""
        return FewRows(body)


@dataclass(frozen=True)
class Again(Message):
    """The pickle of a writer whose commit is asked for again: the process that got it ended."""

    KIND = 10

    def opened(self, body: bytes) -> Any:
        """What commits, unless that has been done."""
        return pickle.loads(body).again()


MESSAGES: tuple[type[Message], ...] = (
    Source,
    Task,
    Found,
    Steps,
    Read,
    Writer,
    Written,
    Bound,
    Few,
    Again,
)
_BY_KIND = {message.KIND: message for message in MESSAGES}
LAYOUTS = {message.KIND: "".join(_CODES[str(field.type)] for field in dataclasses.fields(cast("Any", message))) for message in MESSAGES}
"""The types of the fields of each kind: q for an integer, s for text, b for bytes, j for JSON."""
_BEGINS = {
    kind: (struct.Struct(f"{_HEAD.format}{len(layout) - len(layout.lstrip('q'))}q"), layout.lstrip("q")) for kind, layout in LAYOUTS.items()
}
"""The head of a message with its first integers, which are packed at once, and the other fields."""

# The names that Names.java has, too. It has more, of modules and of tables: a test compares them.
FORMAT, CATALOG_FORMAT = "lance", "lance catalog"
"""The formats. That of catalogs is for catalogs alone."""
INSTRUCTIONS = "__lance"
"""The option with `Instructions`, beside those of the user."""
REQUEST, ANSWER = "request", "answer"
"""The option with a request to the catalog, and where its answer is in the metadata of a column."""
NUMBER = "protocol"
"""The key of the number of the protocol in instructions, requests and answers."""
DECLARED_COLUMN = "__lance_declared"
"""In the metadata of a column of rows: a statement declares whether it is nullable, its default, and whether it is CHAR."""
COMPUTED, IDENTITY = "lance_spark.generated", "lance_spark.identity"
"""In the metadata of a column of a statement: its expression, or its identity as JSON."""
ROW_OPERATION = "__row_operation"
"""The column of Spark's delta rows that says what happens to a row."""

ACCUMULATOR = -0x6C616E63
"""The number of the accumulator of `Read`.

Spark's own are positive, and profilers have small negative ones.
"""


@dataclass(frozen=True)
class Base:
    """The version that a view has opened, and its identity (see `table.versions.identity`)."""

    version: int
    identity: str


@dataclass(frozen=True)
class Command:
    """A row-level command: DELETE, UPDATE, MERGE, TRUNCATE, or REFRESH of a materialized view.

    `statement` is its id. `version` is the version that it has read, 0 if the table does not exist
    yet; `declared` is then its schema, as Spark's JSON. `condition` is SQL. With `repeats`, it may
    delete a row more than once. `assigned` are the columns with new values in updated rows.
    `identity` is that of the version. `noted` are more properties of the transaction.
    """

    kind: str
    statement: str
    condition: str
    version: int = 0
    identity: str = ""
    declared: str = ""
    repeats: bool = False
    assigned: tuple[str, ...] = ()
    noted: dict[str, str] = dataclasses.field(default_factory=dict)

    STATEMENT: ClassVar = "statement"
    """The property of the transaction with the id."""

    @property
    def truncated(self) -> Base | None:
        """The version that a view has opened whose rows are all deleted."""
        of_view = self.kind == "TRUNCATE" and self.version
        return Base(self.version, self.identity) if of_view else None

    @property
    def properties(self) -> dict[str, str]:
        """What the command notes in its transaction."""
        return {self.STATEMENT: self.statement, "command": self.kind, **self.noted}


@dataclass(frozen=True)
class Instructions:
    """What the JVM, or a verb of this package, adds to the options of a read or of a write.

    `command` is the row-level command whose rows are written. `overwrite` has the conditions of the
    rows that are replaced, as trees of `predicate.from_json`. `based_on` is the version that the
    view has opened to which rows are written. With `lost`, the files of a table of the session
    catalog were deleted; `declared` has the columns of one that is lost or has had no version yet,
    as Spark's JSON. `call` is that of a table function: its `name`, its `positional` and `named`
    arguments, and `hides_rows`, if it reads a view that may hide some of its table. `identity` is that of
    the version that is read. With `again`, the request may have been answered: the process that got
    it ended.
    """

    command: Command | None = None
    overwrite: list[Json] | None = None
    based_on: Base | None = None
    lost: bool = False
    declared: str = ""
    call: dict[str, Json] | None = None
    identity: str = ""
    again: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Instructions:
        """Those among these options. Raises UnsupportedFeatureError if their protocol differs."""
        if INSTRUCTIONS not in options:
            return cls()
        given = _checked(options[INSTRUCTIONS])
        for name, kind in (("command", Command), ("based_on", Base)):
            if name in given:
                given[name] = kind(**given[name])
        return cls(**given)


@dataclass(frozen=True)
class CatalogRequest:
    """A request to the catalog with these `settings`: an operation and its arguments.

    The ids of its transactions are made of its `id`. With `again`, it may have been answered.
    """

    operation: str
    settings: Mapping[str, str]
    arguments: dict[str, Json]
    id: str
    again: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> CatalogRequest:
        """The request in these options."""
        given = _checked(options[REQUEST])
        return cls(**given, again=Instructions.of(options).again)


def answered(value: Json) -> StructType:
    """The answer to a request, which Spark gets as a schema: in the metadata of a column."""
    return _answer({"value": value})


def refused(kind: type[LanceError], message: str) -> StructType:
    """The answer that is an error for which Spark has a class of its own."""
    return _answer({"error": kind.__name__, "message": message})


def _answer(answer: dict[str, Json]) -> StructType:
    text = json.dumps({NUMBER: PROTOCOL, **answer})
    return StructType([StructField(ANSWER, StringType(), True, {ANSWER: text})])


def _checked(text: str) -> dict[str, Json]:
    given: dict[str, Json] = json.loads(text)
    check_protocol(given.pop(NUMBER, None))
    return given


def carried(value: object) -> str:
    """An object in JSON that the JVM hands on unread."""
    return base64.b64encode(pickle.dumps(value)).decode()


def handed_back(text: str) -> Any:
    """The object of `carried`, or of a pickle that the JVM has put in this form."""
    return pickle.loads(base64.b64decode(text))


def of_user(options: Mapping[str, str]) -> dict[str, str]:
    """The options without instructions."""
    return {name: value for name, value in options.items() if name != INSTRUCTIONS}


def identified(options: Mapping[str, str], identity: str) -> dict[str, str]:
    """The options of a read of the version with this identity."""
    instructions = {NUMBER: PROTOCOL, "identity": identity}
    return {**options, INSTRUCTIONS: json.dumps(instructions)}


@dataclass
class FewRows(WriterCommitMessage):
    """The rows of a task that has few, in Arrow's stream format; empty if there are none."""

    rows: bytes


class Headed(ABC):
    """An object with a header that the JVM reads in its pickle."""

    @abstractmethod
    def header(self) -> Message:
        """The header."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes, bytes]]:
        # Spark's pickler is slow with classes and functions: a scan may have 100,000 tasks.
        return unpacked, (self.header().frame(), pickle.dumps((type(self), self.__getstate__())))


class Answer(Headed, InputPartition):
    """A partition that no task reads: its header is an answer to the planner."""

    def __init__(self, header: Message) -> None:
        super().__init__(None)
        self._header = header

    def header(self) -> Message:
        """The answer."""
        return self._header

    def __getstate__(self) -> None:
        return None


def unpacked(frame: bytes, body: bytes) -> Any:
    """The object of a pickle that begins with a message. Only pickles call this."""
    kind = kind_of(frame)
    header_only = kind.opened is Message.opened
    return _restored(*pickle.loads(body)) if header_only else kind.read(frame).opened(body)


def kind_of(frame: bytes) -> type[Message]:
    """The kind of the message in a frame."""
    if len(frame) < _HEAD.size or frame[:3] != _MAGIC or frame[4] not in _BY_KIND:
        raise LanceError("expected a message of Spark's classes, found other bytes")
    check_protocol(frame[3])
    return _BY_KIND[frame[4]]


def check_protocol(number: object) -> None:
    """Raise UnsupportedFeatureError if the classes in Spark have another protocol, or none (None)."""
    if number != PROTOCOL:
        others = f"protocol {number}" if number is not None else "an older lance-spark"
        raise UnsupportedFeatureError(
            f"Spark has the classes of {others}, this Python has protocol {PROTOCOL}: "
            "write the jar again (python -m lance_spark jar), and start Spark with it"
        )


def _sized(code: str, value: Any) -> bytes:
    data = value if code == "b" else (value if code == "s" else json.dumps(value)).encode()
    return _SIZE.pack(len(data)) + data


def _field(code: str, frame: bytes, at: int) -> tuple[Any, int]:
    """The field that begins at `at`, and where it ends."""
    if code == "q":
        return _INTEGER.unpack_from(frame, at)[0], at + _INTEGER.size
    begin = at + _SIZE.size
    end = begin + _SIZE.unpack_from(frame, at)[0]
    if end > len(frame):
        raise ValueError(f"a field of {end - begin} bytes has only {len(frame) - begin}")
    data = frame[begin:end]
    if code == "b":
        return data, end
    return (data.decode() if code == "s" else json.loads(data)), end


def _restored(kind: type, state: Any) -> Any:
    value: Any = object.__new__(kind)
    if hasattr(value, "__setstate__"):
        value.__setstate__(state)
    else:
        value.__dict__.update(state or {})
    return value
