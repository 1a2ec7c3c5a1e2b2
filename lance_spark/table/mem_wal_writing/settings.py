"""The settings of a writer of the log: pylance's names and defaults, and those that the table's log begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral

from lance_spark.display.words import nearest
from lance_spark.errors import CorruptFileError, InvalidOptionError, check_type

HNSW_PARAMETERS = {"num_edges": 20, "ef_construction": 150, "max_level": 7}
"""The parameters of a graph in an SSTable, with their defaults."""
_HNSW = "hnsw"
_OF_PYLANCE = {"enable_memtable": "true", "max_wal_persist_retries": "3", "wal_persist_retry_base_delay_ms": "50"}
"""What pylance notes beside its settings; none of it can be set there either."""


@dataclass(frozen=True)
class WriterSettings:
    """How a writer of the log writes.

    Attributes:
        durable_write: Whether `put` returns only when the rows are in the log. Else they are there after
            `max_wal_flush_interval_ms`, or once `max_wal_buffer_size` bytes wait; those that wait are lost in a crash.
        max_wal_buffer_size: The most bytes of rows in one entry of the log.
        max_wal_flush_interval_ms: How long rows wait at most without `durable_write`.
        max_memtable_size: The bytes of rows after which a generation is flushed to an SSTable.
        max_memtable_rows: The rows after which a generation is flushed.
        max_memtable_batches: The batches of rows after which a generation is flushed.
        max_unflushed_memtable_bytes: With more bytes of rows in memory, `put` waits for generations to be flushed.
        manifest_scan_batch_size: Has no effect, as in pylance since 12.0: the states of a shard are listed.
        backpressure_log_interval_ms: How often a waiting `put` says so in the log of the process.
        stats_log_interval_ms: How often `put` says the statistics in the log of the process; 0: never.
        hnsw_params: For vector indexes by name, the parameters of their graphs in SSTables: `num_edges`,
            `ef_construction` and `max_level`.
    """

    durable_write: bool = True
    max_wal_buffer_size: int = 10 << 20
    max_wal_flush_interval_ms: int = 100
    max_memtable_size: int = 256 << 20
    max_memtable_rows: int = 100_000
    max_memtable_batches: int = 8000
    max_unflushed_memtable_bytes: int = 1 << 30
    manifest_scan_batch_size: int = 2
    backpressure_log_interval_ms: int = 30_000
    stats_log_interval_ms: int = 60_000
    hnsw_params: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def with_given(self, given: Mapping[str, object]) -> WriterSettings:
        """These settings with those that are given, which are not None. Raises InvalidOptionError."""
        names = {f.name for f in fields(self)}
        if unknown := sorted(given.keys() - names):
            said = nearest(unknown[0], names)
            raise TypeError(f"unknown setting {unknown[0]!r} of a writer of the log{said}; the settings are: {', '.join(sorted(names))}")
        found = {name: value for name, value in given.items() if value is not None}
        for name, value in found.items():
            _check(name, value)
        if isinstance(graphs := found.get("hnsw_params"), Mapping):
            found["hnsw_params"] = {**self.hnsw_params, **{index: {**HNSW_PARAMETERS, **own} for index, own in graphs.items()}}
        return replace(self, **found)  # type: ignore[arg-type]

    def as_text(self) -> dict[str, str]:
        """The settings as the table's log notes them, as pylance does."""
        texts = dict(_OF_PYLANCE)
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "hnsw_params":
                texts |= {f"{_HNSW}.{index}.{name}": str(number) for index, own in value.items() for name, number in own.items()}
            elif f.name != "stats_log_interval_ms" or value:
                texts[f.name] = str(value).lower()
        return texts


def settings_of(texts: Mapping[str, str], where: str) -> WriterSettings:
    """The settings that a table's log notes. Unknown ones are those of newer writers. Raises CorruptFileError."""
    given: dict[str, object] = {}
    graphs: dict[str, dict[str, int]] = {}
    names = {f.name for f in fields(WriterSettings)}
    try:
        for name, text in texts.items():
            if name == "durable_write":
                given[name] = {"true": True, "false": False}[text]
            elif name.startswith(f"{_HNSW}."):
                index, _, parameter = name.removeprefix(f"{_HNSW}.").rpartition(".")
                graphs.setdefault(index, {})[parameter] = int(text)
            elif name in names:
                given[name] = int(text)
        return WriterSettings().with_given({**given, "hnsw_params": graphs})
    except (ValueError, KeyError, InvalidOptionError) as e:
        raise CorruptFileError(f"{where}: the settings of writers of the write-ahead log are invalid: {e}") from e


def _check(name: str, value: object) -> None:
    if name == "durable_write":
        check_type(name, value, bool, "True or False")
        return
    if name == "hnsw_params":
        check_type(name, value, Mapping, "a mapping of names of indexes to parameters")
        assert isinstance(value, Mapping)
        for index, own in value.items():
            check_type(f"hnsw_params of {index!r}", own, Mapping, "a mapping of parameters to numbers")
            if unknown := sorted(own.keys() - HNSW_PARAMETERS.keys()):
                known = ", ".join(HNSW_PARAMETERS)
                raise InvalidOptionError(f"unknown parameter {unknown[0]!r} in hnsw_params of {index!r}; expected {known}")
            for parameter, number in own.items():
                _check_number(f"{parameter} of {index!r}", number, 1)
        return
    _check_number(name, value, 0 if name.endswith("_ms") else 1)


def _check_number(name: str, value: object, least: int) -> None:
    check_type(name, value, Integral, "a number")
    assert isinstance(value, int)
    if value < least:
        raise InvalidOptionError(f"{name} must be at least {least}, not {value}")
