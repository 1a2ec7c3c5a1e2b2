"""The examples of real work run and say what their READMEs show. They share the session of the tests."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.sample import others_slow
from tests.spark.processes import START, run
from tests.spark.test_planner_sessions import NEEDS_CONNECT, connect_port  # noqa: F401

EXAMPLES = Path(__file__).parents[1] / "examples"


def loaded(name: str) -> Any:
    """The module of an example."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / name / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(name: str) -> str:
    """The output in the README of an example, as a pattern."""
    text = (EXAMPLES / name / "README.md").read_text().split("```text\n")[1].split("```")[0].strip()
    return re.escape(text).replace(r"\.\.\.", r"[\s\S]*")


@pytest.mark.parametrize(
    "name", others_slow(["write_audit_publish", "migration", "embeddings", "lakehouse"], ["write_audit_publish", "lakehouse"])
)
def test_an_example_says_what_its_readme_shows(spark: SparkSession, tmp_path: Path, name: str) -> None:
    printed = "\n".join(loaded(name).main(spark, str(tmp_path / "t")))
    assert re.fullmatch(shown(name), printed), printed


@pytest.mark.slow
def test_a_training_set_is_read_the_same_way_twice(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = loaded("training_set").main(spark, str(tmp_path))
    assert weights[0] == max(weights)
    assert re.fullmatch(shown("training_set"), capsys.readouterr().out.strip())


def test_the_daily_job_runs_on_a_server_like_s3(spark: SparkSession, s3_server: str) -> None:
    options = {"endpoint": s3_server, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test", "allow_http": "true"}
    storage = {f"storage.{key}": value for key, value in options.items()}
    example = loaded("lakehouse")
    example.DAYS = 2
    assert example.main(spark, "s3://tables/lakehouse.lance", storage)[-1] == "100 orders, each once"


@pytest.mark.parametrize("readme", sorted(EXAMPLES.glob("*/README.md")), ids=lambda path: path.parent.name)
def test_every_example_has_a_picture_and_what_its_readme_names(readme: Path) -> None:
    text = readme.read_text()
    assert re.search(r"!\[.+\]\(\w+\.(svg|png)\)", text)
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (readme.parent / link).exists(), link


@pytest.mark.slow
@pytest.mark.timeout(900)
@NEEDS_CONNECT
@pytest.mark.usefixtures("connect_port")
def test_a_client_of_spark_connect_uses_a_catalog(tmp_path: Path) -> None:
    jar = f"{tmp_path}/planner.jar"
    run("import runpy; runpy.run_module('lance_spark', run_name='__main__')", "jar", jar)
    script = """
builder = builder.config("spark.jars", sys.argv[1]).config("spark.sql.extensions", "lancespark.LancePlanner$Extensions")
builder = builder.config("spark.sql.catalog.lake", "lancespark.LanceCatalog").config("spark.sql.catalog.lake.root", sys.argv[2])
import runpy
example = runpy.run_path(sys.argv[3])
print(*example["main"](builder.remote("local[1]").getOrCreate()), sep="\\n")
"""
    out = run(START + script, jar, f"{tmp_path}/lake", str(EXAMPLES / "connect_catalog" / "connect_catalog.py"))
    assert re.search(shown("connect_catalog"), out), out
