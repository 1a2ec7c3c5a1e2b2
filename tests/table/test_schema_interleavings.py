"""Every change of a table, prepared before another client changes its schema: as if one came after the other, or refused."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation

from lance_spark import Dataset
from lance_spark.errors import LanceError
from lance_spark.predicate import parse
from lance_spark.schema.schema import PRIMARY_KEY_POSITION
from lance_spark.table.changes import alter
from lance_spark.table.changes.replace_where import replace_where
from lance_spark.table.write import write
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.target import Mode
from tests.sample import others_slow

K = pa.field("k", pa.int64(), nullable=False)
ROWS = pa.table(
    {"k": [1, 2, 3, 4, 5, 6], "a": [10, 20, 30, 40, None, 60], "b": list("uvwxyz")},
    schema=pa.schema([K, pa.field("a", pa.int64()), pa.field("b", pa.string())]),
)
NEW = pa.table({"k": [7, 8], "a": [70, 80], "b": ["s", "t"], "c": [71, 81]}, schema=ROWS.schema.append(pa.field("c", pa.int64())))

Prepared = Callable[[], object]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fragments with k, a and b in a file, c in another one, d without any, and an index on a."""
    path = tmp_path_factory.mktemp("interleavings") / "base"
    ds = Dataset.write(str(path), ROWS.slice(0, 3))
    Dataset.write(str(path), ROWS.slice(3), "append")
    ds = Dataset.open(str(path)).add_columns({"c": "k * 11"}).add_columns(pa.field("d", pa.int64()))
    ds.create_scalar_index("a", "BTREE", name="of_a")
    return path


def _written(mode: Mode, rows: pa.Table, **options: Any) -> Callable[[str], Prepared]:
    """Rows that are written before, and committed after."""

    def prepare(uri: str) -> Prepared:
        target = write.begin_write(uri, rows.schema, mode, WriteOptions(**options))
        fragments = write.write_fragments(target, rows.to_batches())
        return lambda: write.commit_write(target, fragments)

    return prepare


def _replaced(uri: str) -> Prepared:
    target = write.begin_write(uri, NEW.schema, "append")
    fragments = write.write_fragments(target, NEW.to_batches())
    predicate = parse("a >= 40", Dataset.open(uri).snapshot.manifest.schema)
    return lambda: replace_where(target, predicate, fragments)


def _verb(run: Callable[[Dataset], object]) -> Callable[[str], Prepared]:
    def prepare(uri: str) -> Prepared:
        ds = Dataset.open(uri)
        return lambda: run(ds)

    return prepare


UPSERT = NEW.slice(0, 1).set_column(0, K, pa.array([2], pa.int64()))
OURS: dict[str, Callable[[str], Prepared]] = {
    "append": _written("append", NEW),
    "append k and c": _written("append", NEW.select(["k", "c"])),
    "append k": _written("append", NEW.select(["k"])),
    "append a new column": _written("append", NEW.append_column("e", pa.array([1, 2])), merge_schema=True),
    "overwrite": _written("overwrite", NEW),
    "overwrite the rows": _written("overwrite", NEW, overwrite_schema=False),
    "overwrite with a new column": _written("overwrite", NEW.append_column("e", pa.array([1, 2])), merge_schema=True),
    "replace where": _replaced,
    "delete": _verb(lambda ds: ds.delete("c > 33")),
    "delete by a": _verb(lambda ds: ds.delete("a = 20")),
    "delete all": _verb(lambda ds: ds.delete("true")),
    "update": _verb(lambda ds: ds.update({"b": "'new'"}, where="c = 22")),
    "update c": _verb(lambda ds: ds.update({"c": "c + 1"})),
    "update d": _verb(lambda ds: ds.update({"d": "k"}, where="k < 3")),
    "upsert": _verb(lambda ds: ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(NEW)),
    "update by merge": _verb(lambda ds: ds.merge_insert("k").when_matched_update_all().execute(UPSERT)),
    "add a column": _verb(lambda ds: ds.add_columns({"n": "c * 2"})),
    "add a null column": _verb(lambda ds: ds.add_columns(pa.field("n", pa.int64()))),
    "rename": _verb(lambda ds: ds.alter_columns({"path": "b", "name": "bb"})),
    "drop": _verb(lambda ds: ds.drop_columns(["b"])),
    "retype": _verb(lambda ds: ds.alter_columns({"path": "c", "data_type": pa.int32()})),
    "allow nulls": _verb(lambda ds: ds.alter_columns({"path": "k", "nullable": True})),
    "forbid nulls": _verb(lambda ds: ds.alter_columns({"path": "c", "nullable": False})),
    "key": _verb(lambda ds: alter.set_primary_key(ds.snapshot, ["k"])),
    "metadata": _verb(lambda ds: alter.update_field_metadata(ds.snapshot, {"c": {"ours": "1"}})),
    "config": _verb(lambda ds: ds.update_config({"x": "1"})),
    "compact": _verb(lambda ds: ds.optimize.compact_files()),
    "index": _verb(lambda ds: ds.create_scalar_index("c", "BTREE", name="of_c")),
    "index of nothing": _verb(lambda ds: ds.create_scalar_index("d", "BTREE", name="of_d")),
    "optimize indexes": _verb(lambda ds: ds.optimize.optimize_indices(retrain=True)),
    "restore": _verb(lambda ds: ds.checkout_version(2).restore()),
}

