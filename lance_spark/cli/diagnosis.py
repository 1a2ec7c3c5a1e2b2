"""What `doctor` finds out about an installation and a table. No finding contains the value of an option or of a variable."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from lance_spark.cli.requirements import Requirement, fits, python_versions, requirements
from lance_spark.display.words import counted
from lance_spark.errors import LanceError, one_line
from lance_spark.kernels import code_folders
from lance_spark.kernels.target import PERMISSION
from lance_spark.storage.secrets import shown
from lance_spark.version import __version__

State = Literal["ok", "note", "wrong"]
"""`note`: something is missing that not everybody needs, or that only takes time."""
_JAVA = 17
"""The oldest Java that Spark 4 runs on."""
_JAVA_VERSION = re.compile(r'version "(\d+)([^"]*)"')
_JAVA_TIMEOUT_S = 30
_SETTINGS = re.compile(r"(LANCE_|NUMBA_|PYSPARK_|SPARK_)\w+")
_PROBLEMS_SHOWN = 5
_SPARK = "pip install 'lance-spark[spark]'"


@dataclass(frozen=True)
class Finding:
    """One fact: what it is about, whether it is as it should be, and a sentence about it."""

    topic: str
    state: State
    text: str

    def __str__(self) -> str:
        return f"{self.state:5}  {self.topic:11}  {one_line(self.text)}"


@dataclass(frozen=True)
class Request:
    """What is looked at besides the installation, and what is tried."""

    uri: str | None
    storage_options: Mapping[str, str]
    start_spark: bool
    try_put: bool


def diagnose(request: Request) -> Iterator[Finding]:
    """All findings, each as soon as it is there. An error of a check is a finding, too."""
    yield from _guarded("python", _python)
    yield from _guarded("packages", _packages)
    yield from _guarded("java", _java)
    yield from _guarded("spark", _spark)
    yield from _guarded("planner", lambda: _planner(request.start_spark))
    yield from _guarded("kernels", _kernels)
    if request.uri is None:
        return
    uri = request.uri
    yield from _guarded("storage", lambda: _storage(uri, request.storage_options))
    if request.try_put:
        yield from _guarded("commits", lambda: _commits(uri, request.storage_options))
    yield from _guarded("table", lambda: _table(uri, request.storage_options))


def _guarded(topic: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a check. A package that cannot be imported, too, must not hide what the other checks find."""
    try:
        yield from check()
    except (LanceError, OSError, ImportError) as e:
        yield Finding(topic, "wrong", _without_home(str(e)))


def _python() -> Iterator[Finding]:
    version = platform.python_version()
    system = f"{platform.system()} {platform.machine()}"
    text = f"lance-spark {__version__}, Python {version}, {system}, {counted(os.cpu_count(), 'processor')}"
    try:
        needed = python_versions()
    except metadata.PackageNotFoundError:
        yield Finding("python", "note", f"{text}; lance-spark is on the path, but not installed as a package")
        return
    if not fits(version, needed):
        yield Finding("python", "wrong", f"{text}; lance-spark needs Python {needed}")
    elif platform.system() != "Linux":
        yield Finding("python", "note", f"{text}; only Linux is tested")
    else:
        yield Finding("python", "ok", text)
    names = sorted(name for name in os.environ if _SETTINGS.fullmatch(name))
    if names:
        yield Finding("python", "ok", f"variables that are set: {', '.join(names)}")


def _packages() -> Iterator[Finding]:
    try:
        needed = list(requirements())
    except metadata.PackageNotFoundError:
        yield Finding("packages", "note", "unknown, since lance-spark is not installed as a package")
        return
    versions = {requirement: requirement.installed() for requirement in needed}
    found = [f"{needed.name} {version}" for needed, version in versions.items() if version is not None]
    yield Finding("packages", "ok", ", ".join(dict.fromkeys(found)))
    for requirement, version in versions.items():
        if version is None and not requirement.extra:
            yield Finding("packages", "wrong", f"{requirement.name} is missing: pip install lance-spark")
        if version is not None and not requirement.allows(version):
            yield _misfit(requirement, version)


def _misfit(requirement: Requirement, version: str) -> Finding:
    package = f"lance-spark[{requirement.extra}]" if requirement.extra else "lance-spark"
    text = f"{requirement.name} {version} does not fit: {package} needs {requirement.versions}"
    return Finding("packages", "wrong", text)


