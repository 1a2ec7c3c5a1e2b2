"""Programs of tests that are run often: a process imports them once, and forks itself for each run.

A module that is such a program has `warm()`, which does what takes long the first time in a process, and
`main(arguments)`. Both leave no thread behind, which a fork would not survive.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def run(module: str, *arguments: str, under: tuple[str, ...] = ()) -> str:
    """What the program prints, which must succeed. `under` is a command that runs the process that has imported it.

    The program has the environment variables of this process, and its own output.
    """
    server = _server(under)
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder, "out"), Path(folder, "errors")
        request = {
            "module": module,
            "arguments": arguments,
            "environment": dict(os.environ),
            "out": str(out),
            "errors": str(errors),
        }
        print(json.dumps(request), file=server.stdin, flush=True)
        answer = ""
        try:
            answer = server.stdout.readline()
        finally:
            if not answer:  # it has ended, or the test was interrupted, and this answer will come too late
                _server.cache_clear()
                server.kill()
        assert answer, "the process that forks programs has ended"
        assert json.loads(answer) == 0, errors.read_text()
        return out.read_text()


@functools.cache
def _server(under: tuple[str, ...]) -> subprocess.Popen[str]:
    command = [*under, sys.executable, "-m", "tests.programs"]
    server = subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(server.communicate)
    return server


def _serve() -> None:
    """Answer each line, a request, with the exit status of its run."""
    modules: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        name = request["module"]
        if name not in modules:
            modules[name] = importlib.import_module(name)
            modules[name].warm()
        pid = os.fork()
        if pid == 0:
            _run(modules[name].main, request)
        _, status = os.waitpid(pid, 0)
        print(json.dumps(status), flush=True)


def _run(main: Any, request: dict[str, Any]) -> None:
    """Run the program in this process, and end it."""
    status = 1
    try:
        for descriptor, file in (1, request["out"]), (2, request["errors"]):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), descriptor)
        os.environ.clear()
        os.environ.update(request["environment"])
        main(*request["arguments"])
        status = 0
    finally:
        if status:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
