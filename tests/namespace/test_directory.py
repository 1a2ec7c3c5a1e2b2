"""Directory namespaces: what they refuse, what another writer does at the same time, and what manifests of others may hold."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_namespace import LanceNamespaceError

import lance_spark
from lance_spark.errors import (
    CorruptFileError,
    InvalidOperationError,
    InvalidOptionError,
    LanceError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.directory import DirectoryNamespace
from lance_spark.namespace.manifest_table import SCHEMA, open_manifest
from lance_spark.namespace.protocol import Namespace
from lance_spark.storage.store import Store
from tests.namespace.sides import ROWS, Ours, Theirs, seen
from tests.sample import TURNS, by_turns
from tests.table.interleaving import InterruptedFiles, InterruptedStore, interrupted_everywhere


@pytest.fixture
def lake(tmp_path: Path) -> Namespace:
    """An empty namespace."""
    return lance_spark.namespace(tmp_path / "lake")


def root_of(namespace: Namespace) -> Path:
    """The folder of a directory namespace."""
    assert isinstance(namespace, DirectoryNamespace)
    return Path(namespace.root.uri)


def put_rows(namespace: Namespace, **columns: list[object]) -> None:
    """Write a `__manifest` as another writer might."""
    rows = pa.table({f.name: pa.array(columns.get(f.name, [None] * len(columns["object_id"])), f.type) for f in SCHEMA})
    lance.write_dataset(rows, root_of(namespace) / "__manifest")


def test_looking_at_an_empty_folder_writes_nothing(lake: Namespace) -> None:
    assert (lake.list_namespaces(), lake.list_tables(), lake.describe_namespace()) == ([], [], {})
    with pytest.raises(NamespaceNotFoundError):
        lake.list_tables(["a"])
    with pytest.raises(TableNotFoundError):
        lake.drop_table(["t"])
    assert not root_of(lake).exists()


def test_a_table_is_written_opened_and_dropped(lake: Namespace) -> None:
    lake.create_namespace(["shop"], {"owner": "us"})
    assert lake.write(["shop", "orders"], ROWS).count_rows() == 2
    assert lake.write(["shop", "orders"], ROWS, "append", commit_message="more").version == 2
    assert lake.open(["shop", "orders"], version=1).count_rows() == 2
    assert lake.write(["shop", "orders"], ROWS, "overwrite").count_rows() == 2
    with pytest.raises(TableAlreadyExistsError):
        lake.write(["shop", "orders"], ROWS)
    assert (lake.list_tables(["shop"]), lake.describe_namespace(["shop"])) == (["orders"], {"owner": "us"})
    lake.drop_table(["shop", "orders"])
    assert [p.name for p in root_of(lake).iterdir()] == ["__manifest"]


def test_a_declared_table_is_written_later(lake: Namespace) -> None:
    declared = lake.declare_table(["t"])
    assert lake.describe_table(["t"]) == declared
    assert declared.is_only_declared
    with pytest.raises(TableNotFoundError):
        lake.open(["t"])
    lake.write(["t"], ROWS)
    assert not lake.describe_table(["t"]).is_only_declared


@pytest.mark.parametrize("name", ["", "a$b", "a/b", "/", "a\0b", "\udcff"])
def test_names_that_no_id_can_hold_are_refused(lake: Namespace, name: str) -> None:
    for call in (lake.create_namespace, lake.declare_table, lake.drop_table, lake.list_tables, lake.describe_table):
        with pytest.raises(InvalidOptionError, match="invalid name"):
            call(["a", name])
    assert not root_of(lake).exists()


@pytest.mark.parametrize("name", ["..", ".", "a b", "é", "x%20y", "a:b", "a?b", "a\\b", "_versions", "__manifest", "x.lance", "漢字"])
def test_other_names_are_held_and_stay_below_the_root(lake: Namespace, name: str) -> None:
    lake.create_namespace(["n"])
    for id in ([name], ["n", name]):
        lake.write(id, ROWS)
        assert lake.open(id).count_rows() == 2
        assert root_of(lake) in Path(lake.describe_table(id).location).parents
    assert (lake.list_tables(), lake.list_tables(["n"])) == ([name], [name])
    lake.drop_table([name])
    assert lake.list_tables() == []


def test_text_is_no_id(lake: Namespace) -> None:
    with pytest.raises(TypeError, match="sequence of names"):
        lake.list_tables("abc")


def test_namespaces_are_created_in_existing_ones_and_dropped_when_they_are_empty(lake: Namespace) -> None:
    with pytest.raises(NamespaceNotFoundError):
        lake.create_namespace(["a", "b"])
    lake.create_namespace(["a"])
    lake.create_namespace(["a", "b"])
    for id in ([], ["a"]):
        with pytest.raises(NamespaceAlreadyExistsError):
            lake.create_namespace(id)
    with pytest.raises(NamespaceNotEmptyError, match="1 namespaces and tables"):
        lake.drop_namespace(["a"])
    with pytest.raises(InvalidOptionError, match="root"):
        lake.drop_namespace([])
    with pytest.raises(NamespaceNotFoundError):
        lake.drop_namespace(["b"])
    lake.drop_namespace(["a", "b"])
    lake.drop_namespace(["a"])
    assert lake.list_namespaces() == []


def test_errors_have_the_codes_of_the_specification(lake: Namespace) -> None:
    lake.create_namespace(["a"])
    lake.declare_table(["a", "t"])
    calls: dict[int, Callable[[], object]] = {
        1: lambda: lake.declare_table(["b", "t"]),
        2: lambda: lake.create_namespace(["a"]),
        3: lambda: lake.drop_namespace(["a"]),
        4: lambda: lake.drop_table(["b"]),
        5: lambda: lake.declare_table(["a", "t"]),
        13: lambda: lake.register_table(["t"], "../x"),
    }
    for code, call in calls.items():
        with pytest.raises(LanceError) as raised:
            call()
        assert raised.value.code == code


def test_without_a_manifest_there_are_no_child_namespaces(tmp_path: Path) -> None:
    lake = lance_spark.namespace(tmp_path, manifest_enabled=False)
    lake.write(["t"], ROWS)
    assert (lake.list_tables(), lake.list_namespaces()) == (["t"], [])
    for call in (lake.create_namespace, lake.list_tables):
        with pytest.raises(UnsupportedFeatureError, match="__manifest"):
            call(["a"])
    with pytest.raises(UnsupportedFeatureError, match="__manifest"):
        lake.register_table(["b"], "t.lance")
    assert not (tmp_path / "__manifest").exists()


def test_a_deregistered_table_keeps_its_files_and_can_be_registered_again(lake: Namespace) -> None:
    lake.create_namespace(["n"])
    lake.write(["t"], ROWS)
    lake.write(["n", "t"], ROWS)
    for id in (["t"], ["n", "t"]):
        place = Path(lake.describe_table(id).location)
        lake.deregister_table(id)
        assert lake.list_tables(id[:-1]) == []
        with pytest.raises(TableNotFoundError):
            lake.deregister_table(id)
        lake.register_table(id, place.name)
        assert lake.open(id).count_rows() == 2


@pytest.mark.parametrize(
    "location", ["", ".", "..", "../x", "a/../../x", "/tmp/x", "s3://bucket/x", "a//b", "./a", "__manifest", "__manifest/data"]
)
def test_locations_that_leave_the_root_are_refused(lake: Namespace, location: str) -> None:
    with pytest.raises(InvalidOptionError, match="relative to the root"):
        lake.register_table(["t"], location)


@pytest.mark.parametrize("location", ["", ".", "..", "../outside.lance", "/etc", "__manifest", "file:///etc", "a\0b", None])
def test_locations_of_others_that_leave_the_root_are_an_error_and_nothing_is_deleted(lake: Namespace, location: str | None) -> None:
    outside = root_of(lake).parent / "outside.lance"
    lance.write_dataset(ROWS, outside)
    put_rows(lake, object_id=["n", "n$t"], object_type=["namespace", "table"], location=[None, location])
    before = sorted(root_of(lake).parent.rglob("*"))
    assert lake.list_tables(["n"]) == ["t"]
    for call in (lake.describe_table, lake.open, lake.drop_table):
        with pytest.raises(CorruptFileError, match="not a folder below the root"):
            call(["n", "t"])
    assert sorted(root_of(lake).parent.rglob("*")) == before
    lake.deregister_table(["n", "t"])
    assert lake.list_tables(["n"]) == []


def test_symbolic_links_are_no_tables(lake: Namespace) -> None:
    outside = root_of(lake).parent / "outside.lance"
    lance.write_dataset(ROWS, outside)
    put_rows(lake, object_id=["n", "n$t"], object_type=["namespace", "table"], location=[None, "link.lance"])
    (root_of(lake) / "link.lance").symlink_to(outside)
    assert lake.list_tables() == []
    for id in (["link"], ["n", "t"]):
        with pytest.raises(CorruptFileError, match="symbolic link"):
            lake.open(id)
        with pytest.raises(CorruptFileError, match="symbolic link"):
            lake.write(id, ROWS, "append")
    lake.drop_table(["n", "t"])
    assert lance.dataset(outside).count_rows() == 2


@pytest.mark.parametrize(
    "metadata", ["", "x", "[]", "1", '{"a": 1}', '{"a": null}', "[" * 100_000, '{"a":' * 100_000, "nul", '{"a": "b"', '"' + "x" * 1000]
)
def test_metadata_of_others_that_is_no_map_of_strings_is_an_error(lake: Namespace, metadata: str) -> None:
    put_rows(lake, object_id=["n"], object_type=["namespace"], metadata=[metadata])
    with pytest.raises(CorruptFileError, match="not a JSON object of strings"):
        lake.describe_namespace(["n"])
    assert lake.list_namespaces() == ["n"]


def test_ids_of_others_that_are_nonsense_are_passed_over(lake: Namespace) -> None:
    ids: list[object] = ["", "$", "$$", "a$", "$a", "ok", "x$y$z"]
    put_rows(lake, object_id=ids, object_type=["namespace"] * len(ids))
    assert lake.list_namespaces() == ["ok"]
    lake.create_namespace(["ok", "b"])
    lake.drop_namespace(["ok", "b"])


def test_rows_of_other_types_are_kept(lake: Namespace) -> None:
    put_rows(lake, object_id=["t", "t$00001"], object_type=["table", "table_version"], location=["t.lance", None])
    lake.create_namespace(["a"])
    assert isinstance(lake, DirectoryNamespace)
    assert "table_version" in open_manifest(lake.root).rows["object_type"].to_pylist()


def test_duplicated_ids_of_others_are_an_error(lake: Namespace) -> None:
    put_rows(lake, object_id=["a", "a"], object_type=["namespace", "namespace"])
    for call in (lake.list_namespaces, lambda: lake.create_namespace(["b"])):
        with pytest.raises(CorruptFileError, match="'a' is duplicated"):
            call()


def test_a_manifest_without_optional_columns_can_be_used(lake: Namespace) -> None:
    lance.write_dataset(pa.table({"object_id": ["a"], "object_type": ["namespace"]}), root_of(lake) / "__manifest")
    lake.write(["a", "t"], ROWS)
    assert lake.open(["a", "t"]).count_rows() == 2


def test_a_table_in_a_folder_that_others_use_is_not_dropped(lake: Namespace) -> None:
    lake.create_namespace(["n"])
    lake.write(["n", "t"], ROWS)
    folder = Path(lake.describe_table(["n", "t"]).location).name
    for other in (folder, f"{folder}/data", f"{folder}/"):
        lake.register_table(["n", "other"], other)
        for name in ("t", "other"):
            with pytest.raises(InvalidOperationError, match="deregister this one instead"):
                lake.drop_table(["n", name])
        lake.deregister_table(["n", "other"])
    lake.drop_table(["n", "t"])


def test_eight_writers_that_create_and_drop_lose_nothing(lake: Namespace) -> None:
    lake.create_namespace(["n"])
    errors: list[BaseException] = []
    won: list[str] = []

    def work(number: int) -> None:
        try:
            for i in range(3):
                lake.write(["n", f"{number}-{i}"], ROWS)
                lake.create_namespace([f"{number}-{i}"])
            lake.drop_table(["n", f"{number}-0"])
            lake.drop_namespace([f"{number}-0"])
            try:
                lake.declare_table(["n", "wanted by all"])
                won.append(str(number))
            except TableAlreadyExistsError:
                pass
        except BaseException as e:
            errors.append(e)
            raise

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(won) == 1
    kept = sorted(f"{n}-{i}" for n in range(8) for i in (1, 2))
    assert lake.list_tables(["n"]) == [*kept, "wanted by all"]
    assert lake.list_namespaces() == [*kept, "n"]
    assert all(lake.open(["n", name]).count_rows() == 2 for name in kept)
    assert len([p for p in root_of(lake).iterdir() if p.name != "__manifest"]) == 17, "no folder of a lost race is left"


def test_whenever_another_writer_takes_the_id_there_is_one_table_of_it(tmp_path: Path) -> None:
    roots = (tmp_path / str(i) for i in itertools.count())
    now = next(roots)

    def prepare() -> None:
        nonlocal now
        now = next(roots)
        lance_spark.namespace(now).create_namespace(["n"])

    def run(store: Callable[[str], Store]) -> None:
        with contextlib.suppress(TableAlreadyExistsError):
            DirectoryNamespace(store(str(now))).declare_table(["n", "t"])
        assert lance_spark.namespace(now).list_tables(["n"]) == ["t"]
        assert len([p for p in now.iterdir() if p.name != "__manifest"]) == 1, "no folder of a lost race is left"

    def take() -> None:
        with contextlib.suppress(TableAlreadyExistsError):
            lance_spark.namespace(now).declare_table(["n", "t"])

    assert sum(1 for _ in interrupted_everywhere(run, prepare, take)) > 10


class Dead(BaseException):
    """The process was killed."""


def die() -> None:
    raise Dead


STEPS: dict[str, Callable[[Namespace], object]] = {
    "declare": lambda lake: lake.declare_table(["n", "new"]),
    "drop": lambda lake: lake.drop_table(["old"]),
    "deregister": lambda lake: lake.deregister_table(["old"]),
}


@pytest.mark.parametrize(("step", "turn"), by_turns(STEPS))
def test_an_operation_that_is_killed_at_any_call_of_the_store_can_be_run_again(tmp_path: Path, step: str, turn: int) -> None:
    for at in itertools.count(turn + 1, TURNS):
        lake = lance_spark.namespace(tmp_path / str(at))
        lake.create_namespace(["n"])
        lake.write(["old"], ROWS)
        files, ended = InterruptedFiles(at, die), False
        with contextlib.suppress(Dead):
            STEPS[step](DirectoryNamespace(InterruptedStore(str(tmp_path / str(at)), files)))
            ended = True
        theirs = seen(Theirs(str(tmp_path / str(at))))
        assert theirs.keys() == seen(Ours(str(tmp_path / str(at)))).keys()
        with contextlib.suppress(TableNotFoundError, TableAlreadyExistsError):
            STEPS[step](lake)
        assert (lake.list_tables(), lake.list_tables(["n"])) == ((["old"], ["new"]) if step == "declare" else ([], []))
        if ended:
            assert at > 10
            return


def test_a_namespace_can_be_pickled(lake: Namespace) -> None:
    lake.write(["t"], ROWS)
    assert pickle.loads(pickle.dumps(lake)).open(["t"]).count_rows() == 2


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"manifest_enable": True}, "did you mean 'manifest_enabled'"),
        ({"manifest_enabled": "perhaps"}, "takes true or false"),
        ({"manifest_enabled": False, "dir_listing_enabled": False}, "enable at least one"),
        ({"root": "/tmp"}, "given twice"),
        ({"storage.regio": "x"}, "did you mean"),
    ],
)
def test_properties_that_make_no_sense_are_refused(tmp_path: Path, properties: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        lance_spark.namespace(tmp_path, **properties)


def test_properties_must_be_text(lake: Namespace) -> None:
    with pytest.raises(TypeError, match="'a' is 1"):
        lake.create_namespace(["n"], {"a": 1})  # type: ignore[dict-item]


def test_the_implementation_can_be_named(tmp_path: Path) -> None:
    lance_spark.namespace("dir", root=tmp_path).write(["t"], ROWS)
    assert lance_spark.namespace(str(tmp_path)).list_tables() == ["t"]


def test_the_properties_of_the_root_are_the_table_metadata(lake: Namespace) -> None:
    lake.create_namespace(["a"])
    lance.dataset(root_of(lake) / "__manifest").update_metadata({"owner": "us"})
    assert lake.describe_namespace() == {"owner": "us"}


def test_a_namespace_in_memory(tmp_path: Path) -> None:
    lake = lance_spark.namespace("memory://lake")
    lake.create_namespace(["a"])
    lake.write(["a", "t"], ROWS)
    lake.write(["t"], ROWS)
    assert (lake.list_tables(), lake.list_tables(["a"])) == (["t"], ["t"])
    lake.drop_table(["t"])
    assert lake.list_tables() == []


def test_tables_are_renamed_and_pylance_finds_them(lake: Namespace) -> None:
    lake.create_namespace(["n"])
    lake.write(["n", "t"], ROWS)
    place = lake.describe_table(["n", "t"]).location
    theirs = Theirs(str(root_of(lake)))
    for old, new in [(["n", "t"], ["n", "u"]), (["n", "u"], ["top"]), (["top"], ["other"]), (["other"], ["n", "t"])]:
        lake.rename_table(old, new)
        assert not lake.table_exists(old)
        assert (lake.open(new).count_rows(), theirs.tables(new[:-1])[new[-1]][1]) == (2, 2)
        assert (lake.describe_table(new).location == place) == (new == ["n", "u"])
    lake.write(["n", "there"], ROWS)
    with pytest.raises(TableAlreadyExistsError):
        lake.rename_table(["n", "t"], ["n", "there"])
    with pytest.raises(NamespaceNotFoundError):
        lake.rename_table(["n", "t"], ["nowhere", "t"])
    with pytest.raises(TableNotFoundError):
        lake.rename_table(["n", "missing"], ["n", "u"])
    assert lake.list_tables(["n"]) == ["t", "there"]


def test_folders_of_object_stores_are_not_moved() -> None:
    lake = lance_spark.namespace("memory://renamed")
    lake.write(["t"], ROWS)
    with pytest.raises(UnsupportedFeatureError, match="cannot be moved, since object stores only copy files"):
        lake.rename_table(["t"], ["u"])
    assert lake.open(["t"]).count_rows() == 2


@pytest.mark.parametrize("location", ["{root}/a/b", "file:{root}/a/b"])
def test_locations_below_the_root_are_registered(lake: Namespace, location: str) -> None:
    assert lake.location_to_register(location.format(root=root_of(lake))) == "a/b"
    with pytest.raises(InvalidOptionError, match="is not below the root"):
        lake.location_to_register("/elsewhere/a")


LOST: dict[str, dict[str, Any]] = {
    "a listed table": {"id": ["t"]},
    "a table in a namespace": {"id": ["n", "t"]},
    "a table that is not listed": {"id": ["t"], "dir_listing_enabled": False},
    "a row that counts first": {"id": ["t"], "dir_listing_to_manifest_migration_enabled": True},
}


@pytest.mark.parametrize("case", LOST)
def test_a_table_whose_folder_was_deleted_is_dropped_or_written_again_by_both(tmp_path: Path, case: str) -> None:
    id, properties = LOST[case]["id"], {key: value for key, value in LOST[case].items() if key != "id"}
    lake = lance_spark.namespace(tmp_path, **properties)
    theirs = Theirs(str(tmp_path), **{key: str(value).lower() for key, value in properties.items()})
    lake.create_namespace(["n"])

    def lose() -> str:
        lake.write(id, ROWS)
        location = lake.describe_table(id).location
        shutil.rmtree(location)
        assert (lake.lost_location(id), lake.table_exists(id)) == (location, case != "a listed table")
        with pytest.raises(TableNotFoundError, match=f"the files of the table .* at {re.escape(location)} are missing.* drop_table"):
            lake.open(id)
        return location

    lose()
    assert lake.write(id, ROWS).count_rows() == 2
    assert theirs.tables(id[:-1])["t"][1] == 2
    shutil.rmtree(lake.describe_table(id).location)
    theirs.create_table(id)
    assert lake.open(id).count_rows() == 2
    shutil.rmtree(lake.describe_table(id).location)
    lake.drop_table(id)
    assert lake.lost_location(id) is None
    with pytest.raises(TableNotFoundError, match=r"there is no table '(n\.)?t'$"):
        lake.drop_table(id)
    lose()
    with contextlib.suppress(LanceNamespaceError):  # the row is gone, although the folder cannot be deleted
        theirs.drop_table(id)
    assert seen(Ours(str(tmp_path), **properties)).keys() == seen(theirs).keys() == {("n",)}


def test_the_id_of_a_table_that_has_lost_its_files_changes_but_no_files_move(lake: Namespace) -> None:
    lake.create_namespace(["n"])
    lake.write(["n", "t"], ROWS)
    shutil.rmtree(lake.describe_table(["n", "t"]).location)
    lake.rename_table(["n", "t"], ["n", "u"])
    with pytest.raises(TableNotFoundError, match="are missing, although the namespace has the table, so they cannot be moved"):
        lake.rename_table(["n", "u"], ["top"])
    lake.drop_table(["n", "u"])
    assert (lake.list_tables(), lake.list_tables(["n"])) == ([], [])


def test_a_declared_table_has_lost_nothing(lake: Namespace) -> None:
    lake.declare_table(["t"])
    lake.create_namespace(["n"])
    lake.declare_table(["n", "t"])
    assert [lake.lost_location(id) for id in (["t"], ["n", "t"], ["other"], ["other", "t"])] == [None] * 4


def test_the_id_of_a_listed_table_whose_folder_was_deleted_is_free_once(lake: Namespace) -> None:
    lake.create_namespace(["n"])
    for change in (
        lambda: lake.declare_table(["t"]),
        lambda: lake.register_table(["t"], "elsewhere/t"),
        lambda: lake.rename_table(["n", "other"], ["t"]),
    ):
        lake.write(["n", "other"], ROWS)
        lake.write(["t"], ROWS)
        with pytest.raises(TableAlreadyExistsError):
            change()
        shutil.rmtree(root_of(lake) / "t.lance")
        change()
        with pytest.raises(TableAlreadyExistsError):
            lake.declare_table(["t"])
        for id in (["t"], ["n", "other"]):
            with contextlib.suppress(TableNotFoundError):
                lake.drop_table(id)
    assert seen(Theirs(str(root_of(lake)))).keys() == {("n",)}
