"""Finished results of fragments that are not finished: files in a folder, by default in the table's own, so that they outlive a worker.

A folder is for one column, its inputs and one version of its function. In it, each fragment has a folder with

- `<first>-<last>-<rows>-<failed>-<run>-<unique>.arrow`: results of rows `first` to `last` of the fragment, in the order of the rows;
- `done-<run>-<number>.arrow`: the rows, by offset and fingerprint, for which a share of a run has results in such files;
- `written-<run>`: a share writes the file of the fragment.

A result counts for a row only if the fingerprint of the row's inputs is that of the result, so nothing stale is ever taken, whatever has
happened to the fragment. A failed row is computed again by another run.
"""

from __future__ import annotations

import io
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import take_rows
from lance_spark.errors import LanceError, MissingFileError
from lance_spark.storage.store import Store

_FLUSH_ROWS, _FLUSH_S, _MOST_S = 2 << 10, 0.25, 10.0
"""What is waiting is lost if a worker is killed: at most this, or a hundredth of the time that the share has taken so far.

An expensive function has few rows in a second, so that files four times a second would be too many for it.
"""
_READERS = 16
"""Files are small, so latency dominates."""
_FLUSH_BYTES = 16 << 20
_WINDOW_ROWS = 8 << 10
OFFSET, INPUTS, VALUE, ERROR = "offset", "inputs", "value", "error"


