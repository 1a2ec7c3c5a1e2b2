"""Messages between the JVM and Python: both read what the other writes, and refuse what is not of their protocol."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import importlib.util
import io
import json
import math
import pickle
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from lance_spark import errors
from lance_spark.errors import LanceError, UnsupportedFeatureError
from lance_spark.metadata.operations import CONSTRAINT
from lance_spark.metadata.row_columns import RESERVED
from lance_spark.namespace.protocol import TRANSACTION
from lance_spark.options.field import options_of
from lance_spark.predicate.text_match import TEXT_FUNCTIONS
from lance_spark.spark import protocol
from lance_spark.spark.catalog import definition, source
from lance_spark.spark.catalog.source import CatalogSource
from lance_spark.spark.columns.types import FIXED_SIZE
from lance_spark.spark.jvm.features import sources
from lance_spark.spark.options.known import KNOWN as KNOWN_BY_NAME
from lance_spark.spark.options.known import PATHS, parse_options
from lance_spark.spark.options.place import Place
from lance_spark.spark.options.read import VERSIONS, ReadOptions
from lance_spark.spark.protocol import MESSAGES, PROTOCOL, Bound, Few, Found, Instructions, Message, Task
from lance_spark.spark.read.kind import Abilities
from lance_spark.spark.read.request import Request
from lance_spark.table.compaction import clustered
from lance_spark.table.write.properties import KNOWN
from tests.spark.processes import ROOT, START, run

OTHERS = (PROTOCOL - 1, PROTOCOL + 1)
"""The numbers of an older and of a newer lance-spark."""
DIGEST = "be650de7c885c5e7"
"""That of `listed`. If it changes, the numbers of the protocol must be raised in protocol.py and in Protocol.java."""

KNOWN_OPTIONS = {name for option in KNOWN_BY_NAME.values() for name in option.names}
LOADED = ("versionAsOf", "timestampAsOf")
"""The options of Spark's own that choose a version: it loads a table of a catalog by them."""

NAMES = {
    "CATALOG_MODULE": CatalogSource.__module__,
    "CATALOG_CLASS": CatalogSource.__name__,
    "WORKER_DAEMON": "lance_spark.spark.daemon",
    "PLANNING_DAEMON": "lance_spark.spark.planning_daemon",
    "PLANNING_MODULE": "pyspark_lance.planning",
    "ROW_ID": "_rowid",
    "ROW_ADDRESS": "_rowaddr",
    "TABLE_PROPERTY": "tblproperties.",
    "CLUSTERING": clustered.CONFIG,
    "CONSTRAINT": CONSTRAINT,
    "PRIMARY_KEY": definition._KEY,
    "WRITTEN": "lance_spark.written",
    "PLACE_OPTIONS": " ".join([*options_of(Place), PATHS]),
    "VERSION_OPTIONS": " ".join(name for o in VERSIONS for name in options_of(ReadOptions)[o].names if name not in LOADED),
    "LOADED_OPTIONS": " ".join(LOADED),
    "CHANGE_FEED": "readChangeFeed",
    "STARTING_VERSION": "startingVersion",
    "ENDING_VERSION": "endingVersion",
    "STARTING_TIMESTAMP": "startingTimestamp",
    "ENDING_TIMESTAMP": "endingTimestamp",
    "COMPUTE_UPDATES": "computeUpdates",
    "NET_CHANGES": "netChanges",
    "WITH_ROW_ID": "with_row_id",
    "WITH_ROW_ADDRESS": "with_row_address",
    "MERGE_SCHEMA": "mergeSchema",
    "WRITE_MODE": "write_mode",
    "OVERWRITE_SCHEMA": "overwriteSchema",
    "OVERWRITE_MODE": "partitionOverwriteMode",
    "MATCH": "lance_match",
    "MATCH_PHRASE": "lance_match_phrase",
    "FIXED_SIZE": FIXED_SIZE,
    "NO_TABLE": errors.TableNotFoundError.__name__,
    "TABLE_EXISTS": errors.TableAlreadyExistsError.__name__,
    "NO_NAMESPACE": errors.NamespaceNotFoundError.__name__,
    "NAMESPACE_EXISTS": errors.NamespaceAlreadyExistsError.__name__,
    "NAMESPACE_NOT_EMPTY": errors.NamespaceNotEmptyError.__name__,
    "TRANSACTION": TRANSACTION,
}
"""The names of Names.java that are not in protocol.py: modules, and what belongs to tables and options."""

