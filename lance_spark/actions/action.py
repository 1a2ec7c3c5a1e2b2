"""An operation as a value: its name, its parameters, what it returns and does, and how each door says it.

The doors are CALL in SQL, statements, the command line, and the methods of `Dataset` and `LanceTable`. CALL and commands are made from
these values; methods are written by hand, and `tests/test_actions.py` compares them with the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from lance_spark.errors import InvalidOptionError
from lance_spark.options.field import options_of
from lance_spark.table.maintenance.progress import Track, untracked
from lance_spark.table.scan.runner import Runner
from lance_spark.table.scan.stages import Results, Stage
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.versions.tags_and_branches import Reference, resolve
from lance_spark.table.write.options import NOTED as NOTED_FIELDS
from lance_spark.table.write.options import WriteOptions

Door = Literal["CALL", "statement", "command", "Dataset", "LanceTable"]
Effect = Literal["reads", "keeps", "rows", "columns"]
"""What an operation does: it only reads, it keeps rows and columns, or it may change the rows, or the rows and the columns."""
How = TypeVar("How")
Given = Mapping[str, Any]
VERSION = "version"
"""The kind of a parameter that is the number of a version or the name of a tag."""
REQUIRED: Any = type("Required", (), {"__repr__": lambda _: "REQUIRED"})()
"""The default of a parameter that must be given."""
_SAME: Any = object()


@dataclass(frozen=True)
class Said:
    """How a door says a parameter otherwise, and why: under another name, with another default, or not at all."""

    why: str
    name: str | None = None
    default: Any = _SAME
    is_there: bool = True


def absent(why: str) -> Said:
    """A door does not have the parameter."""
    return Said(why, is_there=False)


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operation. `kind` is its type as DDL of Spark, or `VERSION`; `least` is the smallest number.

    A default of None is that of the code that does the work, which `help` tells.
    """

    name: str
    kind: str
    help: str
    default: Any = None
    least: int | None = None
    says: Mapping[Door, Said] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The type as DDL of Spark."""
        return "string" if self.kind == VERSION else self.kind

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is REQUIRED

    def at(self, door: Door) -> Parameter | None:
        """The parameter as a door says it; None if the door does not have it."""
        said = self.says.get(door)
        if said is None:
            return self
        if not said.is_there:
            return None
        default = self.default if said.default is _SAME else said.default
        return replace(self, name=said.name or self.name, default=default)


@dataclass(frozen=True)
class Job(Generic[How]):
    """The part of an operation that tasks do.

    `how` makes one value of the arguments, which the stages take. `commit` takes it with the results of all stages, for an engine that
    runs the stages itself; `run` does the whole with a runner.
    """

    how: Callable[..., How]
    stages: Sequence[Stage[How]]
    commit: Callable[[Snapshot, How, Results], Any]
    run: Callable[[Runner, Snapshot, How], Any]


@dataclass(frozen=True)
class Asked(Generic[How]):
    """What a job is asked, and what its transaction stores."""

    how: How
    write: WriteOptions


def asked(stages: Sequence[Stage[How]]) -> tuple[Stage[Asked[How]], ...]:
    """Stages that take `how` of what is asked."""

    def tasks_of(stage: Stage[How]) -> Stage[Asked[How]]:
        def tasks(snapshot: Snapshot, asked: Asked[How], cores: int, results: Results) -> Sequence[Any]:
            return stage.tasks(snapshot, asked.how, cores, results)

        return Stage(tasks, stage.run)

    return tuple(map(tasks_of, stages))


@dataclass(frozen=True)
class Outcome:
    """What an operation was asked and returned: the version that it began with, its arguments, and its value."""

    snapshot: Snapshot
    given: Given
    value: Any


@dataclass(frozen=True)
class Command:
    """How the command line says an operation. Without more, it prints the rows.

    `words` are the words of the command, by default the name; `about` are more sentences of the help. `question` returns what is asked
    before anything is removed; None for nothing. `told` is the text that is printed, `plain` what is printed as JSON, and `code` the exit
    code. A command `of_version` takes a version to work on.
    """

    words: str = ""
    about: str = ""
    question: Callable[[Snapshot, Given], str | None] | None = None
    told: Callable[[Outcome], str] | None = None
    plain: Callable[[Outcome], Any] | None = None
    code: Callable[[Outcome], int] = lambda outcome: 0
    of_version: bool = False


@dataclass(frozen=True)
class Action:
    """An operation on a table.

    `help` says what it does, without a subject; `see` is a sentence with links for the page of procedures. `columns` are the names and
    types, as DDL, of the rows that it returns. `work` takes a snapshot and the arguments that were given, by name: its value is a row, a
    dataclass with these fields, or an iterable of rows; `as_rows` makes rows of other values.

    With `tracks`, the work also takes `track`, which shows a bar. `methods` are the methods of `Dataset` and
    `LanceTable`, as paths: `tags.create`. Without a `command`, it is not on the command line. With `instead`, it is an operation of
    other connectors that has no meaning here: `instead` says what to write, and the table is not opened.
    """

    name: str
    help: str
    columns: Mapping[str, str]
    work: Callable[..., Any] | Job[Any]
    parameters: tuple[Parameter, ...] = ()
    effect: Effect = "reads"
    methods: Mapping[Door, tuple[str, ...]] = field(default_factory=dict)
    command: Command | None = Command()
    as_rows: Callable[[Any], Iterable[Any]] | None = None
    tracks: bool = False
    see: str = ""
    instead: str = ""

    def at(self, door: Door) -> list[Parameter]:
        """The parameters that a door has, as it says them."""
        return [said for p in self.parameters if (said := p.at(door)) is not None]

    def parameter(self, name: str) -> Parameter:
        """A parameter by its name."""
        return next(p for p in self.parameters if p.name == name)

    @property
    def ddl(self) -> str:
        """The columns as DDL of Spark."""
        return ", ".join(f"{name} {type}" for name, type in self.columns.items())

    def run(self, runner: Runner, snapshot: Snapshot, given: Given, track: Track = untracked) -> Any:
        """Do the work, with tasks on a runner if it has any, and return its value."""
        if isinstance(self.work, Job):
            return self.work.run(runner, snapshot, self.work.how(snapshot, **given))
        shown = {"track": track} if self.tracks else {}
        return self.work(snapshot, **given, **shown)

    def rows(self, value: Any) -> list[tuple[Any, ...]]:
        """The rows of a value of the work."""
        found = value if self.as_rows is None else self.as_rows(value)
        return [self._row(row) for row in ([found] if is_dataclass(found) else found)]

    def _row(self, row: Any) -> tuple[Any, ...]:
        if not is_dataclass(row):
            return tuple(row)
        return tuple(getattr(row, name) for name in self.columns)


def _lower_first(text: str) -> str:
    return text[0].lower() + text[1:]


_NOT_NOTED = absent("methods of a Dataset have the arguments of pylance")
_PYTHON = "arguments of Python that are stored in the transaction have the names of Spark's options"
_STORED = options_of(WriteOptions)
NOTED = tuple(
    Parameter(
        name,
        "bigint" if _STORED[name].kind == "count" else "string",
        _lower_first(_STORED[name].help.rstrip(".").replace("`", "")),
        says={"Dataset": _NOT_NOTED, "LanceTable": Said(_PYTHON, option)},
    )
    for option, name in NOTED_FIELDS.items()
)
"""The parameters of each operation that makes one commit: they are stored in its transaction."""


def noted(given: dict[str, Any]) -> WriteOptions:
    """Take the arguments `NOTED` out of those that were given."""
    return WriteOptions(**{p.name: given.pop(p.name) for p in NOTED if p.name in given})


def reference(version: str | None) -> Reference | None:
    """The version of a parameter of the kind `VERSION`."""
    return int(version) if version is not None and version.isdecimal() else version


AT = (
    Parameter(VERSION, VERSION, "a version by its number, or by its tag (default: the latest)"),
    Parameter("timestamp", "timestamp", "instead, the version that was the latest at a time"),
)


def version_at(snapshot: Snapshot, version: str | None, timestamp: datetime | None) -> Snapshot:
    """The version that the parameters `AT` say; without both, `snapshot`."""
    if version is not None and timestamp is not None:
        raise InvalidOptionError("give either version (a number or a tag) or timestamp, not both")
    if timestamp is None:
        return resolve(snapshot, reference(version))
    return open_snapshot(snapshot.store, timestamp=timestamp, allow_other_stores=snapshot.allow_other_stores)
