"""A process that is killed while it changes a namespace: the change is made or not, no row is lost, and it can be made again."""

from __future__ import annotations

import contextlib
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace, ListTablesRequest

import lance_spark
from lance_spark import Dataset
from lance_spark.errors import TableAlreadyExistsError, TableNotFoundError
from tests import programs
from tests.sample import FULL, TURNS, by_turns
from tests.table.crash import OF_NAMESPACES

ROWS = pa.table({"a": [1, 2, 3]})
IDS = (["t"], ["new"], ["ns", "t"], ["ns", "new"], ["other"])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A namespace with tables at its root and in `ns`, and a folder with a table that has no id."""
    root = str(tmp_path_factory.mktemp("namespace") / "template")
    own = lance_spark.namespace(root)
    own.create_namespace(["ns"])
    for id in (["t"], ["ns", "t"], ["other"]):
        Dataset.write(own.declare_table(id).location, ROWS)
    Dataset.write(f"{root}/moved.lance", ROWS)
    own.deregister_table(["moved"])
    return root


def killed(name: str, template: str, tmp_path: Path, turn: int) -> list[str]:
    """The namespaces that killed processes left, and finally that of the process that survived."""
    number = int(programs.run("tests.table.crash", name, template, str(tmp_path), str(TURNS), str(turn + 1)))
    assert turn + 1 + TURNS * number > 5
    return [str(tmp_path / str(turn + 1 + TURNS * n)) for n in range(number + 1)]


def state(root: str) -> dict[str, object]:
    """For each id the number of rows, "declared", or None if there is no such table; both libraries list the same tables."""
    own, found = lance_spark.namespace(root), {}
    for id in IDS:
        try:
            described = own.describe_table(id)
            found[".".join(id)] = "declared" if described.is_only_declared else lance.dataset(described.location).count_rows()
        except TableNotFoundError:
            found[".".join(id)] = None
    theirs = DirectoryNamespace(root=root)
    for id in ([], ["ns"]):
        assert sorted(theirs.list_tables(ListTablesRequest(id=id)).tables) == own.list_tables(id)
    return found


def again(name: str, root: str) -> None:
    """Make the change once more; one that was made is an error."""
    with contextlib.suppress(TableAlreadyExistsError, TableNotFoundError):
        OF_NAMESPACES[name](root)


@pytest.mark.parametrize(("name", "turn"), by_turns(OF_NAMESPACES if FULL else ["declare_table", "rename_listed_table"]))
def test_a_killed_change_of_a_namespace_is_made_or_not(name: str, turn: int, template: str, tmp_path: Path) -> None:
    before, roots = state(template), killed(name, template, tmp_path, turn)
    after = state(roots[-1])
    assert before != after
    for root in roots:
        assert state(root) in (before, after), root
        again(name, root)
        assert state(root) == after, root
