"""Public names are listed in `__all__` of three modules; everything else in the package is private and may change."""

from __future__ import annotations

import importlib
import inspect

import pytest

import lance_spark

PUBLIC = ["lance_spark", "lance_spark.operations", "lance_spark.errors"]


def errors() -> list[type]:
    """The errors that are defined in `lance_spark.errors`."""
    module = importlib.import_module("lance_spark.errors")
    return [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_exists_and_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    names = getattr(module, "__all__", [error.__name__ for error in errors()])
    for public in names:
        value = getattr(module, public)
        assert not inspect.isclass(value) or inspect.getdoc(value), f"{name}.{public} has no docstring"


def test_the_top_of_the_package_is_small() -> None:
    assert len(lance_spark.__all__) <= 14


def test_every_error_is_a_lance_error() -> None:
    for error in errors():
        assert issubclass(error, lance_spark.errors.LanceError)


def test_public_methods_have_docstrings() -> None:
    for kind in (lance_spark.Dataset, lance_spark.LanceTable):
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_") and (inspect.isfunction(member) or inspect.ismethod(member) or isinstance(member, property)):
                assert inspect.getdoc(member), f"{kind.__name__}.{name} has no docstring"