Change = tuple[Callable[[Dataset], object], Callable[[lance.LanceDataset], object]]


def _metadata(**values: str) -> Callable[[lance.LanceDataset], object]:
    """Metadata of the column c (or k) by pylance."""

    def run(ds: lance.LanceDataset) -> object:
        (i,) = (f.id() for f in ds.lance_schema.fields() if f.name() == ("k" if PRIMARY_KEY_POSITION.decode() in values else "c"))
        operation = LanceOperation.UpdateConfig(field_metadata_updates={i: LanceOperation.UpdateMap(values)})
        return lance.LanceDataset.commit(ds.uri, operation, read_version=ds.version)

    return run


def _both(run: Callable[[Any], object]) -> Change:
    return run, run


def _dropped_and_added(old: str, new: str, **values: str) -> Change:
    def run(ds: Any) -> object:
        ds = ds.drop_columns([old]) or ds
        return ds.add_columns(values or pa.field(new, pa.int64()))

    return _both(run)


THEIRS: dict[str, Change] = {
    "rename c": _both(lambda ds: ds.alter_columns({"path": "c", "name": "cc"})),
    "rename a": _both(lambda ds: ds.alter_columns({"path": "a", "name": "aa"})),
    "drop c": _both(lambda ds: ds.drop_columns(["c"])),
    "drop a": _both(lambda ds: ds.drop_columns(["a"])),
    "drop d, add e": _dropped_and_added("d", "e"),
    "drop d, add d": _dropped_and_added("d", "d", d="k * 100"),
    "drop c, add c": _dropped_and_added("c", "c"),
    "drop c and d, add c": _both(lambda ds: (ds.drop_columns(["c", "d"]) or ds).add_columns({"c": "k * 100"})),
    "retype c": _both(lambda ds: ds.alter_columns({"path": "c", "data_type": pa.int32()})),
    "retype and rename d": _both(lambda ds: ds.alter_columns({"path": "d", "data_type": pa.int32(), "name": "dd"})),
    "forbid nulls": _both(lambda ds: ds.alter_columns({"path": "b", "nullable": False})),
    "allow nulls": _both(lambda ds: ds.alter_columns({"path": "k", "nullable": True})),
    "key": (lambda ds: alter.set_primary_key(ds.snapshot, ["k"]), _metadata(**{PRIMARY_KEY_POSITION.decode(): "1"})),
    "metadata": (lambda ds: alter.update_field_metadata(ds.snapshot, {"c": {"theirs": "1"}}), _metadata(theirs="1")),
    "add a column": _both(lambda ds: ds.add_columns({"m": "k + 1"})),
    "add a null column": _both(lambda ds: ds.add_columns(pa.field("m", pa.int64()))),
    "overwrite": (
        lambda ds: Dataset.write(ds.uri, ROWS.slice(0, 2), "overwrite"),
        lambda ds: lance.write_dataset(ROWS.slice(0, 2), ds.uri, mode="overwrite"),
    ),
    "restore": (lambda ds: ds.checkout_version(2).restore(), lambda ds: ds.checkout_version(2).restore()),
}
WRITERS = ("ours", "pylance")


