"""Check that what was built is what a tag says, before it is published: `python scripts/release.py v0.1.0 dist`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


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
    return found


if __name__ == "__main__":
    wrong = problems(sys.argv[1], Path(sys.argv[2]))
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(1 if wrong else 0)
