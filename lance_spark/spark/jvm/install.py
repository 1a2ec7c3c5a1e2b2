"""Installation of the planner into a session, so that Spark pushes columns, filters, limits and aggregates into lance scans.

The Java sources in this folder are compiled when the wheel is made. In a checkout, and for a Spark that differs from the public ones,
Janino compiles them, the compiler that Spark includes (see `classes`).
Their rules are installed twice: into the session's extensions, where they run before Spark's own push-down and new sessions inherit them,
and as extra optimizations, which also work in a session that is already built. Where installation is impossible, as with Spark Connect,
queries read whole tables.
"""

from __future__ import annotations

import logging
import re
import weakref
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.spark.jvm.classes import digest_of, is_whole, jar_of, keep, packaged
from lance_spark.spark.jvm.features import absent, sources
from lance_spark.spark.jvm.reason import reason
from lance_spark.spark.jvm.warning import warn
from lance_spark.spark.protocol import check_protocol
from lance_spark.spark.workers.worker_python import source_function

_PLANNER = "lancespark.LancePlanner"
_EXTENSIONS = f"{_PLANNER}$Extensions"
_SOURCES = "lancespark.source.SessionSource"
_PROTOCOL = "lancespark.protocol.Protocol"
_GUARD = "lancespark.core.ReplaceGuard"
_LAST_CHANGE = "lancespark.table.LastChange"
_SESSION_TABLES = "lancespark.session_catalog.SessionTables"
_CATALOG_INSTALL = "lancespark.catalog.CatalogInstall"
_FEATURES = "lancespark.core.Features"
_SELF_CONTAINED = tuple(
    f"lancespark/core/{name}.java" for name in ("Feature", "FeatureLines", "Features", "ReplaceGuard", "ReplacesAtOnce")
)
_JVM_CONNECTORS = ("com/lancedb/lance/spark/LanceDataSource.class", "org/lance/spark/LanceDataSource.class")
_CLASSES = "lancespark.core.CompiledClasses"
_BUILD = "spark-version-info.properties"
"""Spark's own file about its build: version, revision and time."""
_VERSIONS = re.compile(r"4\.[0-3]\.\d+")
"""The versions of Spark for which the wheel's classes are tested. A vendor's build has other text after its numbers."""
_JAVA_8 = 8  # the lowest class file version that can call static interface methods
_LOG = logging.getLogger("lance_spark")


def install(spark: SparkSession) -> bool:
    """Install the rules into `spark` unless they are installed. If that is impossible, log one warning per process.

    It works in new sessions and in those that have run queries. Returns True if the session has its data source, too.
    """
    if reason := _why_not(spark):
        warn(reason)
        return False
    return _has_source(spark)


def _why_not(spark: SparkSession) -> str:
    """Install the rules, or return the reason why that is impossible; "" if they are installed."""
    try:
        _install(spark)
    except (Py4JError, PySparkException) as e:
        # The platform forbids these classes, or this version of Spark is different.
        return _after_failure(spark) or reason(e)
    return ""


def _install(spark: SparkSession) -> None:
    installed = _installed(spark)
    session: Any = spark._jsparkSession
    # This must come first: other calls build the session's planner, which reads the extensions when it is built.
    installed.extensions.apply(session.extensions())
    installed.extensions.addTo(session)


def _has_source(spark: SparkSession) -> bool:
    """Register the data source unless the session has it. False if only Spark's own way is left."""
    sources = _installed(spark).sources
    try:
        is_there = sources.isRegistered(spark._jsparkSession)
        return bool(is_there or sources.register(spark._jsparkSession, source_function(spark.sparkContext)))
    except Py4JError as e:
        _LOG.debug("Spark itself registers the data source: %s", e)
        return False


