"""pylance in a process of its own, which may crash or hang: what it makes of a table.

As a program it reads a path from each line of its input, and answers with a line of JSON.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass

from fuzz.seeds import ROOT

_SECONDS = 30


@dataclass(frozen=True)
class Seen:
    """The version and the number of rows that pylance reads; an error, or why it did not answer, if it reads none."""

    version: int = -1
    rows: int = -1
    error: str = ""


class Oracle:
    """Asks, and starts the process again when it has died or hangs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def look(self, uri: str) -> Seen:
        """What pylance reads at `uri`."""
        if self._process is None:
            command = [sys.executable, "-m", "fuzz.oracle"]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, preexec_fn=os.setsid)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(uri.encode() + b"\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], _SECONDS)
        line = self._process.stdout.readline() if ready else b""
        if line:
            return Seen(**json.loads(line))
        self.close()
        return Seen(error="it died" if ready else "it hangs")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def main() -> None:
    import lance

    for line in sys.stdin:
        try:
            table = lance.dataset(line.rstrip("\n"))
            answer: dict[str, object] = {"version": table.version, "rows": sum(batch.num_rows for batch in table.to_batches())}
        except BaseException as e:  # noqa: BLE001 - panics of Rust are no exceptions
            answer = {"error": f"{type(e).__name__}: {e}"[:300]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
