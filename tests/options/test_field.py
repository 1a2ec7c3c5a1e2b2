"""An option is one field: its text, its rules and its place in messages come from there."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lance_spark.errors import InvalidOptionError
from lance_spark.options.field import NotWith, changed, check_together, made, option, options_of, used


@dataclass(frozen=True)
class Picking:
    """How some rows are picked."""

    seed: int = option(1, "count", "The seed.", use=("how",))
    sample: int | None = option(
        None,
        "count",
        "So many rows.",
        name="sampleSize",
        aliases=("n",),
        least=1,
        words=("all",),
        not_with=(
            NotWith(("share",), advice="a share is of all rows"),
            NotWith(("seed",), because="nothing is random"),
        ),
    )
    share: float | None = option(None, "share", "A share of the rows.")
    ordered: bool = option(False, "flag", "In the order of rows.", not_with=(NotWith(("sampleSize", "share")),))


OPTIONS = options_of(Picking)


def test_a_field_names_its_option_unless_it_says_another_name() -> None:
    assert [o.name for o in OPTIONS.values()] == ["seed", "sampleSize", "share", "ordered"]
    assert OPTIONS["sample"].names == ("sampleSize", "n")
    assert used(Picking, "how") == ("seed",)


def test_texts_become_values_and_values_fields() -> None:
    assert OPTIONS["sample"].value("n", " 3") == 3
    assert OPTIONS["sample"].value("n", "ALL") == "all"
    assert made(Picking, {"sampleSize": 3, "other": 1}, seed=2) == Picking(seed=2, sample=3)
    assert changed(Picking(sample=3)) == {"sampleSize": 3}


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("sample", "0", "the option 'n' takes a whole number from 1 to .*, or all, not '0'"),
        ("share", "1.5", "the option 'n' takes a number from 0 to 1, not '1.5'"),
        ("ordered", "yes", "the option 'n' takes true or false, not 'yes'"),
    ],
)
def test_a_text_that_says_nothing_is_refused_by_the_name_that_was_given(field: str, text: str, expected: str) -> None:
    with pytest.raises(InvalidOptionError, match=expected):
        OPTIONS[field].value("n", text)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"sampleSize": 3, "share": 0.1}, "give only one of the options sampleSize, share; a share"),
        ({"sampleSize": 3, "seed": 1}, "sampleSize and seed cannot be combined; nothing is random"),
        ({"ordered": True, "share": 0.1}, "give only one of the options ordered, share$"),
    ],
)
def test_options_that_exclude_each_other_are_refused(values: dict[str, object], expected: str) -> None:
    with pytest.raises(InvalidOptionError, match=expected):
        check_together(OPTIONS.values(), values)


def test_a_flag_that_is_false_excludes_nothing() -> None:
    check_together(OPTIONS.values(), {"ordered": False, "share": 0.1})