def _installed(spark: SparkSession) -> _Installed:
    gateway: Any = spark.sparkContext._gateway
    if gateway not in _extensions:
        loader = _loader(spark)
        if any(loader.getResource(name) is not None for name in _JVM_CONNECTORS):
            _LOG.warning("the JVM connector for Lance is on the class path, so the format lance refers to it and not to this package")
        _extensions[gateway] = _Installed(_new(spark, loader, _EXTENSIONS), _new(spark, loader, _SOURCES))
    return _extensions[gateway]


def last_change(spark: SparkSession) -> tuple[str, dict[str, str]] | None:
    """The last row-level command of a session, as JSON, and the options of its table; None if there was none."""
    session: Any = spark._jsparkSession
    last = _new(spark, _loader(spark), _LAST_CHANGE)
    text = last.command(session)
    return None if text is None else (str(text), dict(last.options(session)))


def note_change(spark: SparkSession, name: str, columns: bool) -> None:
    """Note in the session catalog that a table of it has rows, and, if they may have changed, its `columns`. `name` is full and quoted."""
    _new(spark, _loader(spark), _SESSION_TABLES).noteChange(name, columns)


def add_catalog(spark: SparkSession, name: str, settings: Mapping[str, str]) -> None:
    """Add a catalog of lance tables with these settings to a session, to those cloned from it, and to new ones of its application.

    Raises UnsupportedFeatureError if Spark does not permit it.
    """
    try:
        loader = _loader(spark)
        if complaint := _new(spark, loader, _EXTENSIONS).complaint("catalog"):
            raise UnsupportedFeatureError(str(complaint))
        made = str(_new(spark, loader, _CATALOG_INSTALL).add(spark._jsparkSession, name, dict(settings)))
        if loader.equals(_context_loader(spark)):
            _configure(spark, f"spark.sql.catalog.{name}", {"": made, **settings})
    except (Py4JError, PySparkException) as e:
        raise UnsupportedFeatureError(
            f"the catalog {name} cannot be added to this session ({reason(e)}); set spark.sql.catalog.{name}=lancespark.LanceCatalog "
            "and use the jar of `python -m lance_spark jar`"
        ) from e


def _configure(spark: SparkSession, catalog: str, settings: Mapping[str, str]) -> None:
    """Set a catalog's settings, in place of others, in the session, which cloned ones copy, and in the application, which new ones copy.

    The setting "" is the class of the catalog.

    Spark then makes the catalogs of these sessions itself, of the class that its class loader finds.
    """
    application = spark.sparkContext._jsc.sc().conf()
    for key in spark.conf.getAll:
        if key.startswith(f"{catalog}."):
            spark.conf.unset(key)
    for setting in application.getAllWithPrefix(f"{catalog}."):
        application.remove(f"{catalog}.{setting._1()}")
    for key, value in ((f"{catalog}.{key}" if key else catalog, value) for key, value in settings.items()):
        spark.conf.set(key, value)
        application.set(key, value)


def _new(spark: SparkSession, loader: Any, name: str) -> Any:
    return _made(spark.sparkContext._gateway, loader, name)


def _made(gateway: Any, loader: Any, name: str) -> Any:
    nothing = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    return loader.loadClass(name).getDeclaredConstructors()[0].newInstance(nothing)


_lists: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""The lists of internals for each JVM where they were needed. py4j takes classes of one name for one class, so there must be only one."""


@dataclass(frozen=True)
class _Installed:
    """Objects of the planner's classes: what installs the rules, and what registers the data source."""

    extensions: Any
    sources: Any


_extensions: weakref.WeakKeyDictionary[Any, _Installed] = weakref.WeakKeyDictionary()
"""The objects for each JVM: every verb of LanceTable begins with it, and each call of a JVM takes time."""

