"""Wrong arguments of procedures and statements are errors of this package, in one line, and never a traceback of Python."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import lance_spark
from lance_spark import Dataset
from lance_spark.actions.all import ACTIONS
from lance_spark.errors import LanceError
from lance_spark.spark.catalog.source import CatalogSource
from lance_spark.spark.protocol import PROTOCOL
from tests.spark.catalog.lakes import Lake
from tests.spark_session import SPARK_ERRORS

GIVEN: dict[str, Any] = {"column": "id", "kind": "BTREE", "columns": ["id"], "condition": "id >= 0", "snapshot_id": 1}
"""Arguments that are needed. Others of text are `nothing`."""
WRONG: dict[str, list[Any]] = {
    "string": [None, "", "../x", "no such"],
    "bigint": [None, -1, 2**63 - 1],
    "double": [-1.0, 1e308],
    "array<string>": [None, [], [None], ["no such"], ["id", "id"]],
    "array<bigint>": [[-1], [None]],
    "timestamp": [None, -(2**63), 2**63 - 1],
    "interval day to second": [-1, -(2**63), 2**63 - 1],
}


def _call(settings: dict[str, str], name: str, arguments: dict[str, Any]) -> None:
    """What LanceProcedure.java does, up to the first tasks of a job."""
    given = {"name": name, "place": {"id": ["t"], "called": ["lance", "t"]}, "arguments": arguments}
    request = {"protocol": PROTOCOL, "operation": "call", "settings": settings, "arguments": given, "id": "x"}
    answer = json.loads(CatalogSource({"request": json.dumps(request)}).schema()[0].metadata["answer"])
    if isinstance(answer.get("value"), int):
        request |= {"operation": "tasks", "arguments": {**given, "version": answer["value"], "results": []}}
        source = CatalogSource({"request": json.dumps(request)})
        source.reader(source.schema()).partitions()


@pytest.mark.parametrize("name", ACTIONS)
def test_no_argument_of_a_procedure_ends_in_another_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Dataset.write(tmp_path / "t.lance", pa.table({"id": [1, 2]}))
    parameters = ACTIONS[name].at("CALL")
    needed = {p.name: GIVEN.get(p.name, "nothing") for p in parameters if p.is_required}
    for p in parameters:
        for value in WRONG.get(p.type, []):
            with contextlib.suppress(LanceError):
                _call({"namespace": "dir", "root": str(tmp_path)}, name, {**needed, p.name: value})


STATEMENTS = {
    "CALL lance.system.create_tag('t', '../x')": "invalid tag name '../x'",
    "CALL lance.system.create_tag('t', NULL)": "create_tag: the argument name is null, expected string",
    "CALL lance.system.create_tag(NULL, 'x')": "the argument table is null",
    "CALL lance.system.cluster('t', array(NULL))": "cluster: the argument columns has null in its list",
    "CALL lance.system.compact('t', target_rows_per_fragment => 0)": "target_rows_per_fragment must be at least 1, not 0",
    "CALL lance.system.cleanup('t', retain_versions => -1)": "retain_versions must be at least 1, not -1",
    "CALL lance.system.restore('t', timestamp => timestamp_micros(9223372036854775807))": "must be in the years 1 to 9999",
    "ALTER TABLE lance.t CREATE BRANCH `../x`": "invalid branch name '../x'",
    "ALTER TABLE lance.t CREATE INDEX `` USING btree (id)": "the name of an index must not be empty",
    "ALTER TABLE lance.t SET UNENFORCED PRIMARY KEY (id, id)": "the primary key names a column twice",
    "RESTORE lance.t TO VERSION AS OF 'a/b'": "invalid tag name 'a/b'",
    "VACUUM lance.t RETAIN 1e400 HOURS": "a number is expected",
    "SELECT * FROM lance.t VERSION AS OF '../x'": "invalid tag name '../x'",
}


def test_statements_say_what_is_wrong(own: Lake) -> None:
    own.sql("CREATE TABLE lance.t AS SELECT id FROM range(3)")
    for statement, told in STATEMENTS.items():
        with pytest.raises(SPARK_ERRORS, match=told) as e:
            own.sql(statement)
        assert "Traceback" not in str(e.value).split("JVM stacktrace")[0], statement
    own.sql("VACUUM lance.t RETAIN 99999999999999999999 HOURS")
    assert own.versions("t") == [1]


@pytest.mark.parametrize("option", ["tag", "branch"])
def test_names_that_no_tag_or_branch_has_are_wrong_options(own: Lake, uri: str, option: str) -> None:
    lance_spark.write(own.spark.range(3), uri)
    with pytest.raises(AnalysisException, match=f"InvalidOptionError: invalid {option} name '../x'") as e:
        own.spark.read.format("lance").option(option, "../x").load(uri)
    assert "Traceback" not in str(e.value)
