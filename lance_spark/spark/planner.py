"""Installs LancePlanner.java into a session, so that Spark pushes columns, filters, limits and aggregates into lance scans.

The one Java source of the package is compiled by the compiler that Spark carries (Janino). Its rule is installed twice over: among
the session's extensions, when the session has not built its planner yet (then Spark's dynamic pruning sees it, and new sessions
inherit it), and as an extra optimisation. Where it cannot be installed, as with Spark Connect, queries run unpruned.
"""

from __future__ import annotations

import importlib.resources
import logging
import zipfile
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

LOG = logging.getLogger("lance_spark")
RULE = "lance_spark.LancePlanner"
_CLASS = "lancespark.LancePlanner"


def install(spark: SparkSession) -> bool:
    """Install the rule into `spark`, once; True when it is there now. Logs a warning, once a process, when it cannot be."""
    try:
        return _install(spark)
    except (Py4JError, PySparkException, AttributeError) as e:
        # AttributeError: Spark Connect has no JVM to ask; Py4JError: a platform that forbids these classes.
        _warn_once(str(e).splitlines()[0] if str(e) else type(e).__name__)
        return False


_warned: set[str] = set()


def _warn_once(reason: str) -> None:
    if not _warned:
        LOG.warning("lance tables are read without push-down, use the options columns, filter and limit: %s", reason)
    _warned.add(reason)


def _install(spark: SparkSession) -> bool:
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    experimental = session.experimental()
    rules = jvm.java.util.ArrayList(jvm.scala.jdk.javaapi.CollectionConverters.asJava(experimental.extraOptimizations()))
    if any(rule.ruleName() == RULE for rule in rules):
        return True
    loader = _loader(jvm)
    if not _is_built(jvm, session):
        extensions = session.extensions()
        _new(spark, loader, f"{_CLASS}$Extensions").apply(extensions)
    # Also here: an extension is not seen by a session that is built already, nor can it be found again by its name.
    rules.add(_new(spark, loader, _CLASS))
    getattr(experimental, "extraOptimizations_$eq")(jvm.scala.jdk.javaapi.CollectionConverters.asScala(rules).toSeq())
    return True


def _is_built(jvm: Any, session: Any) -> bool:
    """Whether the session has its planner already, after which its extensions are no longer looked at."""
    field = next(f for f in session.getClass().getDeclaredFields() if f.getName() == "sessionState")
    field.setAccessible(True)
    return field.get(session) is not None


def _new(spark: SparkSession, loader: Any, name: str) -> Any:
    gateway: Any = spark.sparkContext._gateway
    nothing = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    return loader.loadClass(name).getDeclaredConstructors()[0].newInstance(nothing)


def _loader(jvm: Any) -> Any:
    """The class loader that knows the compiled classes: of the jar, if one is on the class path, else of the compiler."""
    context = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if context.getResource(f"{_CLASS.replace('.', '/')}.class") is not None:
        return context
    return _compile(jvm, context).getClassLoader()


def _compile(jvm: Any, context: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(context)
    compiler.setTargetVersion(8)  # the lowest that may call static methods of interfaces
    compiler.cook(importlib.resources.files(__package__).joinpath("LancePlanner.java").read_text())
    return compiler


def write_jar(path: str) -> None:
    """Compile the planner into a jar, for Connect servers and for spark.sql.extensions=lancespark.LancePlanner$Extensions."""
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    jvm: Any = spark._jvm
    classes = _compile(jvm, jvm.java.lang.Thread.currentThread().getContextClassLoader()).getBytecodes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
        for name in sorted(classes.keySet()):
            jar.writestr(zipfile.ZipInfo(name.replace(".", "/") + ".class"), bytes(classes.get(name)))
    spark.stop()
