"""Installs LancePlanner.java into a session, so that Spark pushes columns, filters, limits and aggregates into lance scans.

The one Java source of the package is compiled by the compiler that Spark carries (Janino). Its rule is installed twice over: among
the session's extensions, when the session has not built its planner yet (then Spark's dynamic pruning sees it, and new sessions
inherit it), and as an extra optimisation. Where it cannot be installed, as with Spark Connect, queries run unpruned.
"""

from __future__ import annotations

import importlib.resources
import logging
import weakref
import zipfile
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.spark.planner.warning import warn

RULE = "lance_spark.LancePlanner"
_CLASS = "lancespark.LancePlanner"


_JVM_CONNECTORS = ("com/lancedb/lance/spark/LanceDataSource.class", "org/lance/spark/LanceDataSource.class")
_LOG = logging.getLogger("lance_spark")


def install(spark: SparkSession) -> None:
    """Install the rule into `spark`, once; logs a warning, once a process, when it cannot be done.

    For a session that has not run anything yet this must come before all else that is asked of it.
    """
    try:
        _install(spark)
    except (Py4JError, PySparkException) as e:
        # A platform that forbids these classes, or a Spark that has changed.
        warn(str(e).splitlines()[0] if str(e) else type(e).__name__)


def _install(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    loader = _loader(spark)
    if any(loader.getResource(name) is not None for name in _JVM_CONNECTORS):
        _LOG.warning("the JVM's lance connector is on the class path: there the format lance means that one, not this package")
    # First, because asking for anything else builds the session's planner, which looks at its extensions then and never again.
    _new(spark, loader, f"{_CLASS}$Extensions").apply(session.extensions())
    converters = jvm.scala.jdk.javaapi.CollectionConverters
    experimental = session.experimental()
    rules = jvm.java.util.ArrayList(converters.asJava(experimental.extraOptimizations()))
    if not any(rule.ruleName() == RULE for rule in rules):
        # A session that is built already sees the rule here.
        rules.add(_new(spark, loader, _CLASS))
        getattr(experimental, "extraOptimizations_$eq")(converters.asScala(rules).toSeq())


def _new(spark: SparkSession, loader: Any, name: str) -> Any:
    gateway: Any = spark.sparkContext._gateway
    nothing = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    return loader.loadClass(name).getDeclaredConstructors()[0].newInstance(nothing)


_loaders: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""The class loader of the compiled classes by JVM, so that these are the same whenever `install` is called."""


def _loader(spark: SparkSession) -> Any:
    """The class loader that knows the classes: of the jar, if it is on the class path, else of the compiler."""
    gateway: Any = spark.sparkContext._gateway
    if gateway not in _loaders:
        context = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        there = context.getResource(f"{_CLASS.replace('.', '/')}.class") is not None
        _loaders[gateway] = context if there else _compile(gateway.jvm, context).getClassLoader()
    return _loaders[gateway]


def _compile(jvm: Any, context: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(context)
    compiler.setTargetVersion(8)  # the lowest that may call static methods of interfaces
    compiler.cook(importlib.resources.files(__package__).joinpath("LancePlanner.java").read_text())
    return compiler


def write_jar(path: str) -> None:
    """Compile the planner into a jar, for Connect servers and for spark.sql.extensions=lancespark.LancePlanner$Extensions."""
    try:
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    except PySparkException as e:
        raise UnsupportedFeatureError(f"the planner is compiled by Spark, which does not start: {e}") from None
    jvm: Any = spark._jvm
    classes = _compile(jvm, jvm.java.lang.Thread.currentThread().getContextClassLoader()).getBytecodes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
        for name in sorted(classes.keySet()):
            jar.writestr(zipfile.ZipInfo(name.replace(".", "/") + ".class"), bytes(classes.get(name)))
    spark.stop()
