"""Reading a hostile table, and what must never come of it."""

from __future__ import annotations

import resource
import signal
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from fuzz.place import table
from fuzz.seeds import Seed
from lance_spark import Dataset
from lance_spark.buffers import limits
from lance_spark.errors import LanceError
from lance_spark.metadata import transaction

SECONDS = 10
"""What one case may take: a small table, and what is done with it."""

T = TypeVar("T")

PAGE_BYTES = 1 << 26
"""What a page may come to here, instead of the real limit, which would make each hostile table slow."""

BATCHES = 50
"""How much is read of a table: a manifest may well say that a fragment has four billion rows of nulls."""

SPARE_BYTES = 1 << 30
"""Memory beyond what the process has after its first table: a small multiple of a page."""


class TooSlowError(Exception):
    """Reading did not end in time."""


def read(seed: Seed, data: bytes | None) -> int | None:
    """Read all rows of the seed's table, in which `data` stands in the place of the seed's file; how many, None if they are refused.

    Whatever is raised is a finding.
    """
    if data is not None and seed.path.endswith(".txn"):
        try:
            transaction.parse(data, seed.path)
        except LanceError:
            return None
        return 0
    with table(seed.table, {seed.path: data}) as folder:
        try:
            return sum(checked(batch) for batch in islice(Dataset.open(folder).scan().to_batches(), BATCHES))
        except LanceError:
            return None


def checked(batch: pa.RecordBatch) -> int:
    """The number of rows of a batch, which must be valid."""
    for column in batch.columns:
        column.validate(full=not _has_loose(column.type))
    return int(batch.num_rows)


def _has_loose(t: pa.DataType) -> bool:
    """Whether values within `t` are of a type of which Arrow does not allow all: a decimal too large is a value, too."""
    if isinstance(t, pa.BaseExtensionType):
        return _has_loose(t.storage_type)
    if pa.types.is_dictionary(t):
        return _has_loose(t.value_type)
    loose = pa.types.is_decimal(t) or pa.types.is_time(t) or pa.types.is_date64(t)
    return bool(loose or any(_has_loose(t.field(i).type) for i in range(t.num_fields)))


def prepare() -> None:
    """Limits on this process: memory, time (of each reading, by `limited`), and no warnings."""
    warnings.simplefilter("error")
    limits.MAX_BYTES = PAGE_BYTES
    pa.set_memory_pool(pa.system_memory_pool())  # others reserve address space in advance
    signal.signal(signal.SIGPROF, _alarm)


def limit_memory() -> None:
    """Allow the process no more than `SPARE_BYTES` beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _alarm(*_: object) -> None:
    raise TooSlowError(f"more than {SECONDS} s of processors")


def limited(work: Callable[[], T]) -> T:
    """What `work` gives, within `SECONDS` of processors, which other programs do not use up."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
