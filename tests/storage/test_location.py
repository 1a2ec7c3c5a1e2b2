"""Locations: unusual URIs are parsed or raise our own errors, and no password is shown."""

from __future__ import annotations

import ntpath
import os
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lance_spark.errors import InvalidOptionError, LanceError
from lance_spark.storage import location
from lance_spark.storage.location import locate
from lance_spark.storage.store import Store


@pytest.mark.parametrize("uri", ["s3://key:hunter2@bucket/t", "s3a://hunter2@bucket", "gs://a:hunter2@b/t", "s3://hunter2@x@y/t"])
def test_credentials_in_a_uri_are_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="storage options") as e:
        Store(uri).list("_versions")
    assert "hunter2" not in str(e.value)


@pytest.mark.parametrize("uri", ["abfss://c:hunter2@account.dfs.core.windows.net/t", "az://c@hunter2@account/t"])
def test_credentials_in_an_azure_uri_are_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="storage options") as e:
        locate(uri)
    assert "hunter2" not in str(e.value)


@pytest.mark.parametrize("uri", ["file:///a%00b", "a\0b", "s3://b/\0", "\udcff\ud800", "file:///%00"])
def test_characters_that_paths_cannot_have_are_refused(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="not allowed in a path"):
        locate(uri)


WINDOWS_PATHS = {
    "C:\\data\\t": "C:/data/t",
    "C:/data/t": "C:/data/t",
    "c:\\data\\..\\t\\": "c:/t",
    "file:///C:/data/t": "C:/data/t",
    "file:/C:/data/t": "C:/data/t",
    "file:///C:/a%20b": "C:/a b",
    "C:\\a b\\100%": "C:/a b/100%",
    "\\\\host\\share\\t": "//host/share/t",
}


@pytest.mark.parametrize("uri", WINDOWS_PATHS)
def test_paths_of_windows(monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    windows = SimpleNamespace(name="nt", sep="\\", path=ntpath, fsencode=os.fsencode)
    monkeypatch.setattr(location, "os", windows)  # this is no Windows, but ntpath has its rules
    found = locate(uri)
    assert (found.kind, found.path, found.uri) == ("file", WINDOWS_PATHS[uri], WINDOWS_PATHS[uri])
    assert locate(found.uri) == found


SCHEMES = ["", "file:", "file://", "s3://", "s3a://", "gs://", "az://", "abfss://", "memory://", "s3+ddb://", "http://", "C:", "://"]


@given(st.sampled_from(SCHEMES), st.text(st.sampled_from("ab/@:?#%.\\ \0\n~é\ud800") | st.characters(), max_size=12))
@example("s3://", "a:b@bucket")
@example("s3://", "[")
def test_any_text_is_a_location_or_refused(scheme: str, rest: str) -> None:
    try:
        store = Store(scheme + rest)
    except LanceError:
        return
    assert locate(store.uri) == store.location
