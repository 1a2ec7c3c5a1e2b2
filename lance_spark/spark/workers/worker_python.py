"""The Python that Spark starts for its workers. It needs this package, which Spark's default, `python3` of the PATH, often lacks.

Spark also plans reads and writes of a Python data source in such a process on the driver's machine, so it can be tried out there.
"""

from __future__ import annotations

import logging
import os
import site
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from pyspark import SparkContext, SparkFiles
from pyspark.core.rdd import _prepare_for_python_RDD
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.udf import _wrap_function

from lance_spark.errors import InvalidOptionError

NEEDED = ("lance_spark", "pyarrow", "numpy", "numba", "google.protobuf", "pyroaring", "fsspec", "sqlglot", "google_crc32c", "urllib3")
"""The modules that workers import, as those of the dependencies in pyproject.toml."""
_DEFAULT = "python3"
"""What Spark starts where nobody has said anything."""
_TIMEOUT = 60
"""Seconds. A Python starts within one; a machine without free cores takes longer."""
_PROBE = """
import sys
from importlib.util import find_spec
def missing(name):
    try:
        return find_spec(name) is None
    except ImportError:
        return True
print("%d.%d" % sys.version_info[:2], *filter(missing, sys.argv[1:]))
"""
_SOURCE = "org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource"
_LOG = logging.getLogger("lance_spark")
_PICKLED_SOURCE = b"clance_spark.spark.source\nLanceDataSource\n."
"""The class of the data source as a pickle, which is only its name. To import it takes the driver longer than the rest of `enable`."""
_fit: set[str] = set()
"""The executables that have been tried, and have what workers need."""


def settle_python(context: SparkContext) -> None:
    """Make Spark start its workers with a Python that has this package, where nobody has chosen another one.

    A choice is PYSPARK_PYTHON, spark.pyspark.python or a `python3` that has the package. Raises InvalidOptionError if a query would fail
    with it.
    """
    if context.pythonExec == _DEFAULT:
        chosen = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
        if chosen or _fault(context, _DEFAULT):
            context.pythonExec = chosen or sys.executable
            _LOG.info("Spark starts its workers with %s", context.pythonExec)
    if fault := _fault(context, context.pythonExec):
        raise InvalidOptionError(
            f"Spark starts its Python workers with {context.pythonExec}, which {fault}. Set PYSPARK_PYTHON to a Python "
            f"{_version()} that has lance_spark, such as {sys.executable}, before the session starts"
        )


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _fault(context: SparkContext, python: str) -> str | None:
    """What workers would miss in a Python on this machine; None if nothing, or if it does not answer in time."""
    if python in _fit:
        return None
    # Workers find what the driver's PYTHONPATH and --py-files name, too.
    names: list[str] = getattr(context, "_python_includes", None) or []
    environment: dict[str, str] = getattr(context, "environment", {})
    places = [*(SparkFiles.get(name) for name in names), environment.get("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(place for place in places if place)
    try:
        done = subprocess.run(
            [python, "-c", _PROBE, *NEEDED], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        _LOG.debug("%s did not answer within %s seconds", python, _TIMEOUT)
        return None
    except OSError as e:
        return f"does not start: {e.strerror}"
    if done.returncode:
        return f"does not start: {(done.stderr.strip() or 'no message').splitlines()[-1]}"
    version, *missing = done.stdout.split()
    if version != _version():
        return f"is Python {version}, but the driver is Python {_version()}"
    if missing:
        return f"does not find {', '.join(missing)}"
    _fit.add(python)
    return None


def source_function(context: SparkContext) -> Any:
    """The data source as a function of Python, as Spark keeps registered ones. A java object.

    It has no accumulator, as over Spark Connect: a task with that of the session connects to this process when it ends,
    and a session with such a connection takes a second to stop.
    """
    _nothing, broadcasts, environment, files = _prepare_for_python_RDD(context, None)
    jvm: Any = context._jvm
    pickled, needed = bytearray(_PICKLED_SOURCE), [] if _is_installed() else files
    return jvm.SimplePythonFunction(pickled, environment, needed, context.pythonExec, context.pythonVer, broadcasts, None)


def _is_installed() -> bool:
    """True if a Python finds this package without the files of the session, so that its processes need not read those."""
    here = str(Path(__file__).parents[3])
    return here in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages())


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source with a session, unless the session has it. Its processes use the Python of `settle_python`."""
    session: Any = spark._jsparkSession
    sources, name = session.sessionState().dataSourceManager(), source.name()
    if sources.dataSourceExists(name):
        return
    try:
        spark.dataSource.register(source)
    except AnalysisException as e:
        if e.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        # Spark rejects the name of a class, and lance/DefaultSource.java is one; but the session lacks the Python source.
        jvm: Any = spark.sparkContext._jvm
        sources.registerDataSource(name, getattr(jvm, _SOURCE)(_wrap_function(spark.sparkContext, source)))
