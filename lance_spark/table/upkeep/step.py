"""A step of upkeep: what it does, why, what it costs, and what it should gain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from lance_spark.table.scan.runner import Runner
from lance_spark.table.versions.snapshot import Snapshot

READS = 20
"""A step is worth it if so many reads repay what it writes: a choice, about the queries of a day at a table that is looked after each
night. `bench.upkeep` shows what another number would do."""


@dataclass(frozen=True)
class Step(ABC):
    """One step, which can be done alone. `bytes_to_rewrite` and `gain`, the bytes that reads save, are estimates."""

    why: str
    bytes_to_rewrite: int
    gain: int

    action: ClassVar[str]
    """The operation of the step, as CALL names it."""

    @property
    @abstractmethod
    def what(self) -> str:
        """What it works on, in words."""

    @abstractmethod
    def do(self, runner: Runner, snapshot: Snapshot) -> str | None:
        """Do it on the latest version. Returns why it was not done, if other writers were faster."""

    @property
    def gain_per_byte(self) -> float:
        """Steps are done in this order."""
        return self.gain / max(self.bytes_to_rewrite, 1)

    @property
    def is_worth_it(self) -> bool:
        """Whether `READS` reads repay what it writes."""
        return self.gain > 0 and self.gain * READS >= self.bytes_to_rewrite
