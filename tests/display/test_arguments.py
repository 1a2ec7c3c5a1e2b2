"""Arguments with other names and with mistakes, and what verbs of `Dataset` tell of their rows."""

from __future__ import annotations

import inspect
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset, LanceTable
from lance_spark.cli.main import main
from lance_spark.display.arguments import known_arguments, other_names
from lance_spark.loaders import Batches
from lance_spark.table.versions.history import HistoryEntry

ROWS = pa.table({"id": [1, 2, 3, 4], "v": [0.5, 1.5, 2.5, 3.5]})


@pytest.fixture
def table(tmp_path: Path) -> Dataset:
    return Dataset.write(tmp_path / "t", ROWS, enable_stable_row_ids=True)


LOADER: Any = Batches  # of whose arguments no checker of types complains
TYPOS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "class method": (lambda t: type(t).open(t.uri, verion=1), r"Dataset\.open\(\) has no argument 'verion'; did you mean 'version'\?"),
    "verb": (lambda t: t.delete(predicte="id = 1"), r"delete\(\) has no argument 'predicte'; did you mean 'predicate'\?"),
    "other name": (lambda t: t.delete(conditon="id = 1"), r"did you mean 'condition'\?"),
    "scan": (lambda t: t.scan(filer="id = 1"), r"scan\(\) has no argument 'filer'; did you mean 'filter'\?"),
    "handed on": (lambda t: t.to_table(colums=["id"]), r"scan\(\) has no argument 'colums'; did you mean 'columns'\?"),
    "nothing alike": (lambda t: t.history(zzz=1), r"history\(\) has no argument 'zzz'; it has limit$"),
    "no arguments": (lambda t: t.versions(zzz=1), r"versions\(\) has no argument 'zzz'; it has none$"),
    "tags": (lambda t: t.tags.create("a", refernce=1), r"create\(\) has no argument 'refernce'; did you mean 'reference'\?"),
    "branches": (lambda t: t.branches.merge("b", on_conflit="ours"), r"no argument 'on_conflit'; did you mean 'on_conflict'\?"),
    "maintenance": (
        lambda t: t.optimize.compact_files(target_row_per_fragment=1),
        r"compact_files\(\) has no argument .*did you mean 'target_rows_per_fragment'\?",
    ),
    "merge": (lambda t: t.merge_insert("id").when_matched_update_all(conditon="v > 1"), r"did you mean 'condition'\?"),
    "merged rows": (lambda t: t.merge_insert("id").execute(dta=ROWS), r"execute\(\) has no argument 'dta'; did you mean"),
    "settings of a log": (
        lambda t: t.initialize_mem_wal(max_memtable_rws=1),
        r"'max_memtable_rws' of a writer of the log; did you mean 'max_memtable_rows'\?",
    ),
    "dataset of pyarrow": (lambda t: t.to_arrow_dataset().to_table(colums=["id"]), r"'colums'; did you mean 'columns'\?"),
    "constructor": (lambda t: LOADER(t, batchsize=3), r"'batchsize'; did you mean 'batch_size'\?"),
}


@pytest.mark.parametrize("name", TYPOS)
def test_a_mistyped_argument_is_told(table: Dataset, name: str) -> None:
    call, message = TYPOS[name]
    with pytest.raises(TypeError, match=message):
        call(table)
    assert Dataset.open(table.uri).version == 1


OTHER_NAMES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "delete": (lambda t: t.delete(predicate="id = 1"), lambda t: t.delete(condition="id = 1")),
    "update": (lambda t: t.update(updates={"v": "9"}, where="id = 1"), lambda t: t.update(set={"v": "9"}, condition="id = 1")),
    "create_branch": (lambda t: t.create_branch(branch="b", reference=1), lambda t: t.create_branch(name="b", version=1)),
    "shallow_clone": (
        lambda t: t.shallow_clone(target_path=f"{t.uri}-clone", reference=1),
        lambda t: t.shallow_clone(path=f"{t.uri}-clone", version=1),
    ),
    "deep_clone": (
        lambda t: t.deep_clone(target_path=f"{t.uri}-clone", reference=1),
        lambda t: t.deep_clone(path=f"{t.uri}-clone", version=1),
    ),
    "create_scalar_index": (
        lambda t: t.create_scalar_index("id", index_type="BTREE"),
        lambda t: t.create_scalar_index("id", kind="BTREE"),
    ),
}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_arguments_have_the_names_of_both_doors(tmp_path: Path, name: str) -> None:
    found = []
    for number, call in enumerate(OTHER_NAMES[name]):
        changed = call(Dataset.write(tmp_path / str(number), ROWS))
        found.append((changed.version, changed.to_table().to_pydict(), [index["type"] for index in changed.list_indices()]))
    assert found[0] == found[1]


