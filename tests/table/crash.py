"""A writer that is killed at every storage call: a program (`tests.programs`) with the arguments CHANGE TEMPLATE FOLDER [STEP [FIRST]].

For every number n from FIRST (1) on, or every STEP-th, the table TEMPLATE is copied to FOLDER/n and a process changes it that kills itself
before its n-th call that has to do with files of that folder; until one lives long enough to end. Prints how many were killed. If FOLDER is
a place on S3, the calls are requests, and the environment has the address and the keys of the store.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lance_spark
from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, on_refusal
from lance_spark.metadata.numbered_writes import COPIES
from lance_spark.predicate import parse
from lance_spark.table.changes.replace_where import replace_where
from lance_spark.table.commit.copied_files import copied, prepared
from lance_spark.table.indexes import create
from lance_spark.table.maintenance import cleanup
from lance_spark.table.scan.runner import Here, Runner
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.write import begin_write, discard, write, write_fragments
from tests.table.mem_wal.writing.steps import write_steps

NEW = pa.table({"a": pa.array([10, 11], pa.int64()), "s": ["new", None]})
SOURCE = pa.table({"a": pa.array([2, 12], pa.int64()), "s": ["changed", "inserted"]})
"""What is merged: one row that the table has, and one that it has not."""
FILES: Mapping[str, pa.Table] = {"file:/first": NEW}
"""The files that `copy_into` loads, and their rows."""
CALLS = ("open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir")


CHANGES: dict[str, Callable[[str], object]] = {
    "create": lambda uri: Dataset.write(f"{uri}/new", NEW),
    "append": lambda uri: Dataset.write(uri, NEW, "append", max_rows_per_file=1),
    "overwrite": lambda uri: Dataset.write(uri, NEW, "overwrite"),
    "delete": lambda uri: Dataset.open(uri).delete("a = 1 OR a = 5"),
    "restore": lambda uri: Dataset.open(uri, version=1).restore(),
    "update_config": lambda uri: Dataset.open(uri).update_config({"key": "value"}),
    "add_columns": lambda uri: Dataset.open(uri).add_columns(pa.schema([pa.field("b", pa.int32())])),
    "drop_columns": lambda uri: Dataset.open(uri).drop_columns(["s"]),
    "cleanup": lambda uri: Dataset.open(uri).cleanup_old_versions(timedelta(0)),
    "create_branch": lambda uri: Dataset.open(uri).create_branch("dev", 2),
    "merge_branch": lambda uri: Dataset.open(uri).branches.merge("dev"),
    "fast_forward": lambda uri: Dataset.open(uri).branches.fast_forward("main", "dev"),
    "create_tag": lambda uri: Dataset.open(uri).tags.create("tag", 2),
    "shallow_clone": lambda uri: Dataset.open(uri).shallow_clone(f"{uri}/new"),
    "deep_clone": lambda uri: Dataset.open(uri).deep_clone(f"{uri}/new"),
    "update": lambda uri: Dataset.open(uri).update({"s": "'changed'"}, "a = 2"),
    "update_in_place": lambda uri: Dataset.open(uri).update({"a": "a + 100"}),
    "merge": lambda uri: Dataset.open(uri).merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(SOURCE),
    "merge_delete": lambda uri: Dataset.open(uri).merge_insert("a").when_matched_delete().execute(SOURCE),
    "replace_all": lambda uri: (
        Dataset.open(uri).merge_insert("a").when_matched_update_all().when_not_matched_by_source_delete().execute(SOURCE)
    ),
    "add_calculated_columns": lambda uri: Dataset.open(uri).add_columns({"b": "a + 1"}),
    "compact": lambda uri: Dataset.open(uri).optimize.compact_files(),
    "replace_where": lambda uri: replaced(uri, "a <= 2", pa.table({"a": pa.array([2], pa.int64()), "s": ["replaced"]})),
    "rename_column": lambda uri: Dataset.open(uri).alter_columns({"path": "s", "name": "t"}),
    "change_type": lambda uri: Dataset.open(uri).alter_columns({"path": "a", "data_type": pa.int32(), "name": "n"}),
    "create_index": lambda uri: Dataset.open(uri).create_scalar_index("a", "BTREE", name="new"),
    "drop_index": lambda uri: Dataset.open(uri).drop_index("a_idx"),
    "optimize_indices": lambda uri: Dataset.open(uri).optimize.optimize_indices(),
    "compact_with_indexes": lambda uri: Dataset.open(uri).optimize.compact_files(),
    "create_vector_index": lambda uri: vectors_indexed(uri, Here()),
    "create_vector_index_meanwhile": lambda uri: vectors_indexed(uri, Meanwhile(uri)),
    "retrain_vector_index": lambda uri: Dataset.open(uri).optimize.optimize_indices(retrain=True),
    "put_into_log": lambda uri: write_steps(uri, f"{os.path.dirname(uri)}/done-{os.path.basename(uri)}"),
    "copy_into": lambda uri: loaded(uri, FILES),
    "require_values": lambda uri: Dataset.open(uri).alter_columns({"path": "a", "nullable": False}),
}

OF_NAMESPACES: dict[str, Callable[[str], object]] = {
    "declare_table": lambda uri: lance_spark.namespace(uri).declare_table(["ns", "new"]),
    "register_table": lambda uri: lance_spark.namespace(uri).register_table(["ns", "new"], "moved.lance"),
    "rename_table": lambda uri: lance_spark.namespace(uri).rename_table(["ns", "t"], ["ns", "new"]),
    "rename_listed_table": lambda uri: lance_spark.namespace(uri).rename_table(["t"], ["new"]),
    "deregister_table": lambda uri: lance_spark.namespace(uri).deregister_table(["ns", "t"]),
    "drop_table": lambda uri: lance_spark.namespace(uri).drop_table(["ns", "t"]),
}
"""Changes of the namespace in a folder."""


def moved(uri: str) -> None:
    """Move an amount from one table of a namespace to another one, in one transaction."""
    with lance_spark.namespace(uri).transaction() as both:
        both.open(["debit"]).update({"amount": "amount - 30"}, "id = 1")
        both.open(["debit"]).insert(pa.table({"id": [7], "amount": [0]}))
        both.open(["credit"]).update({"amount": "amount + 30"}, "id = 1")


TRANSACTIONS: dict[str, Callable[[str], object]] = {"transaction": moved}
"""Changes of several tables of the namespace in a folder."""


def loaded(uri: str, files: Mapping[str, pa.Table]) -> None:
    """COPY INTO without Spark: the files that the table has not."""
    while new := [path for path in files if path not in copied(Dataset.open(uri).snapshot)]:
        number = prepared(Dataset.open(uri).snapshot, new)
        rows = pa.concat_tables([files[path] for path in new])
        write(uri, rows, "append", WriteOptions(txn_app_id=COPIES, txn_version=number))


def replaced(uri: str, condition: str, rows: pa.Table) -> None:
    """Write with replaceWhere, without Spark."""
    target = begin_write(uri, rows.schema, "append")
    fragments = write_fragments(target, rows.to_batches())
    with on_refusal(lambda: discard(target, fragments)):
        replace_where(target, parse(condition, target.schema), fragments)


class Meanwhile:
    """Runs tasks in this process. Before those of a stage, pylance changes the table, each time in another way."""

    cores, stage = 2, 0

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def run(self, tasks: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        """Run them."""
        client = lance.dataset(self._uri)
        match self.stage:
            case 0:
                client.delete("id % 7 = 1")
            case 1:
                client.optimize.optimize_indices()
            case 2:
                client.optimize.compact_files()
        self.stage += 1
        return Here().run(tasks, function)


def vectors_indexed(uri: str, runner: Runner) -> None:
    """Make an index of several segments, which are joined; again, if a change of another client is in the way."""
    limits = create.MIN_SEGMENT_BYTES, create.MAX_SEGMENT_BYTES
    create.MIN_SEGMENT_BYTES = create.MAX_SEGMENT_BYTES = 1
    given: dict[str, object] = {"num_partitions": 2, "num_sub_vectors": 4, "num_bits": 4}
    new = create.NewIndex("vec", "IVF_PQ", "new", True, True, given)
    try:
        create.create_index(runner, Dataset.open(uri).snapshot, new, {})
    except CommitConflictError:
        create.create_index(runner, Dataset.open(uri).snapshot, new, {})
    finally:
        create.MIN_SEGMENT_BYTES, create.MAX_SEGMENT_BYTES = limits


def counts(event: str, arguments: tuple[object, ...], uri: str) -> bool:
    """True if a call accesses files in the folder `uri`. The store uses names relative to an open folder."""
    if event not in CALLS or not isinstance(path := arguments[0], str) or (path.startswith("/") and not path.startswith(uri)):
        return False
    # Folders on the way to a file change nothing.
    return event != "open" or path == "." or not (isinstance(flags := arguments[2], int) and flags & os.O_DIRECTORY)


def kill_at_call(number: int, uri: str) -> None:
    """Kill this process before its call with this number."""
    calls = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal calls
        if counts(event, arguments, uri):
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def kill_at_request(number: int) -> None:
    """Kill this process before it sends the request with this number to S3."""
    from aiobotocore.client import AioBaseClient  # type: ignore[import-untyped]

    calls, send = 0, AioBaseClient._make_api_call

    async def count(self: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return await send(self, *arguments)

    AioBaseClient._make_api_call = count


def killed_at(number: int, uri: str, change: Callable[[str], object]) -> bool:
    """Run a process that makes the change. True if it was killed before it ended."""
    pid = os.fork()
    if pid == 0:
        if uri.startswith("s3://"):
            kill_at_request(number)
        else:
            kill_at_call(number, uri)
        change(uri)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def copy(template: str, uri: str) -> None:
    """Copy the files of a local table."""
    if not uri.startswith("s3://"):
        shutil.copytree(template, uri)
        return
    import boto3  # unlike the client of the package it leaves no thread behind, which a fork would not survive

    bucket, _, key = uri.removeprefix("s3://").partition("/")
    client = boto3.client("s3")
    for file in Path(template).rglob("*"):
        if file.is_file():
            client.put_object(Bucket=bucket, Key=f"{key}/{file.relative_to(template)}", Body=file.read_bytes())


@functools.cache
def warm() -> None:
    """Do what takes long the first time in a process once, for all that are forked."""
    Dataset.write("memory://crash/warm", NEW).delete("a = 10").scan().to_table()


def main(name: str, template: str, folder: str, step: str = "1", first: str = "1") -> None:
    """See the module's docstring."""
    cleanup.PAUSE_S = 0  # nobody else is there
    if "vector" in name:
        rows = pa.table({"vec": pa.array(np.zeros((16, 2), np.float32).tolist(), pa.list_(pa.float32(), 2))})
        Dataset.write("memory://crash/vectors", rows).create_index("vec", "IVF_PQ", num_partitions=1, num_bits=4, num_sub_vectors=2)
    number = int(first)
    while True:
        uri = f"{folder}/{number}"
        copy(template, uri)
        if not killed_at(number, uri, {**CHANGES, **OF_NAMESPACES, **TRANSACTIONS}[name]):
            break
        number += int(step)
    print((number - int(first)) // int(step))