_loaders: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""The class loader of the compiled classes for each JVM, so that every `install` uses the same classes."""


def _context_loader(spark: SparkSession) -> Any:
    """Spark's own class loader."""
    gateway: Any = spark.sparkContext._gateway
    return gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _loader(spark: SparkSession) -> Any:
    """The class loader of the planner's classes: from the jar if it is on the class path, otherwise compiled from source."""
    gateway: Any = spark.sparkContext._gateway
    if gateway not in _loaders:
        context = _context_loader(spark)
        in_jar = context.getResource(f"{_PLANNER.replace('.', '/')}.class") is not None
        if in_jar:
            check_protocol(_protocol(context))
        _loaders[gateway] = context if in_jar else _compiled(gateway, context)
    return _loaders[gateway]


def _protocol(loader: Any) -> int | None:
    """The number of the protocol of compiled classes; None if they are of a version that had none."""
    if loader.getResource(f"{_PROTOCOL.replace('.', '/')}.class") is None:
        return None
    return int(loader.loadClass(_PROTOCOL).getField("VERSION").get(None))


def _compiled(gateway: Any, context: Any) -> Any:
    """A class loader with the compiled classes: Spark's own, if it takes any, so that Spark finds those that it loads by their names.

    These are the format, the catalog, the metrics, and what executors run.
    """
    place = _place(gateway, context)
    try:
        context.addURL(place)
    except Py4JError:
        _LOG.debug("Spark's class loader takes no classes: plain threads cannot write, scans hand over rows, new sessions have no catalogs")
        places = gateway.new_array(gateway.jvm.java.net.URL, 1)
        places[0] = place
        return gateway.jvm.java.net.URLClassLoader(places, context)
    return context


def _place(gateway: Any, context: Any) -> Any:
    """Where class loaders find the compiled classes: in a jar, or in memory. A java.net.URL."""
    found = packaged_classes()
    if found is not None and _is_readable(gateway, found) and not _has_unknown_features(gateway, context, found):
        return _url(gateway, found)
    jar = jar_of(_parts(gateway, context))
    if jar is not None and is_whole(jar) and _is_readable(gateway, jar):
        return _url(gateway, jar)
    classes = _compile_known(gateway, context)
    if jar is not None:
        keep(jar, partial(_write, classes))
        if is_whole(jar) and _is_readable(gateway, jar):
            return _url(gateway, jar)
    return _made(gateway, _class_loader(gateway, context, classes), _CLASSES).of(classes)


def spark_version() -> str:
    """The version of PySpark that is installed."""
    return pyspark.__version__


def packaged_classes() -> Path | None:
    """The jar of the package, if it was made of these sources and is tested with this version of Spark."""
    return packaged(sources()) if _VERSIONS.fullmatch(pyspark.__version__) else None


def _url(gateway: Any, jar: Path) -> Any:
    return gateway.jvm.java.io.File(str(jar)).toURI().toURL()


def _is_readable(gateway: Any, jar: Path) -> bool:
    """False if Java is on another machine, which does not have the file."""
    return bool(gateway.jvm.java.io.File(str(jar)).canRead())


def _has_unknown_features(gateway: Any, context: Any, jar: Path) -> bool:
    """True if this Spark lacks what a feature uses that its version should have, as a vendor's build may: then the sources are compiled."""
    places = gateway.new_array(gateway.jvm.java.net.URL, 1)
    places[0] = _url(gateway, jar)
    features = _made(gateway, gateway.jvm.java.net.URLClassLoader(places, context), _FEATURES)
    return bool(features.lacking(" ".join(absent()), context))


def _parts(gateway: Any, context: Any) -> Iterator[bytes]:
    """What determines the compiled classes: the builds of Spark and Java, and the sources."""
    build = context.getResourceAsStream(_BUILD)
    yield b"" if build is None else bytes(build.readAllBytes())
    yield str(gateway.jvm.java.lang.System.getProperty("java.runtime.version")).encode()
    yield digest_of(sources()).encode()


def _compile_known(gateway: Any, context: Any) -> Any:
    """`_compile` the sources, without those of the features for which Spark lacks something."""
    try:
        return _compile(gateway, context, sources(absent()))
    except Py4JJavaError:
        unknown = _features(gateway, context).lacking(" ".join(absent()), context).split()
        if not unknown or "scan" in unknown:
            raise
        return _compile(gateway, context, sources([*absent(), *unknown]))


