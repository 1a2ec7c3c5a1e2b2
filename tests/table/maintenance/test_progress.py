"""Progress bars: long operations show them in a terminal only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import UnsupportedFeatureError


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    for _ in range(3):
        lance.write_dataset(pa.table({"a": range(10)}), uri, mode="append")
    return uri


def test_bars_are_shown_on_request(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm", reason="tqdm is optional")
    dataset = Dataset.open(uri)
    assert dataset.verify(progress=True).ok
    assert "verify files" in capsys.readouterr().err
    dataset.deep_clone(str(tmp_path / "copy"), progress=True)
    assert "copy files:   0%|          | 0/3" in capsys.readouterr().err
    dataset.cleanup_old_versions(retain_versions=1, progress=True)
    assert "remove versions:   0%|          | 0/2" in capsys.readouterr().err


def test_without_a_terminal_or_with_progress_off_no_bar_is_shown(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = Dataset.open(uri)
    assert dataset.verify().ok
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert dataset.verify(progress=False).ok
    assert capsys.readouterr().err == ""


def test_without_tqdm_a_request_for_bars_names_the_package(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert Dataset.open(uri).verify().ok
    assert capsys.readouterr().err == ""
    with pytest.raises(UnsupportedFeatureError, match=r"pip install 'lance-spark\[progress\]'"):
        Dataset.open(uri).verify(progress=True)


def test_the_package_is_imported_without_tqdm() -> None:
    code = "import sys, lance_spark.dataset; sys.exit('tqdm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
