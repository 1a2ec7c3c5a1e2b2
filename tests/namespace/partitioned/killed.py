"""A change of several partitions that is killed: a program (`tests.programs`) with the arguments TEMPLATE FOLDER FIRST [CHANGE].

As tests.table.crash: the namespace TEMPLATE is copied to FOLDER/n for every sixth call n (TURNS), from FIRST on. Prints how many were
killed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa

from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
from tests.sample import TURNS
from tests.table.crash import killed_at

NEW = pa.table({"id": pa.array([3, 4, 5, 8], pa.int64()), "c": ["US", None, "é", "é"], "v": [1.5, 2.0, 2.5, 4.0]})
"""Rows of two partitions that are there and of a new one."""


def write(uri: str) -> None:
    PartitionedNamespace.open(uri).write(NEW)


def update(uri: str) -> None:
    """Rows of one table move to a new one, and those of others are updated there."""
    PartitionedNamespace.open(uri).update({"v": "v + 1", "c": "if(c = 'a', 'moved', c)"})


CHANGES = {"write": write, "update": update}


def warm() -> None:
    """Do what takes long the first time in a process once, for all that are forked."""
    PartitionedNamespace.create("memory://killed/warm", NEW.schema, ["c"]).write(NEW).update({"c": "'x'"}).scan().to_table()


def main(template: str, folder: str, first: str, change: str = "write") -> None:
    """See the module."""
    number = int(first)
    while True:
        uri = str(Path(folder) / str(number))
        shutil.copytree(template, uri)
        if not killed_at(number, uri, CHANGES[change]):
            break
        number += TURNS
    print((number - int(first)) // TURNS)
