"""Run the commands of a job of .github/workflows on this machine, or list them.

    .venv/bin/python scripts/workflow.py                  # all jobs with their commands
    .venv/bin/python scripts/workflow.py ci lint
    .venv/bin/python scripts/workflow.py ci spark spark=4.1

Only the commands are run (`run`), with the variables of the job (`env`): the actions (`uses`) need the forge. A command
has no expressions, so that it is the same there and here; they are in the variables.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[1] / ".github" / "workflows"
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.]+)\s*\}\}")


@dataclass(frozen=True)
class Job:
    """A job: its commands, its variables, and the values of its matrix."""

    name: str
    commands: tuple[str, ...]
    variables: Mapping[str, str]
    matrix: Mapping[str, tuple[str, ...]]

    def environment(self, chosen: Mapping[str, str]) -> dict[str, str]:
        """The variables with chosen values of the matrix, or its first ones; what only the forge knows is left out.

        Raises ValueError for a value that the matrix has not.
        """
        for name, value in chosen.items():
            if value not in self.matrix.get(name, ()):
                raise ValueError(f"the matrix of {self.name} has no {name}={value}")
        known = {f"matrix.{name}": chosen.get(name, values[0]) for name, values in self.matrix.items()}
        found = {}
        for name, text in self.variables.items():
            if all(expression in known for expression in _EXPRESSION.findall(text)):
                found[name] = _EXPRESSION.sub(lambda match: known[match[1]], text)
        return found


def jobs(workflow: Path) -> dict[str, Job]:
    """The jobs of a workflow by name."""
    content = yaml.safe_load(workflow.read_text())
    return {name: _job(name, job) for name, job in content["jobs"].items()}


def _job(name: str, job: Mapping[str, Any]) -> Job:
    commands = tuple(step["run"] for step in job["steps"] if "run" in step)
    variables = {key: str(value) for key, value in job.get("env", {}).items()}
    matrix = {key: tuple(map(str, values)) for key, values in job.get("strategy", {}).get("matrix", {}).items()}
    return Job(name, commands, variables, matrix)


def run(job: Job, chosen: Mapping[str, str]) -> int:
    """Run the commands one after the other, and return the exit code of the first that fails; 0 if none does."""
    environment = {**os.environ, **job.environment(chosen)}
    for command in job.commands:
        print(f"+ {command}", file=sys.stderr, flush=True)
        # As the forge runs them.
        status = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command], env=environment)
        if status.returncode:
            return status.returncode
    return 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Run the commands of a job.")
    parser.add_argument("workflow", nargs="?", choices=sorted(path.stem for path in FOLDER.glob("*.yml")))
    parser.add_argument("job", nargs="?")
    parser.add_argument("matrix", nargs="*", metavar="NAME=VALUE")
    given = parser.parse_args()
    if given.job is None:
        for path in [FOLDER / f"{given.workflow}.yml"] if given.workflow else sorted(FOLDER.glob("*.yml")):
            for job in jobs(path).values():
                print(f"{path.stem} {job.name}", *job.commands, sep="\n    ")
        return 0
    known = jobs(FOLDER / f"{given.workflow}.yml")
    if given.job not in known:
        parser.error(f"no job {given.job!r}; there are {', '.join(known)}")
    chosen = dict(pair.split("=", 1) for pair in given.matrix if "=" in pair)
    try:
        return run(known[given.job], chosen)
    except ValueError as e:
        parser.error(str(e))


if __name__ == "__main__":
    sys.exit(main())
