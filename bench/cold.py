"""Whole cold sessions beside Parquet, Delta Lake and Iceberg: a process starts Spark, groups 100,000 rows, appends a few, and ends.

Each contestant is installed in a new virtual environment; Delta Lake and Iceberg with the Spark that their jars are made for. `SETTINGS`
are the ways in which sessions find the package and what is compiled. Wall time is that of the session's process; processor time is also
that of the JVM, of Python workers and of the cluster. Run by `make bench-cold`, which needs network access.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parent.parent
SESSION = Path(__file__).with_name("cold_session.py")
PLACE = Path("lance_spark", "spark", "jvm", "classes.jar")
ROWS = 100_000
NEWEST, OF_THE_JARS = "pyspark[connect]>=4.3,<4.4", "pyspark[connect]==4.0.*"
JARS = "jsoniq==3.0.2"
"""The wheel of another project that has the jars of Delta Lake and Iceberg for Spark 4.0."""
FORMATS = "org.apache.spark.sql.delta.sources.DeltaDataSource\norg.apache.iceberg.spark.source.IcebergSource\n"
"""The jar of all classes has lost the short names of the data sources."""
EXTENSIONS = {
    "lance": "lancespark.LancePlanner$Extensions",
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
KEPT = ("PATH", "JAVA_HOME", "LANG")
"""The only variables of this process that sessions have: others may name other installations."""
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""With this command, root cannot write what its mode forbids."""
WITHOUT_PLANNER = "queries read whole lance tables"
"""What a session warns of whose planner could not be installed: its figures would be those of another path."""
PORT = 7177
PR_SET_CHILD_SUBREAPER = 36

COUNTER = """
import os
from numba.core import event
class Counter(event.Listener):
    def on_start(self, event):
        pass
    def on_end(self, event):
        name = event.data["dispatcher"].py_func.__module__
        if name.startswith("lance_spark"):
            with open(os.environ["COLD_COMPILED"], "a") as file:
                file.write(name + "\\n")
event.register("numba:compile", Counter())
"""
"""A `sitecustomize` with which each Python process notes the kernels that it compiles."""


@dataclass(frozen=True)
class Contestant:
    """A format, and the environment in which it is installed; the jars that its sessions have."""

    format: str
    python: Path
    jars: tuple[Path, ...] = ()