INTEGERS = st.integers(-(2**63), 2**63 - 1)
VALUES = {
    "q": INTEGERS,
    "s": st.text(st.characters(codec="utf-8")),
    "b": st.binary(),
    "j": st.recursive(st.none() | st.booleans() | INTEGERS | st.text(), st.lists, max_leaves=5),
}
MESSAGE = st.sampled_from(MESSAGES).flatmap(
    lambda kind: st.tuples(*(VALUES[code] for code in protocol.LAYOUTS[kind.KIND])).map(lambda values: kind(*values))
)


class Thing(protocol.Headed):
    """An object with a header."""

    def __init__(self, header: Message, value: object) -> None:
        self._header, self.value = header, value

    def header(self) -> Message:
        """The header."""
        return self._header


def pickled(value: object, version: int = 5) -> bytes:
    """The pickle that Spark makes."""
    dumps: Callable[[object, int], bytes] = cloudpickle.dumps
    return dumps(value, version)


def listed() -> list[str]:
    """All messages, and what they have as JSON, with the names and types of their fields; and all names."""
    values = [*MESSAGES, Request, Instructions, protocol.Command, protocol.Base, protocol.CatalogRequest]
    kinds: list[Any] = [(getattr(value, "KIND", "JSON"), value) for value in values]
    messages = [f"{kind} {value.__name__} {', '.join(f'{f.name}: {f.type}' for f in dataclasses.fields(value))}" for kind, value in kinds]
    return [*messages, *(f"{name} {value}" for name, value in sorted(names().items()))]


def names() -> dict[str, str]:
    """All names that Java has, too."""
    return {name: value for name, value in vars(protocol).items() if name.isupper() and isinstance(value, str)} | NAMES


def test_who_changes_a_message_raises_the_number_of_the_protocol() -> None:
    assert hashlib.sha256("\n".join([str(PROTOCOL), *listed()]).encode()).hexdigest()[:16] == DIGEST


@given(MESSAGE)
def test_a_message_is_read_as_it_was_written(message: Message) -> None:
    assert type(message).read(message.frame()) == message


@given(MESSAGE, st.data())
def test_a_frame_that_is_cut_or_longer_is_refused(message: Message, data: st.DataObject) -> None:
    frame = message.frame()
    if protocol.LAYOUTS[message.KIND]:
        with pytest.raises(LanceError):
            type(message).read(frame[: data.draw(st.integers(0, len(frame) - 1))])
    with pytest.raises(LanceError, match="1 bytes more than its fields"):
        type(message).read(frame + b"x")


@pytest.mark.parametrize("number", OTHERS)
def test_a_message_of_another_protocol_is_refused_by_one_clear_error(number: int) -> None:
    frame = bytearray(Task(1, 2, 0, 0, 0, "").frame())
    frame[3] = number
    expected = rf"Spark has the classes of protocol {number}, this Python has protocol {PROTOCOL}: write the jar again"
    with pytest.raises(UnsupportedFeatureError, match=expected):
        protocol.unpacked(bytes(frame), b"")
    with pytest.raises(UnsupportedFeatureError, match=expected):
        Task.read(bytes(frame))


@pytest.mark.parametrize("frame", [b"", b"LNC", b"LNC\x01\x00", b"XYZ\x01\x01", b"LNC\x01\xff"])
def test_other_bytes_are_no_message(frame: bytes) -> None:
    with pytest.raises(LanceError, match="found other bytes"):
        protocol.unpacked(frame, b"")


@given(MESSAGE.filter(lambda message: type(message).opened is Message.opened), st.binary())
def test_an_object_with_a_header_is_pickled_as_it_is(header: Message, value: bytes) -> None:
    for dumps in (pickle.dumps, pickled):
        found = pickle.loads(dumps(Thing(header, value)))
        assert (found.header(), found.value) == (header, value)


Run = Callable[..., list[str]]
JARS = Path(pyspark.__file__).parent / "jars"
SOURCES = ROOT / "lance_spark" / "spark" / "jvm" / "lancespark" / "protocol"


@pytest.fixture(scope="module")
def javac() -> str:
    """The compiler."""
    return subprocess.run([ROOT / "scripts" / "javac"], check=True, capture_output=True, text=True).stdout.strip()


def compiled(javac: str, into: Path, *files: Path) -> Path:
    """The folder with the classes of these files."""
    subprocess.run([javac, "-nowarn", "-cp", f"{JARS}/*", "-d", str(into), *map(str, files)], check=True)
    return into


