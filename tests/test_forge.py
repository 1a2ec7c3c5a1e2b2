"""The files for a public forge: they have the form that it reads, and their jobs run what the Makefile has."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import lance_spark

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
EXPRESSION = re.compile(r"\$\{\{")


def script(name: str) -> ModuleType:
    """A program of the folder `scripts`, as a module."""
    place = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    sys.modules[name] = module  # dataclasses look there
    place.loader.exec_module(module)
    return module


workflow = script("workflow")
release = script("release")
JOBS = {f"{path.stem} {name}": job for path in WORKFLOWS for name, job in workflow.jobs(path).items()}


def content(path: Path) -> dict[Any, Any]:
    loaded = yaml.safe_load(path.read_text())
    assert isinstance(loaded, dict)
    return loaded


WORKFLOW_KEYS = {"name", True, "permissions", "concurrency", "jobs"}
"""`True` is how YAML reads the key `on`."""
JOB_KEYS = {
    "runs-on",
    "timeout-minutes",
    "strategy",
    "env",
    "steps",
    "needs",
    "if",
    "permissions",
    "environment",
}
STEP_KEYS = {"name", "uses", "with", "run"}
RIGHTS = {"read", "write", "none"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_the_form_that_the_forge_reads(path: Path) -> None:
    whole = content(path)
    assert set(whole) <= WORKFLOW_KEYS
    assert {"name", True, "permissions", "jobs"} <= set(whole)
    assert set(whole[True]) <= {"push", "pull_request", "schedule", "workflow_dispatch"}
    assert whole["permissions"] == {"contents": "read"}
    for name, job in whole["jobs"].items():
        assert re.fullmatch(r"[a-z]+", name)
        assert set(job) <= JOB_KEYS
        assert {"runs-on", "timeout-minutes", "steps"} <= set(job)
        assert set(job.get("permissions", {}).values()) <= RIGHTS
        needed = job.get("needs", [])
        assert set(needed) <= set(whole["jobs"]) - {name}
        for step in job["steps"]:
            assert set(step) <= STEP_KEYS
            assert ("uses" in step) != ("run" in step)
            assert re.fullmatch(r"[\w-]+/[\w-]+@[\w./]+", step.get("uses", "a/b@c"))


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_of_issues_has_the_form_that_the_forge_reads(path: Path) -> None:
    form = content(path)
    assert set(form) == {"name", "description", "labels", "body"}
    ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0
    for field in form["body"]:
        assert field["type"] in ("markdown", "textarea", "input", "dropdown", "checkboxes")
        assert set(field) <= {"type", "id", "attributes", "validations"}
        needed = "value" if field["type"] == "markdown" else "label"
        assert field["attributes"][needed]
        if field["type"] == "dropdown":
            options = field["attributes"]["options"]
            assert all(isinstance(option, str) for option in options)
            assert len(options) == len(set(options)) > 1


def test_a_report_of_a_bug_asks_for_the_output_of_the_doctor() -> None:
    fields = {field.get("id"): field for field in content(ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml")["body"]}
    assert "lance-spark doctor" in fields["doctor"]["attributes"]["label"]
    assert fields["doctor"]["validations"] == {"required": True}


@pytest.mark.parametrize("job", JOBS)
def test_expressions_of_the_forge_are_in_variables_and_never_in_commands(job: str) -> None:
    assert not [command for command in JOBS[job].commands if EXPRESSION.search(command)]


@pytest.mark.parametrize("job", [name for name, job in JOBS.items() if job.commands and name != "release build"])
def test_every_command_is_a_target_of_the_makefile(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", "n")  # what would be run is only printed
    assert all(command.startswith("make ") for command in JOBS[job].commands)
    assert workflow.run(JOBS[job], {}) == 0


def test_the_matrix_has_every_supported_python_and_spark() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    pythons = [line.rpartition(" ")[2] for line in project["classifiers"] if line.startswith(prefix)]
    makefile = (ROOT / "Makefile").read_text()
    sparks = re.findall(r"^SPARK_VERSIONS \?= (.+)$", makefile, re.MULTILINE)[0].split()
    assert list(JOBS["ci test"].matrix["python"]) == pythons
    assert list(JOBS["ci spark"].matrix["spark"]) == sparks[:-1]  # the newest is what `make test` uses


def test_only_the_job_that_publishes_may_speak_for_the_project() -> None:
    writing: dict[str, Mapping[str, str]] = {}
    for path in WORKFLOWS:
        for name, job in content(path)["jobs"].items():
            if "permissions" in job:
                writing[f"{path.stem} {name}"] = job["permissions"]
    assert writing == {
        "ci site": {"pages": "write", "id-token": "write"},
        "release publish": {"id-token": "write"},
    }
    assert not any("secrets." in path.read_text() for path in WORKFLOWS)


def test_no_file_names_a_place_of_the_repository() -> None:
    """The forge says where the repository is: REPOSITORY."""
    pages = [*ROOT.glob(".github/**/*.*"), ROOT / "SECURITY.md", ROOT / "CODE_OF_CONDUCT.md"]
    addresses = [address for page in pages for address in re.findall(r"https?://[\w.-]+|[\w.]+@[\w-]+\.\w+", page.read_text())]
    assert set(addresses) <= {"https://docs.pypi.org"}
    for job in ("ci wheel", "release build"):
        assert JOBS[job].variables["REPOSITORY"] == "${{ github.server_url }}/${{ github.repository }}"


SMALL = """
jobs:
  good:
    strategy: {matrix: {spark: ["4.0", "4.1"]}}
    env: {SPARK: "${{ matrix.spark }}", OWNER: "${{ github.repository }}", FIXED: 7}
    steps:
      - uses: actions/checkout@v4
      - run: echo "$SPARK $FIXED ${OWNER-unknown}" >> out
      - run: |
          echo second >> out
          cd /
  bad:
    steps:
      - run: false | true
      - run: echo never >> out