def _features(gateway: Any, context: Any) -> Any:
    """The lists of internals, whose class compiles in every version of Spark."""
    if gateway not in _lists:
        texts = {name: text for name, text in sources().items() if name in _SELF_CONTAINED}
        loader = _class_loader(gateway, context, _compile(gateway, context, texts))
        _lists[gateway] = _made(gateway, loader, _FEATURES)
    return _lists[gateway]


def _compile(gateway: Any, context: Any, texts: Mapping[str, str]) -> Any:
    """Compile sources that use each other and Spark's classes, which `context` finds. Returns a Java map of class files: path -> bytes."""
    # Not `context` itself: it may have compiled classes of the same names already.
    sparks = gateway.jvm.java.lang.Class.forName("org.apache.spark.sql.classic.SparkSession", False, context).getClassLoader()
    resource = gateway.jvm.org.codehaus.commons.compiler.util.resource
    units = gateway.new_array(resource.Resource, len(texts))
    for i, (name, text) in enumerate(sorted(texts.items())):
        units[i] = resource.StringResource(name, text)
    classes = gateway.jvm.java.util.HashMap()
    compiler = gateway.jvm.org.codehaus.janino.Compiler()
    compiler.setIClassLoader(gateway.jvm.org.codehaus.janino.ClassLoaderIClassLoader(sparks))
    compiler.setClassFileFinder(resource.ResourceFinder.EMPTY_RESOURCE_FINDER)
    compiler.setClassFileCreator(resource.MapResourceCreator(classes))
    compiler.setTargetVersion(_JAVA_8)
    compiler.compile(units)
    return classes


def _class_loader(gateway: Any, context: Any, classes: Any) -> Any:
    util = gateway.jvm.org.codehaus.commons.compiler.util
    return util.ResourceFinderClassLoader(util.resource.MapResourceFinder(classes), context)


def _after_failure(spark: SparkSession) -> str:
    """Install only the guard, which works in every version of Spark. Returns what the other rules miss in this version.

    The result is empty if nothing is missing or if this cannot be determined.
    """
    try:
        gateway: Any = spark.sparkContext._gateway
        context = _context_loader(spark)
        features = _features(gateway, context)
        _made(gateway, features.getClass().getClassLoader(), _GUARD).addTo(spark._jsparkSession)
        return str(features.complaint("scan", context))
    except (Py4JError, PySparkException):
        return ""


def write_jar(path: str) -> None:
    """Compile the planner into a jar for Connect servers and for spark.sql.extensions=lancespark.LancePlanner$Extensions.

    Raises UnsupportedFeatureError if Spark, which compiles it, does not start.
    """
    spark = _started()
    gateway: Any = spark.sparkContext._gateway
    classes = _compile_known(gateway, _context_loader(spark))
    _write(classes, path)
    spark.stop()


def keep_planner() -> bool:
    """Compile the planner's classes for this user's later sessions. False if the package has them already.

    Raises UnsupportedFeatureError if Spark, which compiles them, does not start.
    """
    if packaged(sources()) is not None:
        return False
    spark = _started()
    install(spark)
    spark.stop()
    return True


def try_planner() -> str:
    """Start Spark, install the planner, and stop Spark. The reason why that is impossible; "" if it was installed.

    Raises UnsupportedFeatureError if Spark does not start.
    """
    spark = _started()
    try:
        return _why_not(spark)
    finally:
        spark.stop()


def _started() -> SparkSession:
    try:
        return SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    except PySparkException as e:
        raise UnsupportedFeatureError(f"Spark, which compiles the planner, does not start: {e}") from None


def _write(classes: Any, path: str) -> None:
    """Write compiled classes as a jar."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
        for name in sorted(classes.keySet()):
            jar.writestr(zipfile.ZipInfo(name), bytes(classes.get(name)))
