"""Verification of indexes: what they find among a sample of the rows that they cover is what the rows say."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.errors import InvalidOptionError, LanceError, UnsupportedFeatureError
from lance_spark.file.data_file import open_data_file
from lance_spark.index.kinds import kind_of
from lance_spark.metadata.fragment import Fragment, IndexMetadata
from lance_spark.predicate import Formula, Predicate, bind, calculate, evaluate
from lance_spark.predicate.compare import as_seen, plain
from lance_spark.predicate.geometry import geometries, shapely
from lance_spark.predicate.tree import Call, Column, Expression, In, IsNull, Literal
from lance_spark.schema.schema import quoted
from lance_spark.storage.store import Store
from lance_spark.table.build.index_coverage import fragments_of, through_reuse
from lance_spark.table.build.reuse_history import reuse_history
from lance_spark.table.indexes.check_signatures import signature_problems
from lance_spark.table.indexes.check_texts import text_problems
from lance_spark.table.indexes.check_vectors import wrong_vector
from lance_spark.table.indexes.json_values import value_of
from lance_spark.table.indexes.optimize import definition_of
from lance_spark.table.indexes.segment import Definition
from lance_spark.table.maintenance.verify import Found, check_size
from lance_spark.table.scan.indexed import Segments
from lance_spark.table.scan.parts import Part, live_rows
from lance_spark.table.scan.plan import ScanPlan, plan_parts
from lance_spark.table.versions.snapshot import Snapshot

_ROWS = 100
"""Rows of a fragment in the sample."""

_VALUES = 8
"""About as many values are looked up alone."""


def check_indexes(snapshot: Snapshot) -> Iterator[tuple[str, Found]]:
    """The folder of each segment of a known kind, with its problems."""
    segments = Segments(snapshot)
    indexes = snapshot.manifest.indexes
    for index, now in zip(indexes, through_reuse(indexes)):
        try:
            store, place = snapshot.locations.index_folder(index)
            if any(check_size(store, f"{place}/{file.path}", file.size) for file in index.files):
                continue  # which is reported for the file
            _check_files(store, place, index)
            definition = definition_of(snapshot, [index])
        except LanceError as e:
            yield index.name, [("corrupt", str(e))]
            continue
        if definition is not None:
            yield place, list(_problems(snapshot, segments, definition, index, fragments_of(now) or BitMap()))


def _check_files(store: Store, place: str, index: IndexMetadata) -> None:
    """Read the files of an index whose kind and version are known, also if they are too damaged to say what they index."""
    kind = kind_of(index.details_type, index.details)
    if kind is None or not kind.knows(index.index_version):
        return
    for file in index.files:
        with contextlib.suppress(UnsupportedFeatureError):
            open_data_file(store, f"{place}/{file.path}", file.size).check()


def _problems(
    snapshot: Snapshot, segments: Segments, definition: Definition, index: IndexMetadata, covered: BitMap
) -> Iterator[tuple[typing.Literal["corrupt"], str]]:
    column = bind.column(snapshot.manifest.schema, quoted(definition.path))
    samples = _samples(snapshot, definition, [f for f in snapshot.manifest.fragments if f.id in covered])
    try:
        if definition.kind.name == "INVERTED":
            found = text_problems(segments, index, definition.field, column, (rows for _, rows in samples))
        elif definition.kind.name == "MINHASHLSH":
            found = signature_problems(segments, index, definition.field, column, (rows for _, rows in samples))
        else:
            found = _answer_problems(snapshot, segments, definition, index, samples)
        yield from (("corrupt", f"index {index.name!r} {problem}") for problem in found)
    except LanceError as e:
        yield "corrupt", f"index {index.name!r}: {e}"


def _samples(snapshot: Snapshot, definition: Definition, fragments: Sequence[Fragment]) -> Iterator[tuple[Fragment, pa.RecordBatch]]:
    """Rows of some of the fragments."""
    first, middle, last = fragments[:1], fragments[len(fragments) // 2 :][:1], fragments[-1:]
    for fragment in {f.id: f for f in (*first, *middle, *last)}.values():
        try:
            rows = _sample(snapshot, definition, _ends(fragment, live_rows(fragment, snapshot.locations)))
        except LanceError:
            continue  # which is reported for the data file
        yield fragment, rows


def _answer_problems(
    snapshot: Snapshot, segments: Segments, definition: Definition, index: IndexMetadata, samples: Iterator[tuple[Fragment, pa.RecordBatch]]
) -> Iterator[str]:
    """The first problem of an index that answers conditions."""
    column = bind.column(snapshot.manifest.schema, quoted(definition.path))
    moved_to = {f.id for v in reuse_history(snapshot.manifest.indexes) or () for group in v.groups for f in group.new_fragments}
    for fragment, rows in samples:
        try:
            if definition.kind.trained:
                if (wrong_row := wrong_vector(segments, definition, index, rows)) is not None:
                    yield f"{wrong_row} of fragment {fragment.id}"
                    return
                continue
            value = column if definition.kind.target is None else value_of(definition, column)
            of_geometries = definition.kind.name == "RTREE"
            for condition in _at_geometries(definition, column, rows) if of_geometries else _conditions(value, rows):
                answer = segments.of_segment(index.uuid, definition.path, condition)
                if answer is None:
                    continue
                if fragment.id not in answer.covered:
                    if fragment.id not in moved_to:
                        yield f"says that it covers fragment {fragment.id}, but has no zones of it"
                        return
                    continue  # it is scanned: the writer left the zones as they were when it moved the rows
                offsets = (rows.column("_rowaddr").to_numpy() & np.uint64(0xFFFFFFFF)).astype(np.uint32)
                holds = np.asarray(evaluate(Predicate(condition, "the sample"), rows).fill_null(False))
                found = np.isin(offsets, np.asarray(answer.rows.get(fragment.id, BitMap()).to_array(), np.uint32))
                wrong = (holds & ~found) | (~holds & found if fragment.id in answer.exact else False)
                if wrong.any():
                    at = int(np.flatnonzero(wrong)[0])
                    yield f"{'does not find' if holds[at] else 'finds'} row {offsets[at]} of fragment {fragment.id}, unlike a scan"
                    return
        except InvalidOptionError:
            continue  # a value that a filter cannot hold


def _ends(fragment: Fragment, rows: int) -> list[Part]:
    """The first and the last rows of a fragment."""
    if rows <= _ROWS:
        return [Part(fragment, 0, rows)]
    return [Part(fragment, 0, _ROWS // 2), Part(fragment, rows - _ROWS // 2, rows)]


def _sample(snapshot: Snapshot, definition: Definition, parts: Sequence[Part]) -> pa.RecordBatch:
    plan = ScanPlan(columns=(quoted(definition.path), "_rowaddr"))
    table = pa.Table.from_batches(plan_parts(snapshot, plan, parts).read(), plan.schema(snapshot))
    (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    return batch


def _at_geometries(definition: Definition, column: Column, rows: pa.RecordBatch) -> Iterator[Expression]:
    """IS NULL, and a condition that each of some geometries in the sample satisfies."""
    yield IsNull(column)
    layout = str(definition.parameters["layout"])
    known = [shape for shape in geometries(calculate(Formula(column, "the sample"), rows), layout) if shape is not None]
    for shape in known[:: max(len(known) // _VALUES, 1)]:
        text = shapely().to_wkt(shape, rounding_precision=-1)
        yield Call("st_intersects", (column, Literal(text, pa.string()), Literal(layout, pa.string())), pa.bool_())


def _conditions(column: Column | Call, rows: pa.RecordBatch) -> Iterator[Expression]:
    """IS NULL, a condition for half of the values in the sample, and one for each of some values: bounds may be wrong only for these."""
    yield IsNull(column)
    if pa.types.is_struct(column.type):
        return
    values, nested = calculate(Formula(column, "the sample"), rows), pa.types.is_nested(column.type)
    if nested:
        values = as_seen(plain(values.flatten()), bind.item_type(column.type))
    known = values.drop_null().unique().to_pylist()
    alone = sorted(known)[:: max(len(known) // _VALUES, 1)] + sorted(known)[-1:]
    for wanted in (known[::2], *([v] for v in alone)) if known else ():
        if nested:
            yield Call("arrays_overlap", (column, Literal(tuple(wanted), pa.list_(values.type))), pa.bool_())
        else:
            yield In(column, tuple(wanted), has_null=False)
