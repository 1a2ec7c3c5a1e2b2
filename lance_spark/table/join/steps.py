"""The steps of a nearest join, over Arrow batches: from questions to probes of groups, to rows that are found there, to the result.

An engine runs each step in tasks, and between them brings the probes of a group together, then what was found for a question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_spark.arrow.packed import packed, unpacked
from lance_spark.arrow.types import expected_width
from lance_spark.index.vector.neighbors import NONE, Neighbors
from lance_spark.table.join.answers import Gathered, answers
from lance_spark.table.join.compare import compared, questions_at_once
from lance_spark.table.join.plan import NearestJoin
from lance_spark.table.join.questions import probes, question_vectors
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.search.hits import Hits, fetched
from lance_spark.table.search.vector_search import DISTANCE

_ROWS_BYTES = 32 << 20
"""Rows of the result are made in batches of about so many bytes."""
_CHUNK_BYTES = 8 << 20
"""The nearest rows of the questions that are answered at once take at most so many bytes; those to choose from take several times it."""
_FOUND_BYTES = 24
"""Of a row that is found, while the nearest are chosen: its question, distance and address."""

Batches = Iterator[pa.RecordBatch]


def sent_schema(question: pa.DataType) -> pa.Schema:
    """The schema of what the first step sends. `question` is the type of the questions' own columns."""
    ints = [("key", pa.int32()), ("group", pa.int32()), ("number", pa.int64())]
    return pa.schema([*ints, ("question", question), ("vector", pa.binary()), ("partitions", pa.binary())])


def found_schema(question: pa.DataType) -> pa.Schema:
    """The schema of what the second step finds."""
    rows = [("estimated", pa.bool_()), ("distances", pa.binary()), ("rows", pa.binary())]
    return pa.schema([("number", pa.int64()), ("question", question), ("vector", pa.binary()), *rows])


@dataclass(frozen=True)
class Ask:
    """Sends each question to the groups that it searches, and its own columns along with it to one of them."""

    join: NearestJoin
    keys: np.ndarray
    left: bool

    def __call__(self, batches: Batches, schema: pa.Schema) -> Batches:
        for batch in batches:
            queries, asked = question_vectors(self.join, batch.column("vector"))
            own = batch if self.left else batch.filter(pa.array(asked))
            numbers = own.column("number")
            group = numbers.to_numpy() % len(self.keys)
            sent = {"key": pa.array(self.keys[group]), "number": numbers, "question": _struct(own, schema.field("question").type)}
            yield _batch({**sent, "vector": _bytes(queries if self.left else queries[asked], asked if self.left else None)}, schema)
            which = np.flatnonzero(asked)
            for some in probes(self.join, queries[which]):
                of = which[some.questions]
                sent = {"key": pa.array(self.keys[some.groups]), "group": pa.array(some.groups.astype(np.int32))}
                sent |= {"number": batch.column("number").take(pa.array(of)), "vector": _bytes(queries[of]), "partitions": some.partitions}
                yield _batch(sent, schema)


@dataclass(frozen=True)
class Compare:
    """Finds the nearest rows in a group for its questions, many at once. Their own columns pass through."""

    join: NearestJoin

    def __call__(self, batches: Batches, schema: pa.Schema) -> Batches:
        at_once = questions_at_once(self.join)
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            own = batch.filter(batch.column("question").is_valid())
            if own.num_rows:
                yield _batch({name: own.column(name) for name in ("number", "question", "vector")}, schema)
            probes = batch.filter(batch.column("question").is_null()).drop_columns(["question"])
            while probes.num_rows:
                room = at_once - sum(b.num_rows for b in waiting)
                waiting.append(probes.slice(0, room))
                probes = probes.slice(room)
                if probes.num_rows or len(waiting[-1]) == room:
                    yield from self._found(waiting, schema)
                    waiting = []
        if waiting:
            yield from self._found(waiting, schema)

    def _found(self, probes: Sequence[pa.RecordBatch], schema: pa.Schema) -> Batches:
        table = pa.Table.from_batches(probes).combine_chunks()
        groups, of = np.unique(table["group"].to_numpy(), return_inverse=True)
        for number, group in enumerate(groups.tolist()):
            batch = table.take(pa.array(np.flatnonzero(of == number))).combine_chunks().to_batches()[0]
            for found in compared(self.join, group, _matrix(self.join, batch.column("vector")), batch.column("partitions")):
                numbers = batch.column("number").take(pa.array(found.questions))
                estimated = pa.array(np.full(len(numbers), found.estimated))
                yield _batch({"number": numbers, "estimated": estimated, "distances": found.distances, "rows": found.rows}, schema)


