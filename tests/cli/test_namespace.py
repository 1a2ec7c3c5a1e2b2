"""`lance-spark namespace`: what is in a namespace, what it is, dropping and verifying it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.cli.main import main
from tests.namespace.sides import ROWS


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A namespace with three tables, one of which is only declared."""
    lake = lance_spark.namespace(tmp_path)
    lake.create_namespace(["shop"], {"owner": "us"})
    lake.write(["shop", "orders"], ROWS)
    lake.write(["t"], ROWS)
    lake.declare_table(["later"])
    return str(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code and the output of a command."""
    code = main(["namespace", *words])
    out, err = capsys.readouterr()
    return code, out + err


def test_ls_lists_one_level_or_all(capsys: pytest.CaptureFixture[str], root: str) -> None:
    assert run(capsys, root, "ls")[1].split() == ["kind", "id", "table", "later", "table", "t", "namespace", "shop"]
    assert "shop.orders" in run(capsys, root, "ls", "-r")[1]
    assert json.loads(run(capsys, root, "ls", "shop", "--json")[1]) == [{"id": ["shop", "orders"], "kind": "table"}]


def test_describe_tells_of_tables_and_namespaces(capsys: pytest.CaptureFixture[str], root: str) -> None:
    code, text = run(capsys, root, "describe", "shop.orders")
    assert code == 0
    assert "rows: 2\n" in text
    assert "columns: x\n" in text
    assert "property owner: us" in run(capsys, root, "describe", "shop")[1]
    assert json.loads(run(capsys, root, "describe", "t", "--json")[1])["version"] == 1
    assert run(capsys, root, "describe", "later")[0] == 0
    assert run(capsys, root, "describe")[1] == "kind: namespace\n"


def test_drop_removes_tables_and_empty_namespaces(capsys: pytest.CaptureFixture[str], root: str) -> None:
    code, text = run(capsys, root, "drop", "shop", "--yes")
    assert code == 2
    assert "not empty" in text
    code, text = run(capsys, root, "drop", "shop.orders")
    assert (code, text) == (2, "lance-spark: error: Drop the table shop.orders and all its files? "
                               "Nobody can be asked without a terminal; add --yes to agree\n")  # fmt: skip
    assert lance_spark.namespace(root).table_exists(["shop", "orders"])
    assert run(capsys, root, "drop", "shop.orders", "--yes") == (0, "dropped the table shop.orders\n")
    assert run(capsys, root, "drop", "shop", "-y") == (0, "dropped the namespace shop\n")
    assert lance_spark.namespace(root).list_namespaces() == []


def test_verify_finds_what_is_not_whole(capsys: pytest.CaptureFixture[str], root: str) -> None:
    assert run(capsys, root, "verify") == (0, "later: ok\nt: ok\nshop.orders: ok\n")
    data = next((Path(root) / "t.lance" / "data").iterdir())
    data.write_bytes(b"short")
    code, text = run(capsys, root, "verify", "--json")
    assert code == 1
    assert [name for name, problems in json.loads(text)["tables"].items() if problems] == ["t"]


def test_verify_of_a_partitioned_namespace_looks_at_the_versions_that_it_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = str(tmp_path / "partitioned")
    people = lance_spark.create_partitioned_namespace(root, pa.schema([("x", pa.int64()), ("country", pa.string())]), ["country"])
    people.write(pa.table({"x": [1, 2], "country": ["DE", "FR"]}), "append")
    code, text = run(capsys, root, "verify", "--json")
    assert (code, json.loads(text)["ok"]) == (0, True)
    next(tmp_path.glob("partitioned/*/data/*.lance")).unlink()
    assert run(capsys, root, "verify")[0] == 1


def test_a_root_without_a_manifest_can_be_looked_at(capsys: pytest.CaptureFixture[str], root: str) -> None:
    assert "shop" not in run(capsys, root, "--property", "manifest_enabled=false", "ls", "-r")[1]


@pytest.mark.parametrize("words", [["ls", "a..b"], ["drop"], ["nonsense"], []])
def test_wrong_usage_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str], root: str, words: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(capsys, root, *words)
    assert stopped.value.code == 2


def test_what_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str], root: str) -> None:
    for words in (["describe", "nothing"], ["drop", "nothing"], ["ls", "nothing"]):
        code, text = run(capsys, root, *words)
        assert code == 2
        assert text.startswith("lance-spark: error:")


def test_compact_joins_the_fragments_of_the_tables_of_a_condition(capsys: pytest.CaptureFixture[str], tmp_path: Path, root: str) -> None:
    uri = str(tmp_path / "partitioned")
    people = lance_spark.create_partitioned_namespace(uri, pa.schema([("x", pa.int64()), ("country", pa.string())]), ["country"])
    for _ in range(2):
        people = people.write(pa.table({"x": [1, 2], "country": ["DE", "US"]}))
    told = "version 5: compacted 1 table, 2 fragments became 1; 0 conflicts\n"
    assert run(capsys, uri, "compact", "--where", "country = 'US'") == (0, told)
    assert json.loads(run(capsys, uri, "compact", "--json")[1])["tables"] == 1
    code, text = run(capsys, root, "compact")
    assert code == 2
    assert "is no partitioned namespace" in text
