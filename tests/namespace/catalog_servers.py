"""Real servers of catalogs, each in a process of its own.

They are a Hive metastore of Spark's jars and, from PyPI, an emulator of Unity Catalog and a catalog with Iceberg's protocol.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_HIVE_SITE = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:hms;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",  # Spark has no jar for it
    "datanucleus.connectionPoolingType": "hikaricp",  # nor for the usual pool
    "hive.in.test": "true",  # without it, dropping a database asks for tables of transactions
}
_START_S = 180


@contextlib.contextmanager
def hive(folder: Path) -> Iterator[str]:
    """The address of an empty Hive metastore of version 2.3."""
    import pyspark

    settings = {**_HIVE_SITE, "hive.metastore.warehouse.dir": str(folder / "warehouse")}
    members = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    (folder / "hive-site.xml").write_text(f"<configuration>{members}</configuration>")
    jars = Path(pyspark.__file__).parent / "jars"
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    port = _free_port()
    main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
    with _running([str(java), "-Xmx512m", "-cp", f"{folder}:{jars}/*", main, "-p", str(port)], folder):
        _until_open(port)
        yield f"thrift://127.0.0.1:{port}"


@contextlib.contextmanager
def unity(folder: Path) -> Iterator[str]:
    """The address of a service with Unity Catalog's API, with the catalog "lake"."""
    command = _installed(folder, "minilake==1.9.0", "minilake")
    port = _free_port()
    with _running([command, "--port", str(port)], folder, {"HOME": str(folder)}):
        _until_open(port)
        endpoint = f"http://127.0.0.1:{port}"
        body = json.dumps({"name": "lake"}).encode()
        headers = {"Content-Type": "application/json", "Authorization": "Bearer x"}
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/api/2.1/unity-catalog/catalogs", body, headers)).close()
        yield endpoint


@contextlib.contextmanager
def iceberg(folder: Path) -> Iterator[tuple[str, str]]:
    """The address of a catalog with Iceberg's REST protocol, and its token. It has the warehouse "dev", and chooses locations itself."""
    command = _installed(folder, "lakana[server]==0.20.0", "lakana")
    data, port = folder / "data", _free_port()
    data.mkdir(mode=0o700)
    here = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    with _running([command, "server", "start", "--local", "--data-dir", str(data), "--port", str(port)], folder, here):
        _until_open(port)
        local = tomllib.loads(_written(folder / "config" / "lakana" / "config.toml"))["profiles"]["local"]
        yield local["url"], local["token"]


def _installed(folder: Path, requirement: str, command: str) -> str:
    """A command of a package, which is installed in an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", requirement], check=True)
    return str(folder / "venv" / "bin" / command)


@contextlib.contextmanager
def _running(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[None]:
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _written(file: Path) -> str:
    """The text of a file that a server writes."""
    end = time.monotonic() + _START_S
    while not file.exists() or not file.read_text():
        assert time.monotonic() < end, f"{file} is not written"
        time.sleep(0.1)
    return file.read_text()


def _until_open(port: int) -> None:
    end = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