@dataclass(frozen=True)
class Answer:
    """Chooses the nearest rows of each question, whose batches have its own columns first, and reads their columns."""

    join: NearestJoin
    plan: ScanPlan
    left: bool

    def __call__(self, batches: Batches, schema: pa.Schema) -> Batches:
        at_once = max(_CHUNK_BYTES // (_FOUND_BYTES * self.join.wanted.count), 1)
        chunk = _Chunk(self.join)
        for batch in batches:
            while batch.num_rows:
                own = batch.column("question").is_valid().to_numpy(zero_copy_only=False)
                ordinal = chunk.count + np.cumsum(own) - 1
                stop = int(np.searchsorted(ordinal, at_once))
                chunk.add(batch.slice(0, stop), ordinal[:stop], own[:stop])
                batch = batch.slice(stop)
                if batch.num_rows:
                    yield from self._rows(chunk, schema)
                    chunk = _Chunk(self.join)
        if chunk.count:
            yield from self._rows(chunk, schema)

    def _rows(self, chunk: _Chunk, schema: pa.Schema) -> Batches:
        found = chunk.answers()
        numbers, rows, distance = found.queries, found.addresses, pa.array(found.distances)
        if self.left:
            without = np.setdiff1d(np.arange(chunk.count), numbers)
            numbers = np.concatenate([numbers, without])
            distance = pa.concat_arrays([distance, pa.nulls(len(without), distance.type)])
        questions = pa.Table.from_batches(chunk.questions).combine_chunks()
        at_once = max(_ROWS_BYTES // sum(expected_width(f.type) for f in schema), 1)
        for start in range(0, len(numbers), at_once):
            stop = min(start + at_once, len(numbers))
            hits = Hits(rows[start:stop], pa.table({DISTANCE.name: distance[start : min(stop, len(rows))]}))
            of_table = fetched(self.join.version.snapshot, self.plan, hits).combine_chunks()
            some = questions["question"].take(pa.array(numbers[start:stop])).combine_chunks()
            columns: dict[str, pa.Array] = {"question": some}
            for at, name in enumerate((*schema.names[1:-1], DISTANCE.name)):
                found = of_table.column(at)
                padded = pa.chunked_array([*found.chunks, pa.nulls(stop - start - len(found), found.type)], found.type)
                columns[name] = padded.combine_chunks()
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@dataclass(frozen=True)
class Join:
    """Does all steps for some questions at once. Their batches have no numbers."""

    ask: Ask
    compare: Compare
    answer: Answer

    def __call__(self, batches: Batches, schema: pa.Schema) -> Batches:
        join = self.ask.join
        at_once = max(questions_at_once(join) // max(join.group_count, 1), 1)
        for batch in batches:
            question = pa.struct([(field.name, field.type) for field in batch.schema if field.name != "vector"])
            for start in range(0, batch.num_rows, at_once):
                some = batch.slice(start, at_once)
                numbered = some.append_column("number", pa.array(np.arange(some.num_rows)))
                probes = self.ask(iter([numbered]), sent_schema(question))
                rows = pa.Table.from_batches(self.compare(probes, found_schema(question)), found_schema(question))
                order = np.lexsort((rows["question"].is_null().to_numpy(), rows["number"].to_numpy()))
                yield from self.answer(iter(rows.take(pa.array(order)).combine_chunks().to_batches()), schema)


class _Chunk:
    """Some questions, and what was found for them."""

    def __init__(self, join: NearestJoin) -> None:
        self._join = join
        self.count = 0
        self.questions: list[pa.RecordBatch] = []
        self._estimated, self._computed = Gathered(join.room), Gathered(join.nearest.k)

    def add(self, batch: pa.RecordBatch, ordinal: np.ndarray, own: np.ndarray) -> None:
        """Add rows: those of `own` are questions, which have the numbers `ordinal`, and others what was found for them."""
        self.questions.append(batch.filter(pa.array(own)).select(["question", "vector"]))
        self.count += int(own.sum())
        for estimated, gathered in ((True, self._estimated), (False, self._computed)):
            which = np.flatnonzero(~own & (batch.column("estimated").fill_null(not estimated).to_numpy(zero_copy_only=False) == estimated))
            if len(which):
                found = batch.take(pa.array(which))
                rows, counts = unpacked(found.column("rows"), np.uint64)
                distances, _ = unpacked(found.column("distances"), np.float32)
                gathered.add(Neighbors(np.repeat(ordinal[which], counts), distances, rows))

    def answers(self) -> Neighbors:
        """The nearest rows of the questions, which have the numbers that `add` gave them."""
        vectors = pa.Table.from_batches(self.questions)["vector"].combine_chunks()
        there = np.flatnonzero(vectors.is_valid().to_numpy(zero_copy_only=False))
        if not len(there):
            return NONE
        place = np.cumsum(vectors.is_valid().to_numpy(zero_copy_only=False)) - 1
        queries = _matrix(self._join, vectors.drop_null())
        estimated, computed = (replace(found, queries=place[found.queries]) for found in (self._estimated.all(), self._computed.all()))
        nearest = answers(self._join, queries, estimated, computed)
        return replace(nearest, queries=there[nearest.queries])


def _struct(batch: pa.RecordBatch, t: pa.StructType) -> pa.Array:
    """The columns c0, c1 and so on of a batch as one."""
    columns = [batch.column(f.name) for f in t]
    return pa.StructArray.from_arrays(columns, fields=[pa.field(f.name, c.type) for f, c in zip(t, columns)])


def _bytes(vectors: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """The rows of a matrix as binary values; those that are not `valid` are null."""
    return packed(vectors, np.arange(len(vectors) + 1), valid)


def _matrix(join: NearestJoin, column: pa.Array) -> np.ndarray:
    """The vectors in binary values."""
    size, dtype = join.nearest.queries.shape[1], join.nearest.queries.dtype
    return unpacked(column, dtype)[0].reshape(-1, size)


def _batch(columns: dict[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """A batch with these columns, and nulls in all others."""
    count = len(next(iter(columns.values())))
    return pa.RecordBatch.from_arrays([columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in schema], schema.names)