"""


def test_the_commands_of_a_job_run_with_its_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yml").write_text(SMALL)
    jobs = workflow.jobs(tmp_path / "small.yml")
    assert workflow.run(jobs["good"], {}) == 0
    assert workflow.run(jobs["good"], {"spark": "4.1"}) == 0
    out = tmp_path / "out"
    assert out.read_text().splitlines() == ["4.0 7 unknown", "second", "4.1 7 unknown", "second"]
    assert workflow.run(jobs["bad"], {}) == 1
    assert "never" not in out.read_text()
    with pytest.raises(ValueError, match=r"no spark=3\.5"):
        workflow.run(jobs["good"], {"spark": "3.5"})


def test_the_jobs_are_listed_and_a_wrong_name_is_refused() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "workflow.py")]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "ci lint\n    make lint\n" in listed
    wrong = subprocess.run([*command, "ci", "no"], capture_output=True, text=True)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no job 'no'" in wrong.stderr


def write_wheel(path: Path, kernels: int) -> None:
    """A file like a wheel, with so much code of two kernels."""
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("lance_spark/kernels/ready/warmed.json", '{"kernels": [["one", "int64"], ["other", "int64"]]}')
        for number in range(kernels):
            wheel.writestr(f"lance_spark/kernels/ready/{number}.kernel", b"")


def test_only_what_the_tag_says_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = lance_spark.__version__
    built = tmp_path / "dist"
    built.mkdir()
    (built / f"lance_spark-{version}.tar.gz").touch()
    wheel = built / f"lance_spark-{version}-py3-none-any.whl"
    write_wheel(wheel, kernels=6)
    (tmp_path / "pyproject.toml").write_text("Python :: 3.11, Python :: 3.12, Python :: 3.13")
    (tmp_path / "lance_spark").mkdir()
    (tmp_path / "lance_spark" / "version.py").write_text((ROOT / "lance_spark" / "version.py").read_text())
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text(f"# Changelog\n\n## {version} (2030-01-01)\n")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    assert release.problems(f"v{version}", built) == []
    assert "the tag is 'v9.9.9'" in release.problems("v9.9.9", built)[0]
    changes.write_text(f"# Changelog\n\n## {version} (unreleased)\n")
    assert "not released" in release.problems(f"v{version}", built)[0]
    for kernels in (0, 4):
        write_wheel(wheel, kernels)
        assert f"has {kernels} compiled kernels" in release.problems(f"v{version}", built)[1]
    write_wheel(built / "other.whl", kernels=6)
    write_wheel(wheel, kernels=6)
    assert len(release.problems(f"v{version}", built)) == 2
    assert len(release.problems(f"v{version}", tmp_path / "none")) == 2
