"""Compile the kernels that the wheel brings in lance_spark/kernels/ready, so that a user's machine does not.

    python scripts/kernels.py FOLDER VERSION..

Code depends on the versions of Python, numba and llvmlite. So each VERSION of Python, such as 3.12,
gets an environment with the newest numba, and runs `lance-spark warm` there. FOLDER keeps the
environments and the code, of which only what has changed is compiled again; its subfolder `ready` is
for the wheel. A version of Python that this machine does not have is left out, with a note.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = "warmed.json"


def interpreter(version: str) -> str | None:
    """A Python of this version: this one, from the PATH, or pyenv's."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in [sys.executable, shutil.which(f"python{version}"), *map(str, of_pyenv)]:
        if python is None:
            continue
        answer = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return python
    return None


def compiled(python: str, home: Path, version: str) -> Path:
    """An archive of the code for this version, which is made in an environment of its own."""
    environment = home / f"python-{version}"
    command = str(environment / "bin" / "python")
    if not environment.exists():
        subprocess.run([python, "-m", "venv", str(environment)], check=True)
    newest = ["--upgrade", "--upgrade-strategy", "eager", "--editable", str(ROOT)]
    subprocess.run([command, "-m", "pip", "install", "--quiet", *newest], check=True)
    archive = home / f"{version}.tar.gz"
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(home / "code"), "LANCE_SPARK_KERNELS": ""}
    warm = [command, "-m", "lance_spark", "warm", "--out", str(archive)]
    subprocess.run(warm, check=True, cwd=ROOT, env=settings)
    return archive


def unpack(archives: list[Path], into: Path) -> None:
    """Put the code of all archives, and their list, which is the same in all, into a new folder."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    lists = set()
    for archive in archives:
        with tarfile.open(archive) as packed:
            packed.extractall(into, filter="data")
        lists.add((into / LIST).read_text())
    if len(lists) > 1:
        sys.exit("the versions of Python call kernels for other types, so no list fits all")


def main(folder: str, *versions: str) -> None:
    home = Path(folder).resolve()
    home.mkdir(parents=True, exist_ok=True)
    archives = []
    for version in versions:
        python = interpreter(version)
        if python is None:
            print(
                f"there is no Python {version}: the wheel will have no kernels for it",
                file=sys.stderr,
            )
        else:
            archives.append(compiled(python, home, version))
    unpack(archives, home / "ready")


if __name__ == "__main__":
    main(*sys.argv[1:])
