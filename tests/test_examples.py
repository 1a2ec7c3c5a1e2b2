"""Every example in the README, the documentation and the public docstrings runs and prints the output shown."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark import errors
from tests.examples import examples, run_page
from tests.sample import others_slow

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PUBLIC = [*(getattr(lance_spark, name) for name in lance_spark.__all__), errors]


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """The session in an empty working directory and an empty database, which are removed afterwards."""
    monkeypatch.chdir(tmp_path)
    spark.sql("CREATE DATABASE examples")
    spark.sql("USE examples")
    yield spark
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)
    spark.sql("USE default")
    spark.sql("DROP DATABASE examples CASCADE")


# The examples of these pages build indexes, run streams and start programs, which takes many seconds each.
LONG = {
    ROOT / "docs" / f"{name}.md"
    for name in ("nearest-join", "indexes", "streaming", "from-delta", "from-iceberg", "from-jvm-connector", "command-line", "sql")
}
ALWAYS = [ROOT / "README.md", *(page for page in PAGES[::3] if page not in LONG)]


@pytest.mark.parametrize("page", others_slow(PAGES, ALWAYS), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run_and_print_what_it_shows(place: SparkSession, page: Path) -> None:
    run_page(page, {"spark": place})


DOCSTRINGS = [test for subject in PUBLIC for test in doctest.DocTestFinder().find(subject, subject.__name__) if test.examples]


@pytest.mark.parametrize("example", DOCSTRINGS, ids=lambda example: str(example.name))
def test_the_examples_of_a_docstring_run_and_print_what_it_shows(place: SparkSession, example: doctest.DocTest) -> None:
    example.globs = {"spark": place, **{name: getattr(lance_spark, name) for name in lance_spark.__all__}}
    for line in example.examples:
        line.source = line.source.replace("/tmp/", f"{Path.cwd()}/")
    report: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert not report, "".join(report)


def test_blocks_are_found_with_their_lines_and_outputs() -> None:
    page = """
```python
1
```

```text
one
```
<!-- not run: needs a cluster -->
```sh
two
```
- in a list:
  ```sql
  SELECT 3;
  ```
not its output:
```text
four
```
"""
    found = [(e.language, e.source, e.line, e.expected) for e in examples(page)]
    assert found == [("python", "1\n", 2, "one\n"), ("sql", "SELECT 3;\n", 14, None)]
    with pytest.raises(ValueError, match="line 1: a block of pyhton"):
        examples("```pyhton\n1\n```\n")


def test_other_output_than_shown_and_commands_that_fail_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint('was')\n```\n```text\nis\n```\n")
    with pytest.raises(AssertionError, match=r"page.md, line 1.*\n(.*\n)*-is\n\+was"):
        run_page(page, {})
    page.write_text("```sh\nfalse\n```\n")
    with pytest.raises(AssertionError, match="line 1: exit code 1"):
        run_page(page, {})