@dataclass(frozen=True)
class Rows:
    """Rows of a fragment: their ascending offsets (int64), and the fingerprints (uint64) of their inputs."""

    offsets: np.ndarray
    inputs: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets)

    def has(self, offsets: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Which of these rows are among them, with the same inputs."""
        if not len(self):
            return np.zeros(len(offsets), dtype=bool)
        at = np.minimum(np.searchsorted(self.offsets, offsets), len(self) - 1)
        found: np.ndarray = (self.offsets[at] == offsets) & (self.inputs[at] == inputs)
        return found


@dataclass(frozen=True)
class ResultFile:
    """A file of results, as its name describes it. `last` is inclusive."""

    name: str
    first: int
    last: int
    rows: int
    failed: int
    run: str


def result_file(name: str) -> ResultFile | None:
    """The file of results with this name, None for a name of other files."""
    parts = name.removesuffix(".arrow").split("-")
    if not name.endswith(".arrow") or len(parts) != 6 or not all(part.isdecimal() for part in parts[:4]):
        return None
    first, last, rows, failed = map(int, parts[:4])
    return ResultFile(name, first, last, rows, failed, parts[4])


@dataclass(frozen=True)
class Results:
    """The results of one fragment in the folder `place` of `store`."""

    store: Store
    place: str

    def files(self) -> list[ResultFile]:
        """All files of results, in the order of their rows."""
        found = [known for entry in self.store.list(self.place) if (known := result_file(entry.name)) is not None]
        return sorted(found, key=lambda file: (file.first, file.last, file.name))

    def known(self, run: str, first: int, last: int) -> tuple[Rows, Rows]:
        """The rows from `first` to `last` (inclusive) that have a result, and those that failed in this run, which is not tried again."""
        near = [file for file in self.files() if file.first <= last and first <= file.last]
        good, failed = [], []
        for file, table in zip(near, self._read_all(near, _keys)):
            if table is not None:
                good.append(table.filter(table.column(ERROR).is_null()))
                failed += [table.filter(table.column(ERROR).is_valid())] if file.run == run else []
        return _rows(good), _rows(failed)

    def _read_all(self, files: Sequence[ResultFile], part: Callable[[pa.Table], pa.Table] = lambda table: table) -> list[pa.Table | None]:
        """The rows of several files, or a part of them."""

        def read(file: ResultFile) -> pa.Table | None:
            table = self._read(file)
            return None if table is None else part(table)

        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(read, files))

    def _read(self, file: ResultFile) -> pa.Table | None:
        """The rows of a file; None for a file that is no more, or was damaged: then its rows are computed again."""
        try:
            data = self.store.read(f"{self.place}/{file.name}")
        except MissingFileError:
            return None
        try:
            table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
            table.validate(full=True)
        except (pa.ArrowException, OSError):
            return None
        return table

    def finish(self, run: str, number: int, rows: Rows) -> None:
        """Note that the share `number` of a run has results of all of these rows."""
        table = pa.table({OFFSET: rows.offsets, INPUTS: rows.inputs.view(np.int64)})
        self.store.put(f"{self.place}/{_done(run, number)}", to_bytes(table))

    def finished(self, run: str, shares: int) -> Rows | None:
        """The rows of all shares of a run; None if one of them is not finished."""
        if not {_done(run, number) for number in range(shares)} <= set(self.store.names(self.place)):
            return None
        tables = []
        for number in range(shares):
            data = self.store.read(f"{self.place}/{_done(run, number)}")
            tables.append(pa.ipc.open_file(data).read_all())
        whole = pa.concat_tables(tables)
        return Rows(whole.column(OFFSET).to_numpy(), whole.column(INPUTS).to_numpy().view(np.uint64))

    def claim(self, run: str) -> bool:
        """Whether the caller is the one to write the fragment's file: of shares that end at the same time, each finds all finished."""
        try:
            self.store.put_if_absent(f"{self.place}/written-{run}", b"")
        except FileExistsError:
            return False
        return True

    def of(self, rows: Rows) -> Iterator[pa.Table]:
        """The results of these rows, in order, a window at a time: only the files of a window are in memory.

        Raises LanceError if a row has no result, because a file was removed.
        """
        files, open_files = self.files(), dict[str, pa.Table]()
        for start in range(0, len(rows), _WINDOW_ROWS):
            window = Rows(rows.offsets[start : start + _WINDOW_ROWS], rows.inputs[start : start + _WINDOW_ROWS])
            first, last = int(window.offsets[0]), int(window.offsets[-1])
            near = [file for file in files if file.first <= last and first <= file.last]
            new = [file for file in near if file.name not in open_files]
            open_files = {file.name: open_files[file.name] for file in near if file.name in open_files}
            open_files |= {file.name: table for file, table in zip(new, self._read_all(new)) if table is not None}
            yield self._picked(window, list(open_files.values()))

    def _picked(self, window: Rows, tables: Sequence[pa.Table]) -> pa.Table:
        table = pa.concat_tables(tables) if tables else None
        if table is not None:
            places = np.full(len(window), -1)
            offsets, inputs = table.column(OFFSET).to_numpy(), table.column(INPUTS).to_numpy().view(np.uint64)
            at = np.minimum(np.searchsorted(window.offsets, offsets), len(window) - 1)
            good = (window.offsets[at] == offsets) & (window.inputs[at] == inputs)
            has_value = table.column(ERROR).is_null().to_numpy()
            for rows in (np.flatnonzero(good & ~has_value), np.flatnonzero(good & has_value)):  # a later success counts
                places[at[rows]] = rows
            if (places >= 0).all():
                return take_rows(table, pa.array(places))
        raise LanceError(f"{self.store.uri}/{self.place}: results of rows were removed meanwhile; run the backfill again")

    def forget(self) -> None:
        """Delete all of them."""
        self.store.delete_folder(self.place)


def _keys(table: pa.Table) -> pa.Table:
    """What tells the rows of a file, without their values, in memory of its own."""
    keys = table.select([OFFSET, INPUTS, ERROR])
    return keys.take(pa.array(np.arange(table.num_rows)))


def _rows(tables: Sequence[pa.Table]) -> Rows:
    """The rows of several files. Of several results of a row, one counts: the inputs may have changed in between."""
    if not tables:
        return Rows(np.empty(0, np.int64), np.empty(0, np.uint64))
    both = pa.concat_tables(tables)
    offsets, inputs = both.column(OFFSET).to_numpy(), both.column(INPUTS).to_numpy().view(np.uint64)
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    is_last = np.append(ordered[1:] != ordered[:-1], True)[: len(order)]
    kept = order[is_last]
    return Rows(offsets[kept], inputs[kept])


def _done(run: str, number: int) -> str:
    return f"done-{run}-{number:05d}.arrow"


def to_bytes(table: pa.Table) -> bytes:
    """An Arrow file."""
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return out.getvalue()


class ResultWriter:
    """Writes results in a thread, while others are computed: see `_FLUSH_S`. All are written when `close` returns.

    `add` and `close` raise StorageError if results could not be written.
    """

    def __init__(self, results: Results, run: str) -> None:
        self._results, self._run = results, run
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._begun = self._since = time.monotonic()
        self._closed = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def add(self, rows: Rows, values: pa.Array, errors: Iterable[str | None]) -> None:
        """Add results of rows that come after all others. This waits while too many are waiting."""
        results = {OFFSET: rows.offsets, INPUTS: rows.inputs.view(np.int64), VALUE: values}
        table = pa.table({**results, ERROR: pa.array(errors, pa.string())})
        with self._changed:
            self._changed.wait_for(lambda: self._bytes < _FLUSH_BYTES or self._error is not None)
            self._raise()
            if not self._waiting:
                self._since = time.monotonic()
            self._waiting.append(table)
            self._rows, self._bytes = self._rows + len(rows), self._bytes + table.nbytes
            self._changed.notify_all()

    def close(self) -> None:
        """Write what is left."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            while taken := self._taken():
                self._put(pa.concat_tables(taken))
        except BaseException as e:  # noqa: BLE001 (raised by the thread that computes)
            with self._changed:
                self._error = e
                self._changed.notify_all()

    def _taken(self) -> list[pa.Table]:
        """What is waiting, when it is due to be written; nothing at the end."""
        with self._changed:
            while not self._closed and not self._is_due():
                self._changed.wait(None if not self._waiting else _FLUSH_S / 4)
            taken, self._waiting, self._rows, self._bytes = self._waiting, [], 0, 0
            self._changed.notify_all()
            return taken

    def _is_due(self) -> bool:
        now = time.monotonic()
        patience = min(max(_FLUSH_S, (now - self._begun) / 100), _MOST_S)
        return bool(self._waiting) and (self._rows >= _FLUSH_ROWS or self._bytes >= _FLUSH_BYTES or now - self._since >= patience)

    def _put(self, table: pa.Table) -> None:
        offsets, failed = table.column(OFFSET), table.num_rows - table.column(ERROR).null_count
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        name = f"{first:010d}-{last:010d}-{table.num_rows}-{failed}-{self._run}-{uuid.uuid4().hex[:12]}.arrow"
        self._results.store.put(f"{self._results.place}/{name}", to_bytes(table))