@dataclass
class Launch:
    """How a session is started: settings of Spark, variables, options of spark-submit, and what is before the command."""

    python: Path
    home: Path
    settings: dict[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ("--master", "local[2]")
    prefix: tuple[str, ...] = ()
    remote: str | None = None

    def environment(self) -> dict[str, str]:
        """The variables of the session's process."""
        # A driver that starts its own server of Connect passes its settings in the same way.
        settings = [part for key, value in self.settings.items() for part in ("--conf", f"{key}={value}")]
        own = {
            "HOME": str(self.home),
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_SUBMIT_ARGS": shlex.join([*self.options, *settings, "pyspark-shell"]),
        }
        remote = {"COLD_REMOTE": self.remote} if self.remote else {}
        return {key: os.environ[key] for key in KEPT if key in os.environ} | own | remote | self.variables


@dataclass(frozen=True)
class Figures:
    """What a session took: seconds, processor seconds, and the seconds of its steps."""

    wall: float
    processor: float
    steps: str


@dataclass(frozen=True)
class Bench:
    """The installations in a folder, and the sessions that use them."""

    folder: Path
    package: Path
    """The site-packages of ours."""
    bare: Path
    """A Python with all dependencies and without the package, of which `zip` is the zip."""
    read_only: Path
    """The Python of a copy of ours in which no folder can be written."""
    zip: Path
    contestants: list[Contestant]

    @classmethod
    def installed(cls, folder: Path) -> Bench:
        """Install all in this folder, compile what `warm` compiles, and make a table for each contestant."""
        ours = _environment(folder / "ours", NEWEST, f"{ROOT}[spark]")
        package = next((folder / "ours").glob("lib/python*/site-packages"))
        shutil.copy(os.environ["LANCE_SPARK_CLASSES"], package / PLACE)
        bare = _without_package(folder / "ours")
        archive = _zip(package, folder / "lance_spark.zip")
        # Elsewhere than in a checkout, which `-m` would take for the installation.
        subprocess.run([ours, "-m", "lance_spark", "warm"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        contestants = [Contestant("lance", ours), Contestant("parquet", ours), *_others(folder)]
        bench = cls(folder, package, bare, _read_only_copy(folder / "ours"), archive, contestants)
        rows = _rows(folder / "rows.parquet")
        for contestant in contestants:
            with bench._started("warm", contestant) as launch:
                _run(launch, contestant.format, str(bench._stored(contestant)), str(rows))
        return bench

    def _stored(self, contestant: Contestant) -> Path:
        return self.folder / "tables" / contestant.format

    def session(self, setting: str, contestant: Contestant, variables: dict[str, str], options: str = "") -> Figures:
        """Run a session on the table as it was made, with these variables and options of the driver's JVM."""
        table, made = self._stored(contestant), self.folder / "made" / contestant.format
        if not made.exists():
            shutil.copytree(table, made)
        shutil.rmtree(table)
        shutil.copytree(made, table)
        with self._started(setting, contestant) as launch:
            launch.variables |= variables
            launch.settings["spark.driver.extraJavaOptions"] += options
            start = time.perf_counter()
            steps = _run(launch, contestant.format, str(table))
            wall = time.perf_counter() - start
        return Figures(wall, _processor_seconds_of_ended(), steps)

    @contextmanager
    def _started(self, setting: str, contestant: Contestant) -> Iterator[Launch]:
        """A launch in a setting, with a home and a folder for temporary files of its own."""
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as name:
            home, temporary = Path(name, "home"), Path(name, "tmp")
            home.mkdir()
            temporary.mkdir()
            Path(name).chmod(0o755)
            temporary.chmod(0o1777)
            launch = Launch(contestant.python, home, self._settings(contestant), {"TMPDIR": str(temporary)})
            launch.settings["spark.driver.extraJavaOptions"] = f"-Djava.io.tmpdir={temporary}"
            launch.settings["spark.local.dir"] = launch.settings["spark.sql.warehouse.dir"] = str(temporary)
            SETTINGS[setting](self, contestant, launch)
            workers = _standalone_cluster(launch, temporary) if setting == "cluster" else []
            try:
                yield launch
            finally:
                for worker in workers:
                    worker.terminate()

    def _settings(self, contestant: Contestant) -> dict[str, str]:
        found = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        }
        found["spark.log.level"] = "ERROR"
        if contestant.jars:
            found["spark.jars"] = ",".join(map(str, contestant.jars))
            found["spark.driver.extraClassPath"] = ":".join(map(str, contestant.jars))
            found["spark.sql.extensions"] = EXTENSIONS[contestant.format]
        if contestant.format == "delta":
            found["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        if contestant.format == "iceberg":
            found["spark.sql.catalog.c"] = "org.apache.iceberg.spark.SparkCatalog"
            found["spark.sql.catalog.c.type"] = "hadoop"
            found["spark.sql.catalog.c.warehouse"] = str(self._stored(contestant).parent)
        return found


def _warm(bench: Bench, contestant: Contestant, launch: Launch) -> None:
    """Root has run `lance-spark warm` after the installation; other settings differ from this one."""


def _read_only(bench: Bench, contestant: Contestant, launch: Launch) -> None:
    if contestant.format in ("lance", "parquet"):
        launch.python = bench.read_only
    launch.home.chmod(0o555)
    if not os.getuid():
        launch.prefix = UNPRIVILEGED


def _without_bytecode(bench: Bench, contestant: Contestant, launch: Launch) -> None:
    launch.variables["PYTHONDONTWRITEBYTECODE"] = "1"


def _py_files(bench: Bench, contestant: Contestant, launch: Launch) -> None:
    if contestant.format == "lance":
        launch.python = bench.bare
        launch.options += ("--py-files", str(bench.zip))


def _cluster(bench: Bench, contestant: Contestant, launch: Launch) -> None:
    launch.options = ("--master", f"spark://127.0.0.1:{PORT}")
    launch.settings["spark.executor.memory"] = "1g"


def _connect(bench: Bench, contestant: Contestant, launch: Launch) -> None:
    launch.remote, launch.options = "local[2]", ()
    if contestant.format == "lance":
        launch.settings["spark.jars"] = str(bench.package / PLACE)
        launch.settings["spark.sql.extensions"] = EXTENSIONS["lance"]


SETTINGS: dict[str, Callable[[Bench, Contestant, Launch], None]] = {
    "warm": _warm,
    "read-only": _read_only,
    "no-bytecode": _without_bytecode,
    "py-files": _py_files,
    "cluster": _cluster,
    "connect": _connect,
}


def _others(folder: Path) -> list[Contestant]:
    """Delta Lake and Iceberg, if their jars are at hand."""
    try:
        python = _environment(folder / "others", OF_THE_JARS, "pandas<3", "pyarrow")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", JARS], check=True)
    except subprocess.CalledProcessError:
        print("without Delta Lake and Iceberg, whose jars are not at hand")
        return []
    names = folder / "names.jar"
    with zipfile.ZipFile(names, "w") as jar:
        jar.writestr("META-INF/services/org.apache.spark.sql.sources.DataSourceRegister", FORMATS)
    jars = (*(folder / "others").glob("lib/python*/site-packages/jsoniq/jars/*.jar"), names)
    return [Contestant("delta", python, jars), Contestant("iceberg", python, jars)]


def _link(file: str, copy: str) -> None:
    os.link(file, copy, follow_symlinks=False)


def _environment(folder: Path, *packages: str) -> Path:
    """Make an environment with these packages. Returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def _without_package(environment: Path) -> Path:
    """A copy of an environment that has all dependencies, but not the package. Returns its Python."""
    copy = environment.with_name("bare")
    shutil.copytree(environment, copy, symlinks=True, copy_function=_link)
    for package in copy.glob("lib/python*/site-packages/*lance_spark*"):
        shutil.rmtree(package)
    return copy / "bin" / "python"


def _read_only_copy(environment: Path) -> Path:
    """A copy of an environment in which no folder can be written. Returns its Python."""
    copy = environment.with_name("read-only")
    shutil.copytree(environment, copy, symlinks=True, copy_function=_link)
    for folder in copy.glob("**/"):
        folder.chmod(0o555)
    return copy / "bin" / "python"


def _zip(packages: Path, target: Path) -> Path:
    """The zip of the package, made as in docs/how-to/platforms.md."""
    command = [sys.executable, "-m", "zipfile", "-c", str(target), "lance_spark", "pyspark_lance"]
    subprocess.run(command, cwd=packages, check=True)
    return target


def _rows(path: Path) -> Path:
    n = np.random.default_rng(0).integers(11, 10**6, ROWS)
    labels = [f"label {i % 200}" for i in n]
    texts = [f"text with {i}" for i in n]
    pq.write_table(pa.table({"key": range(ROWS), "label": labels, "n": n, "text": texts}), path)
    return path


def _run(launch: Launch, *arguments: str) -> str:
    """Run a session. Returns its last line."""
    command = [*launch.prefix, str(launch.python), str(SESSION), *arguments]
    with open(launch.home.parent / "log", "w+") as log:
        done = subprocess.run(
            command,
            cwd=launch.home.parent / "tmp",
            env=launch.environment(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.seek(0)
        written = log.read()
    if done.returncode:
        raise SystemExit(f"{arguments[0]}: the session failed\n{written}")
    if WITHOUT_PLANNER in written:
        raise SystemExit(f"{arguments[0]}: the session has no planner\n{written}")
    return (done.stdout.splitlines() or [""])[-1]


def _standalone_cluster(launch: Launch, folder: Path) -> list[subprocess.Popen[bytes]]:
    """Start a master and two workers, which end when they are terminated."""
    home = next(launch.python.parent.parent.glob("lib/python*/site-packages/pyspark"))
    environment = launch.environment() | {
        "SPARK_HOME": str(home),
        "SPARK_WORKER_DIR": str(folder),
        "SPARK_SCALA_VERSION": "2.13",
    }
    deploy, ports = "org.apache.spark.deploy", ["--host", "127.0.0.1", "--webui-port", "0"]
    master = [f"{deploy}.master.Master", *ports, "--port", str(PORT)]
    worker = [
        f"{deploy}.worker.Worker",
        *ports,
        "--cores",
        "1",
        "--memory",
        "1g",
        f"spark://127.0.0.1:{PORT}",
    ]
    started: list[subprocess.Popen[bytes]] = []
    for command in (master, worker, worker):
        with open(folder / f"log{len(started)}", "wb") as log:
            started.append(
                subprocess.Popen(
                    [home / "bin" / "spark-class", *command],
                    env=environment,
                    stdout=log,
                    stderr=log,
                )
            )
    while any("registered with master" not in (folder / f"log{i}").read_text() for i in (1, 2)):
        time.sleep(0.1)
    return started


def _processor_seconds_of_ended() -> float:
    """Wait for all processes that were started, and return the processor seconds of all that have ended since the last call."""
    global _counted
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
    times = os.times()
    before, _counted = _counted, times.children_user + times.children_system
    return _counted - before


_counted = 0.0


def compiled(bench: Bench, setting: str, contestant: Contestant) -> tuple[int, int]:
    """How many of the planner's classes and of the kernels a session compiles."""
    with tempfile.TemporaryDirectory(dir=bench.folder) as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "sitecustomize.py").write_text(COUNTER)
        (folder / "sitecustomize.py").chmod(0o644)
        (folder / "kernels").touch(0o666)
        (folder / "kernels").chmod(0o666)
        variables = {"PYTHONPATH": name, "COLD_COMPILED": str(folder / "kernels")}
        bench.session(setting, contestant, variables, f" -Xlog:class+load:file={folder}/classes")
        loaded = [line for line in (folder / "classes").read_text().splitlines() if " lancespark." in line]
        assert loaded, "the planner is not there"
        made = [line for line in loaded if not re.search(r"/(classes|packaged-\w+)\.jar$", line)]
        return len(made), len((folder / "kernels").read_text().splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cold", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS), help="only these settings")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        bench = Bench.installed(Path(name))
        measure(bench, given.only, given.rounds)


def measure(bench: Bench, settings: list[str], rounds: int) -> None:
    """Print a table. The contestants take turns."""
    # The JVM outlives its parent. As its next one, this process learns its processor time.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    print("| setting | contestant | wall s | CPU s | of Parquet | start, enable, query, append, stop | classes | kernels |")
    print("|---|---|---|---|---|---|---|---|")
    for setting in settings:
        found: dict[str, list[Figures]] = {contestant.format: [] for contestant in bench.contestants}
        _processor_seconds_of_ended()
        for _ in range(rounds):
            for contestant in bench.contestants:
                found[contestant.format].append(bench.session(setting, contestant, {}))
        for line in lines(setting, found, compiled(bench, setting, bench.contestants[0])):
            print(line, flush=True)


def lines(setting: str, found: dict[str, list[Figures]], ours: tuple[int, int]) -> Iterator[str]:
    """The lines of a setting: medians, the ratios to Parquet's, the steps of the last session, and what ours compiled."""
    walls = {name: statistics.median(session.wall for session in sessions) for name, sessions in found.items()}
    processors = {name: statistics.median(session.processor for session in sessions) for name, sessions in found.items()}
    for name, sessions in found.items():
        ratios = f"{walls[name] / walls['parquet']:.2f} / {processors[name] / processors['parquet']:.2f}"
        counts = f"{ours[0]} | {ours[1]}" if name == "lance" else " | "
        steps = sessions[-1].steps.removeprefix("seconds ")
        yield f"| {setting} | {name} | {walls[name]:.1f} | {processors[name]:.1f} | {ratios} | {steps} | {counts} |"


if __name__ == "__main__":
    main()