def test_one_argument_is_not_given_twice(table: Dataset) -> None:
    with pytest.raises(TypeError, match="one argument with the names 'condition' and 'predicate'"):
        table.delete(predicate="id = 1", condition="id = 1")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="multiple values for argument 'predicate'"):
        table.delete("id = 1", condition="id = 1")  # type: ignore[call-arg]


def test_methods_keep_their_signatures_and_kinds() -> None:
    @known_arguments
    class Door:
        def __init__(self, place: int = 0) -> None:
            self.place = place

        @classmethod
        def made(cls, place: int) -> Door:
            return cls(place)

        @staticmethod
        def double(number: int) -> int:
            return 2 * number

        @other_names(amount="number")
        def add(self, number: int, **more: int) -> int:
            """Add."""
            return self.place + number + sum(more.values())

    assert (Door.made(place=3).place, Door.double(number=2), Door(2).add(amount=3, other=4)) == (3, 4, 9)  # type: ignore[call-arg]
    assert str(inspect.signature(Door.add)) == "(self, number: 'int', **more: 'int') -> 'int'"
    assert Door.add.__doc__ == "Add."


CHANGES: dict[str, tuple[Callable[[Dataset], Dataset], tuple[int, int, int]]] = {
    "write": (lambda t: Dataset.write(t.uri, ROWS, mode="append"), (4, 0, 0)),
    "insert": (lambda t: t.insert(ROWS.slice(1)), (3, 0, 0)),
    "delete": (lambda t: t.delete("id > 2"), (0, 0, 2)),
    "delete none": (lambda t: t.delete("id > 9"), (0, 0, 0)),
    "delete all": (lambda t: t.delete("true"), (0, 0, 4)),
    "update": (lambda t: t.update({"v": "0.0"}, "id < 4"), (0, 3, 0)),
    "merge": (
        lambda t: (
            t.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(pa.table({"id": [4, 5], "v": [0.0, 1]}))
        ),
        (1, 1, 0),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_dataset_tells_what_its_verb_has_changed(table: Dataset, name: str) -> None:
    verb, rows = CHANGES[name]
    changed = verb(table)
    told = changed.last_change
    assert told is not None
    assert (told.version, told.num_inserted_rows, told.num_updated_rows, told.num_deleted_rows) == (changed.version, *rows)
    assert pickle.loads(pickle.dumps(changed)).last_change == told
    assert Dataset.open(table.uri).last_change is None
    assert changed.drop_columns(["v"]).last_change is None


def _arguments(cls: type) -> dict[str, tuple[set[str], dict[str, str]]]:
    """For each public method, by its name in snake_case: the arguments in snake_case, and other names of them."""
    found = {}
    for name, member in vars(cls).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if not name.startswith("_") and inspect.isroutine(function):
            function = inspect.unwrap(function)
            others = getattr(function, "_other_names", {})
            own = {_snake(argument) for argument in inspect.signature(function).parameters} - {"self", "cls", "noted"}
            found[_snake(name)] = own, {_snake(other): _snake(argument) for other, argument in others.items()}
    return found


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda letter: f"_{letter[1].lower()}", name)


ONE_DOOR = {
    ("add_columns", "checkpoint", "a function that a job of Spark computes goes on after a stop"),
    ("add_columns", "on", "values may come from a DataFrame"),
    ("add_columns", "schema", "the tasks of a function need the types before it runs"),
    ("add_columns", "values", "values may come from a DataFrame"),
    ("changes", "blob_handling", "a DataFrame has the bytes of blobs"),
    ("deep_clone", "progress", "Spark shows the progress of its jobs"),
    ("deep_clone", "storage_options", "the session has them"),
    ("shallow_clone", "storage_options", "the session has them"),
    ("verify", "progress", "Spark shows the progress of its jobs"),
}
"""Arguments that only `Dataset` or only `LanceTable` has, and why."""


def test_verbs_of_both_doors_have_the_same_arguments() -> None:
    doors = [_arguments(Dataset), _arguments(LanceTable)]
    only_one = set()
    for here, there in (doors, doors[::-1]):
        for verb in here.keys() & there.keys():
            own, theirs = here[verb][0], there[verb][0] | there[verb][1].keys()
            only_one |= {(verb, argument) for argument in own - theirs}
    assert len(doors[0].keys() & doors[1].keys()) > 12
    assert only_one == {(verb, argument) for verb, argument, _ in ONE_DOOR}


TYPED = [
    (cls, name, argument)
    for cls in (Dataset, LanceTable, Batches)
    for name, member in vars(cls).items()
    if not name.startswith("_") or name == "__init__"
    for function in [inspect.unwrap(member.__func__ if isinstance(member, classmethod | staticmethod) else member)]
    if inspect.isfunction(function)
    for argument, about in inspect.signature(function).parameters.items()
    if about.kind in (about.POSITIONAL_OR_KEYWORD, about.KEYWORD_ONLY) and argument not in ("self", "cls") and len(argument) > 2
    if all(each.kind != each.VAR_KEYWORD for each in inspect.signature(function).parameters.values())
]
"""Every argument of every public method that names all of its arguments."""


def test_each_argument_that_is_mistyped_is_told() -> None:
    wrong = []
    for cls, name, argument in TYPED:
        mistyped = argument[:-2] + argument[-1] + argument[-2] if argument[-1] != argument[-2] else argument[:-1]
        taken = vars(cls)[name]
        call = getattr(cls, name) if isinstance(taken, classmethod | staticmethod) else taken.__get__(object.__new__(cls))
        try:
            call(**{mistyped: None})
        except TypeError as e:
            if not re.search(rf"has no argument {mistyped!r}; did you mean '\w+'\?", str(e)):
                wrong.append((cls.__name__, name, mistyped, str(e)))
        else:
            wrong.append((cls.__name__, name, mistyped, "no error"))
    assert not wrong
    assert len(TYPED) > 100


def test_histories_have_the_same_names(table: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = table.history()
    assert isinstance(entry, HistoryEntry)
    names = ["version", "timestamp", "operation", "message", "properties"]
    assert {*names, "rows"} == set(vars(entry))
    assert table.metadata_table("history").column_names[:5] == names
    assert main(["history", table.uri, "--json"]) == 0
    (printed,) = json.loads(capsys.readouterr().out)
    assert {*names} <= {*printed}


def test_objects_have_short_texts(table: Dataset) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8, dtype=np.float32)), 2)
    near = Dataset.write(f"{table.uri}-vectors", pa.table({"id": range(4), "v": vectors}))
    rows = table.to_arrow_dataset()
    texts = {
        repr(table): f"Dataset({table.uri!r}, version=1)",
        repr(table.scan(["id"], "id > 1")): f"Scan({table.uri!r}, version=1, columns=['id'], filter='id > 1')",
        repr(table.changes(0, filter="id > 1")): f"Changes({table.uri!r}, begin=0, end=1, filter='id > 1')",
        repr(near.scan(nearest={"column": "v", "q": [0.0, 0.0]})): f"Search({near.uri!r}, version=1)",
        repr(rows): f"ArrowDataset(Dataset({table.uri!r}, version=1))",
        repr(rows.scanner(["id"])): f"ArrowScanner(Scan({table.uri!r}, version=1, columns=['`id`']))",
        repr(Batches(table)): f"Batches(Dataset({table.uri!r}, version=1), rows=4, batch_size=256, shuffle=False, epoch=0)",
    }
    assert list(texts) == list(texts.values())
