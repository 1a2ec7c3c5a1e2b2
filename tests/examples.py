"""The examples of a page: its fenced blocks, executed from top to bottom in one namespace.

A python block is executed, the statements of a sql block go to the Spark session, and a sh block goes to bash. A text block right after
one of them is what it prints, where `...` stands for anything. A block with the comment `<!-- not run: reason -->` on the line before
it is not run. Pages keep their tables in /tmp; a run has its working directory in place of it.

`python -P tests/examples.py PAGE` runs a page in any environment, which needs nothing of this repository but this file. Its tables are in a
folder that is removed at the end.
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import io
import itertools
import linecache
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

RUN = ("python", "sql", "sh")
SHOWN = ("text", "toml", "java", "json")
_FENCE = re.compile(r"( *)```(\S*)[^\n]*\n(.*?\n)\1```$", re.DOTALL | re.MULTILINE)
_NOT_RUN = re.compile(r"<!-- not run: .+ -->\n\Z")
_END_OF_STATEMENT = re.compile(r";[ \t]*(?:--[^\n]*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """One block: its language and text, the line of the page on which it begins, and what it prints (None: the page does not show it)."""

    language: str
    source: str
    line: int
    expected: str | None


def examples(text: str) -> list[Example]:
    """The blocks of a page that are to be run. Raises ValueError for a block of no known language."""
    found: list[Example] = []
    fences: list[re.Match[str] | None] = [*_FENCE.finditer(text), None]
    for fence, following in itertools.pairwise(fences):
        assert fence is not None
        language, line = fence[2], text.count("\n", 0, fence.start()) + 1
        if language.startswith("{"):
            continue  # a directive of Sphinx
        if language not in RUN + SHOWN:
            raise ValueError(f"line {line}: a block of {language or 'no language'}; expected one of {', '.join(RUN + SHOWN)}")
        if language in SHOWN or _NOT_RUN.search(text[: fence.start()]):
            continue
        is_output = following is not None and following[2] == "text" and not text[fence.end() : following.start()].strip()
        found.append(Example(language, _dedented(fence), line, _dedented(following) if following is not None and is_output else None))
    return found


def _dedented(fence: re.Match[str]) -> str:
    return re.sub(f"^{fence[1]}", "", fence[3], flags=re.MULTILINE)


def run_page(page: Path, namespace: dict[str, Any]) -> int:
    """Run the examples of a page in the working directory, and give their number. Raises AssertionError for other output than shown."""
    text = page.read_text()
    # So that tracebacks show the lines of the page.
    linecache.cache[str(page)] = (len(text), None, text.splitlines(keepends=True), str(page))
    blocks = examples(text)
    for example in blocks:
        out, here = io.StringIO(), f"{Path.cwd()}/"
        with contextlib.redirect_stdout(out):
            _run(replace(example, source=example.source.replace("/tmp/", here)), page, namespace)
        if example.expected is not None:
            _check(page, example, out.getvalue().replace(here, "/tmp/"))
    return len(blocks)


def _run(example: Example, page: Path, namespace: dict[str, Any]) -> None:
    if example.language == "python":
        exec(compile("\n" * example.line + example.source, str(page), "exec"), namespace)
    elif example.language == "sql":
        for statement in _END_OF_STATEMENT.split(example.source):
            if statement.strip():
                result = namespace["spark"].sql(statement)
                if result.columns:
                    result.show(truncate=False)
    else:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        command = ["bash", "-euo", "pipefail", "-c", example.source]
        done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True)
        assert done.returncode == 0, f"{page}, line {example.line}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        print(done.stdout, end="")


def _check(page: Path, example: Example, printed: str) -> None:
    shown, got = (_without_trailing_spaces(text) for text in (example.expected or "", printed))
    if not doctest.OutputChecker().check_output(shown, got, doctest.ELLIPSIS):
        difference = difflib.unified_diff(shown.splitlines(), got.splitlines(), "shown", "printed", lineterm="")
        raise AssertionError("\n".join([f"{page}, line {example.line}: the example prints something else", *difference]))


def _without_trailing_spaces(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"


if __name__ == "__main__":
    page = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        print(f"{run_page(page, {})} examples")
