"""Check that what was built is what a tag says, before it is published: `python scripts/release.py v0.1.0 dist`."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNELS = "lance_spark/kernels/ready/"


def problems(tag: str, built: Path) -> list[str]:
    """Why the files in a folder must not be published under a tag; empty if they may."""
    code = (ROOT / "lance_spark" / "version.py").read_text()
    version = re.search(r'^__version__ = "(.+)"$', code, re.MULTILINE)
    assert version is not None
    changes = (ROOT / "CHANGELOG.md").read_text()
    found = []
    if tag != f"v{version[1]}":
        found.append(f"the tag is {tag!r}, but lance_spark/version.py says {version[1]!r}")
    if not re.search(rf"^## {re.escape(version[1])}(?! \(unreleased\))", changes, re.MULTILINE):
        found.append(f"CHANGELOG.md has no entry of {version[1]}, or it says that it is not released")
    expected = {f"lance_spark-{version[1]}-py3-none-any.whl", f"lance_spark-{version[1]}.tar.gz"}
    names = {path.name for path in built.iterdir()} if built.is_dir() else set()
    if names != expected:
        found.append(f"{built} has {sorted(names)}, not {sorted(expected)}")
    for wheel in built.glob("*.whl"):
        found += _lacks_kernels(wheel)
    return found


def _lacks_kernels(wheel: Path) -> list[str]:
    """Why the kernels in a wheel are not those of all versions of Python; empty if they are."""
    pythons = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    with zipfile.ZipFile(wheel) as packed:
        code = [name for name in packed.namelist() if name.startswith(KERNELS) and name.endswith(".kernel")]
        listed = json.loads(packed.read(f"{KERNELS}warmed.json"))["kernels"] if code else []
    if code and len(code) == len(pythons) * len(listed):
        return []
    return [f"{wheel.name} has {len(code)} compiled kernels, not {len(listed)} for each of Python {', '.join(pythons)}"]


if __name__ == "__main__":
    wrong = problems(sys.argv[1], Path(sys.argv[2]))
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(1 if wrong else 0)