def change(uri: str, theirs: str, writer: str) -> None:
    """Make the change of the schema."""
    opened: Any = Dataset.open(uri) if writer == "ours" else lance.dataset(uri)
    THEIRS[theirs][WRITERS.index(writer)](opened)


def state(uri: str) -> object:
    """The columns with their metadata, the rows, the indexes with their columns, and the config."""
    ds = Dataset.open(uri)
    manifest = ds.snapshot.manifest
    names = {path[-1].id: ".".join(f.name for f in path) for path in manifest.schema.paths()}
    columns = [(f.name, str(f.type), f.nullable, sorted((f.metadata or {}).items())) for f in ds.schema]
    rows = sorted(map(repr, ds.scan().to_table().to_pylist()))
    indexes = {(i.name, *(names.get(f) for f in i.fields)) for i in manifest.indexes}
    return columns, rows, indexes, dict(manifest.config)


def serial(place: Path, base: Path, *steps: Callable[[str], object]) -> object:
    """The state after these changes, one after the other; None if one is refused."""
    shutil.copytree(base, place)
    try:
        for step in steps:
            step(str(place))
    except (LanceError, OSError, ValueError):
        return None
    return state(str(place))


def check_whole(uri: str) -> None:
    """Both readers find the same rows, with and without indexes, nothing is damaged, and pylance can go on."""
    ds, theirs = Dataset.open(uri), lance.dataset(uri)
    theirs.validate()
    assert ds.verify().problems == ()
    assert sorted(map(repr, ds.scan().to_table().to_pylist())) == sorted(map(repr, theirs.to_table().to_pylist()))
    for field in ds.schema:
        if pa.types.is_integer(field.type):
            for condition in (f"{field.name} >= 40", f"{field.name} = 20", f"{field.name} IS NULL"):
                expected = ds.scan(filter=condition, use_scalar_index=False).count_rows()
                assert ds.scan(filter=condition).count_rows() == expected, condition
                assert theirs.count_rows(condition) == expected, condition
    first = ds.schema.names[0]
    theirs.delete(f"{first} = -1")
    theirs.optimize.optimize_indices()


CASES = [(ours, theirs, writer) for ours in OURS for theirs in THEIRS for writer in WRITERS]
ALWAYS = [
    ("append", "retype c", "pylance"),
    ("append", "drop c, add c", "pylance"),
    ("index", "drop c and d, add c", "pylance"),
    ("index", "drop c", "ours"),
    ("index", "retype c", "pylance"),
    ("rename", "key", "pylance"),
    ("rename", "metadata", "ours"),
    ("overwrite the rows", "rename c", "ours"),
    ("overwrite the rows", "key", "pylance"),
    ("replace where", "retype c", "ours"),
    ("append a new column", "key", "ours"),
    *random.Random(0).sample(CASES, 14),
]


def check(base: Path, tmp_path: Path, ours: str, theirs: str, writer: str) -> None:
    place = tmp_path / "both"
    shutil.copytree(base, place)
    commit = OURS[ours](str(place))
    change(str(place), theirs, writer)
    alone = state(str(place))
    try:
        commit()
    except LanceError:
        assert state(str(place)) == alone
    else:
        first: Callable[[str], object] = lambda uri: OURS[ours](uri)()  # noqa: E731
        second: Callable[[str], object] = lambda uri: change(uri, theirs, writer)  # noqa: E731
        orders = [serial(tmp_path / "a", base, first, second), serial(tmp_path / "b", base, second, first)]
        assert state(str(place)) in [order for order in orders if order is not None]
    check_whole(str(place))


@pytest.mark.parametrize(("ours", "theirs", "writer"), others_slow(CASES, ALWAYS))
def test_a_change_after_one_of_the_schema(base: Path, tmp_path: Path, ours: str, theirs: str, writer: str) -> None:
    check(base, tmp_path, ours, theirs, writer)
