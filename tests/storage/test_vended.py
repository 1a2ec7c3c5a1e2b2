"""Storage options that are handed out for a time: asked for again before they expire, and used until then if nobody answers."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from lance_spark.errors import NamespaceError
from lance_spark.storage.vended import VendedOptions


@dataclass(frozen=True)
class Silent:
    """A vendor that does not answer."""

    name: str

    def __call__(self) -> VendedOptions:
        raise NamespaceError("no answer")


def test_options_without_an_end_are_never_asked_for_again() -> None:
    assert VendedOptions.until(Silent("a"), {"region": "x"}, None).current() == {"region": "x"}


def test_names_that_are_not_storage_options_are_ignored() -> None:
    assert VendedOptions.until(Silent("b"), {"region": "x", "refresh_offset_millis": "1"}, None).current() == {"region": "x"}


def test_options_that_cannot_be_renewed_are_used_until_they_expire() -> None:
    vended = VendedOptions(Silent("c"), {"region": "x"}, time.time() - 1, time.time() + 60)
    assert vended.current() == {"region": "x"}
    with pytest.raises(NamespaceError):
        VendedOptions(Silent("d"), {"region": "x"}, time.time() - 2, time.time() - 1).current()


def test_values_are_not_shown() -> None:
    assert "secret" not in repr(VendedOptions(Silent("e"), {"token": "secret"}))