def _java() -> Iterator[Finding]:
    """The Java that Spark would start: that of JAVA_HOME, else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    place = "of JAVA_HOME" if home else "on the path"
    failure: State = "wrong" if _has("pyspark") and _has("py4j") else "note"
    if java is None or not os.path.isfile(java):
        yield Finding("java", failure, f"there is no java {place}; Spark needs Java {_JAVA} or newer")
        return
    try:
        command = [java, "-version"]
        told = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_JAVA_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        yield Finding("java", failure, f"java {place} did not tell its version in {_JAVA_TIMEOUT_S} s")
        return
    version = _JAVA_VERSION.search(told.stderr + told.stdout)
    if version is None:
        yield Finding("java", failure, f"java {place} does not tell its version (exit code {told.returncode})")
    elif int(version[1]) < _JAVA:
        yield Finding("java", failure, f"Java {version[1]}{version[2]} {place}; Spark needs {_JAVA} or newer")
    else:
        yield Finding("java", "ok", f"Java {version[1]}{version[2]} {place}")


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _spark() -> Iterator[Finding]:
    if not _has("pyspark"):
        yield Finding("spark", "note", f"not installed, which only SQL and DataFrames need: {_SPARK}")
        return
    if not _has("py4j"):
        yield Finding("spark", "note", "a client of Spark Connect, which has no Spark of its own")
        return
    from lance_spark.spark.jvm.install import spark_version

    yield Finding("spark", "ok", f"PySpark {spark_version()}")


def _planner(start_spark: bool) -> Iterator[Finding]:
    if not _has("pyspark"):
        yield Finding("planner", "note", "not looked at, since it needs Spark")
        return
    if not _has("py4j"):
        text = "not looked at: a server of Spark Connect needs the jar of `lance-spark jar`"
        yield Finding("planner", "note", text)
        return
    from lance_spark.spark.jvm.classes import folder
    from lance_spark.spark.jvm.install import packaged_classes, try_planner

    if packaged_classes() is not None:
        yield Finding("planner", "ok", "its compiled classes are in the package")
    elif (kept := folder()) is not None:
        text = f"the package has no classes for this Spark: the first session compiles them into {_home(kept)}"
        yield Finding("planner", "note", text)
    else:
        yield Finding("planner", "note", "each session compiles its classes: no folder can keep them")
    if not start_spark:
        return
    reason = try_planner()
    if reason:
        yield Finding("planner", "wrong", f"it cannot be installed, so queries read whole tables: {reason}")
    else:
        yield Finding("planner", "ok", "it was installed into a session")


def _kernels() -> Iterator[Finding]:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        yield Finding("kernels", "note", "NUMBA_DISABLE_JIT is set: nothing is compiled, and loops are slow")
        return
    from lance_spark.kernels.warmed import listed

    folders = code_folders.kernel_folders()
    into = code_folders.writable(folders)
    for folder in folders:
        yield from _kernel_folder(folder)
    if into is None:
        yield Finding("kernels", "note", "no folder can be written to: each process compiles them again")
    else:
        yield Finding("kernels", "ok", f"new ones are kept in {_home(into)}")
    kernels = listed()
    forbidden = os.environ.get(PERMISSION) == "never"
    if kernels is None:
        state: State = "wrong" if forbidden else "note"
        text = f"not warm: there is no list of `lance-spark warm` of this version{_forbids(forbidden)}"
        yield Finding("kernels", state, text)
        return
    missing = [one for one in kernels if one.file() is None]
    text = f"{len(kernels) - len(missing)} of {len(kernels)} are compiled"
    if missing:
        state = "wrong" if forbidden else "note"
        yield Finding("kernels", state, f"{text}; `lance-spark warm` compiles the others{_forbids(forbidden)}")
    else:
        yield Finding("kernels", "ok", f"warm: {text}")


def _forbids(forbidden: bool) -> str:
    return f", and {PERMISSION}=never forbids to compile them" if forbidden else ""


def _kernel_folder(folder: Path) -> Iterator[Finding]:
    """A folder in which kernels are looked up, if it exists."""
    if not folder.is_dir():
        return
    if code_folders.is_trusted(folder):
        yield Finding("kernels", "ok", f"looked up in {_home(folder)}")
    else:
        text = f"{_home(folder)} is not used: another user owns it or can write to it, or to a folder above"
        yield Finding("kernels", "note", text)


def _storage(uri: str, options: Mapping[str, str]) -> Iterator[Finding]:
    from lance_spark.storage.credentials import credential_sources
    from lance_spark.storage.store import Store

    store = Store(uri, options)
    kind = store.location.kind
    if not store.is_remote:
        yield Finding("storage", "ok", f"{_without_home(shown(store.uri))}: {kind}")
        return
    sources = credential_sources(kind, options)
    if sources:
        text = f"credentials and settings, of which no value is shown: {', '.join(sources)}"
        yield Finding("storage", "ok", f"{shown(store.uri)}: {kind}; {text}")
    else:
        text = "no credentials were found; a role of the machine may give some"
        yield Finding("storage", "note", f"{shown(store.uri)}: {kind}; {text}")


def _commits(uri: str, options: Mapping[str, str]) -> Iterator[Finding]:
    from lance_spark.storage.store import Store
    from lance_spark.storage.trial import try_conditional_put

    try_conditional_put(Store(uri, options))
    yield Finding("commits", "ok", "a temporary object was written once, refused the second time, and removed")


def _table(uri: str, options: Mapping[str, str]) -> Iterator[Finding]:
    from lance_spark.dataset import Dataset
    from lance_spark.inspection.overview import overview

    dataset = Dataset.open(uri, storage_options=options)
    found = overview(dataset.snapshot)
    writer = f", written by {found.writer}" if found.writer else ""
    yield Finding("table", "ok", f"{found.title}, {found.counts}{writer}")
    report = dataset.verify(decode=False, progress=False)
    state: State = "ok" if report.ok else "wrong"
    files, problems = counted(report.files, "file"), counted(len(report.problems), "problem")
    text = f"sizes and numbers of rows of {files}: {problems}, {counted(len(report.orphans), 'orphan')}"
    yield Finding("table", state, f"{text}; `lance-spark verify` also decodes")
    for problem in report.problems[:_PROBLEMS_SHOWN]:
        yield Finding("table", "wrong", f"{problem.kind}: {problem.path}: {problem.message}")
    if len(report.problems) > _PROBLEMS_SHOWN:
        yield Finding("table", "wrong", f"and {len(report.problems) - _PROBLEMS_SHOWN} more problems")


def _home(path: Path) -> str:
    return _without_home(str(path))


def _without_home(text: str) -> str:
    """A text without the user's folder, whose name is often the user's."""
    home = os.path.expanduser("~")
    return text.replace(f"{home}/", "~/") if home not in ("~", "/") else text
