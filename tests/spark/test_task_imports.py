"""A worker imports only what its task needs, since a task often takes less time than an import."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from lance_spark import Dataset
from lance_spark.spark.source import LanceDataSource

NOT_NEEDED = {"numba", "llvmlite", "pandas", "fsspec", "s3fs", "sqlglot", "tqdm", "asyncio", "http"}
"""For local tables: compilers, clients of stores, and the parser of SQL."""
TO_READ = {
    "_proto arrow buffers display encodings errors file index index.vector kernels layouts layouts.levels layouts.mini_block",
    "layouts.constant layouts.full_zip layouts.nodes layouts.values metadata options predicate reading schema spark spark.aggregation",
    "spark.columns spark.read spark.workers storage table.build table.manifest_store table.scan table.versions",
    "table.write v0_1 v2_0 version",
}
"""Neither what commits and changes tables nor namespaces; `table.build` says what the indexes of a version cover."""


def modules(code: str) -> set[str]:
    """The modules that a new process has imported after running the code, without those that pyspark imports."""
    start = "import sys, pickle, pyarrow, pyspark.sql.datasource, pyspark.worker, pyspark.sql.worker.plan_data_source_read"
    done = subprocess.run(
        [sys.executable, "-c", f"{start}\nbefore = set(sys.modules)\n{code}\nprint(' '.join(set(sys.modules) - before))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def folders(found: set[str]) -> set[str]:
    """The folders of the package with imported modules, and the modules beside them."""
    own = [name.split(".")[1:] for name in found if name.startswith("lance_spark.")]
    leaves = [parts for parts in own if f"lance_spark.{'.'.join(parts)}" not in {n.rpartition(".")[0] for n in found}]
    return {".".join(parts[:-1] or parts) for parts in leaves}


@pytest.fixture
def source(tmp_path: Path) -> LanceDataSource:
    """A table whose values are stored without encodings that need a kernel."""
    Dataset.write(str(tmp_path / "t.lance"), pa.table({"id": [2**60, 1, 2**59], "x": [0.1, 0.2, 0.3]}))
    return LanceDataSource({"path": str(tmp_path / "t.lance")})


def test_reading_imports_neither_a_compiler_nor_what_changes_tables(source: LanceDataSource, tmp_path: Path) -> None:
    schema = source.schema()
    assert isinstance(schema, StructType)
    reader = source.reader(schema)
    place = tmp_path / "task.pickle"
    place.write_bytes(pickle.dumps((reader, reader.partitions()[0])))
    read = "assert sum(b.num_rows for b in reader.read(partition)) == 3"
    found = modules(f"reader, partition = pickle.load(open({str(place)!r}, 'rb'))\n{read}")
    assert {name.split(".")[0] for name in found} & NOT_NEEDED == set()
    assert folders(found) - set(" ".join(TO_READ).split()) == set()
    # What Spark is shown of a column has its DEFAULT.
    assert {name for name in found if name.startswith("lance_spark.table.write.")} == {"lance_spark.table.write.defaults"}


def test_planning_imports_neither_decoders_nor_what_changes_tables(source: LanceDataSource) -> None:
    options = source.options
    plan = f"s = LanceDataSource({options!r})\nassert len(s.reader(s.schema()).partitions()) == 1"
    found = modules(f"from lance_spark.spark.source import LanceDataSource\n{plan}")
    assert {name.split(".")[0] for name in found} & NOT_NEEDED == set()
    not_to_plan = ("layouts", "encodings", "v0_1", "v2_0", "table.changes", "inspection")
    assert {name for name in folders(found) if name.startswith(not_to_plan)} == set()
    assert {"lance_spark.dataset", "lance_spark.table.write.write"} & found == set()