@pytest.fixture(scope="module")
def java(javac: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs tests/jvm/ProtocolMain.java: an argument that says what to do, and bytes; the lines of its answer."""
    classes = compiled(javac, tmp_path_factory.mktemp("classes"), *SOURCES.glob("*.java"), ROOT / "tests/jvm/ProtocolMain.java")

    def answers(what: str, *data: bytes) -> list[str]:
        lines = "".join(base64.b64encode(each).decode() + "\n" for each in data)
        command = [str(Path(javac).resolve().with_name("java")), "-cp", f"{classes}:{JARS}/*", "lancespark.protocol.ProtocolMain", what]
        return subprocess.run(command, input=lines, check=True, capture_output=True, text=True).stdout.splitlines()

    return answers


def test_java_has_the_same_number_and_messages(java: Run) -> None:
    mine = [f"{kind.KIND} {kind.__name__} {protocol.LAYOUTS[kind.KIND]}" for kind in MESSAGES]
    assert java("list") == [str(PROTOCOL), *mine]


def test_java_has_the_same_names(java: Run) -> None:
    assert dict(line.split(" = ") for line in java("names")) == names()


def test_python_knows_the_names_that_others_own() -> None:
    for module in ("WORKER_DAEMON", "PLANNING_DAEMON", "PLANNING_MODULE"):
        assert importlib.util.find_spec(NAMES[module]) is not None
    assert {NAMES["ROW_ID"], NAMES["ROW_ADDRESS"]} <= RESERVED
    assert {NAMES["MATCH"], NAMES["MATCH_PHRASE"]} <= TEXT_FUNCTIONS.keys()
    assert {NAMES["CLUSTERING"], NAMES["PRIMARY_KEY"], NAMES["WRITTEN"]} <= set(KNOWN)
    parse_options(ReadOptions, {"path": "t", NAMES["TABLE_PROPERTY"] + "comment": "x"})
    of_java = {name for names in NAMES.values() for name in names.split()}
    assert of_java >= {name for name in KNOWN_OPTIONS if is_telling(name) and f'"{name}"' in "".join(sources().values())}


def test_java_has_the_names_of_options_in_one_place() -> None:
    """A word such as `path` may mean something else."""
    telling = {name.lower() for name in KNOWN_OPTIONS if is_telling(name)}
    for path, text in sources().items():
        found = [word for word in re.findall(r'"(\w+)"', text) if word.lower() in telling]
        assert not found or path.endswith("Names.java"), path


def is_telling(name: str) -> bool:
    """Whether nothing but an option has such a name."""
    return "_" in name or not name.islower()


def test_python_answers_each_request_of_java_and_has_no_other() -> None:
    asked = set(re.findall(r'\b(?:ask|options)\((?:place, )?"(\w+)"', "".join(sources().values())))
    assert asked == {*source._OPERATIONS, "write", "tasks"}


def test_java_asks_reads_for_what_they_say_of_themselves() -> None:
    asked = set(re.findall(r'\.can\("(\w+)"\)', "".join(sources().values())))
    assert asked == {field.name for field in dataclasses.fields(Abilities)} - {"unjoined"}


EXAMPLES: list[Message] = [
    protocol.Source(3, "é identity", "filter limit", ""),
    Task(2**62, -1, 3, 4, 5, "an index " * 50),
    Found(Found.ROWS, b"\0" * 70_000),
    protocol.Steps({"steps": [None, "\ud7ff"]}, b"f" * 300),
    protocol.Read(*range(8)),
    protocol.Writer(protocol.Writer.CHANGES),
    protocol.Written(*range(-8, 0)),
]


def test_java_reads_headers_and_writes_what_python_reads(java: Run) -> None:
    """The headers are in front of bodies of all sizes, in the pickles of each pickler and protocol that Spark may use."""
    things = [Thing(header, b"LNC\x01\x01" * size) for header in EXAMPLES for size in (0, 2, 200, 14_000)]
    pickles = [dumps(thing, version) for thing in things for dumps in (pickle.dumps, pickled) for version in (4, 5)]
    expected = [thing.header() for thing in things for _ in range(4)]
    assert [_header(base64.b64decode(line)) for line in java("read", *pickles)] == expected


def _header(data: bytes) -> Message:
    """The header of a pickle that Java has written, whose body is 1, 2, 3."""
    called: list[Any] = []

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            assert (module, name) == ("lance_spark.spark.protocol", "unpacked")
            return lambda frame, body: called.append((frame, body))

    Unpickler(io.BytesIO(data)).load()
    ((frame, body),) = called
    assert body == b"\1\2\3"
    return protocol.kind_of(frame).read(frame)


def test_java_reads_the_update_of_an_accumulator(java: Run) -> None:
    report = protocol.Read(1, 2, 3, 4, 5, 6, 7, 8)
    (line,) = java("update", pickled((protocol.ACCUMULATOR, report.frame()), 5))
    assert _header(base64.b64decode(line)) == report


def test_java_leaves_pickles_of_others_alone_and_refuses_other_protocols_and_cut_frames(java: Run) -> None:
    frame = Task(1, 2, 3, 4, 5, "x").frame()
    whole = pickled(Thing(Task(1, 2, 3, 4, 5, "x"), None), 5)
    others = [whole.replace(frame, frame[:3] + bytes([number]) + frame[4:]) for number in OTHERS]
    short = whole.replace(frame, frame[:-5] + b"\xff" * 5)
    strangers = [b"", b"\x80", whole[:40], pickle.dumps(b"LNC"), pickle.dumps([Thing(Task(1, 2, 3, 4, 5, ""), None)]), pickle.dumps(frame)]
    assert java("read", *strangers) == ["not ours"] * len(strangers)
    *answers, cut = java("read", *others, short)
    for number, answer in zip(OTHERS, answers, strict=True):
        assert answer.startswith(f"UnsupportedOperationException Spark has the classes of protocol {PROTOCOL}, Python has {number}: ")
    assert cut == "IllegalStateException a message of Python ends before its fields do"


VALUES_OF_JSON = ["é 😀 \"'\\\n", 2**62, -1, 0.1, float("inf"), True, None, [], {"a": {"": [1, None]}}]


def test_java_reads_and_writes_json_as_python_does(java: Run) -> None:
    written = java("json", *(json.dumps(value, ensure_ascii=is_ascii).encode() for value in VALUES_OF_JSON for is_ascii in (True, False)))
    assert [json.loads(text) for text in written] == [value for value in VALUES_OF_JSON for _ in range(2)]
    assert all(text.isascii() for text in written)
    (nan,) = java("json", b"NaN")
    assert math.isnan(json.loads(nan))


def test_java_names_a_class_in_a_pickle(java: Run) -> None:
    (line,) = java("named", b"")
    assert pickle.loads(base64.b64decode(line)) is CatalogSource


class Scan:
    """What a source is to the protocol."""

    def bound(self, request: Any) -> Any:
        """The source for a request."""
        return request


def test_instructions_are_read_from_one_option_and_those_of_another_protocol_are_refused() -> None:
    given = {"protocol": PROTOCOL, "lost": True, "based_on": {"version": 3, "identity": "x"}, "overwrite": [["=", ["c", "id"]]]}
    options = {"path": "t", protocol.INSTRUCTIONS: json.dumps(given)}
    expected = Instructions(lost=True, based_on=protocol.Base(3, "x"), overwrite=[["=", ["c", "id"]]])
    assert (Instructions.of(options), protocol.of_user(options)) == (expected, {"path": "t"})
    assert Instructions.of({"path": "t"}) == Instructions()
    assert Instructions.of(protocol.identified(options, "y")) == Instructions(identity="y")
    for number in (*OTHERS, None):
        with pytest.raises(UnsupportedFeatureError, match="write the jar again"):
            Instructions.of({protocol.INSTRUCTIONS: json.dumps({**given, "protocol": number})})
    with pytest.raises(UnsupportedFeatureError, match="Spark has the classes of an older lance-spark"):
        protocol.CatalogRequest.of({protocol.REQUEST: json.dumps({"operation": "load", "settings": {}, "arguments": {}, "id": ""})})


def test_python_opens_what_java_pickles(java: Run) -> None:
    (line,) = java("write", pickle.dumps(Scan()))
    assert pickle.loads(base64.b64decode(line)) == {"limit": 3}
    assert Bound.read(Bound({"limit": 3}).frame()).request == json.loads('{"limit": 3}')
    assert protocol.unpacked(Few(*range(8)).frame(), b"rows").rows == b"rows"


SCRIPT = """
spark = builder.master("local[1]").config("spark.driver.extraClassPath", sys.argv[1]).getOrCreate()
try:
    lance_spark.enable(spark)
except lance_spark.errors.UnsupportedFeatureError as e:
    print(e)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "found"), [*((other, f"protocol {other}") for other in OTHERS), (None, "an older lance-spark")])
def test_a_jar_of_another_version_is_refused(javac: str, tmp_path: Path, number: int | None, found: str) -> None:
    planner = tmp_path / "LancePlanner.java"
    planner.write_text("package lancespark; public class LancePlanner {}")
    files = [planner]
    if number is not None:
        text = (SOURCES / "Protocol.java").read_text()
        files.append(tmp_path / "Protocol.java")
        files[-1].write_text(text.replace(f"VERSION = {PROTOCOL};", f"VERSION = {number};"))
    classes = compiled(javac, tmp_path / "classes", *files)
    expected = f"Spark has the classes of {found}, this Python has protocol {PROTOCOL}: write the jar again"
    assert expected in run(START + SCRIPT, str(classes))
