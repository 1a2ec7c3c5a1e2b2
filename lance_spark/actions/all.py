"""The table of all operations."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.actions import (
    about,
    bases,
    branches,
    cleanup,
    clones,
    cluster,
    compact,
    connector,
    constraints,
    delta,
    elsewhere,
    iceberg,
    indexes,
    log,
    maintain,
    migrate,
    references,
    report,
    restore,
    verify,
)
from lance_spark.actions.action import Action

OWN = (
    compact,
    cluster,
    cleanup,
    indexes,
    references,
    branches,
    restore,
    about,
    verify,
    constraints,
    clones,
    bases,
    migrate,
    log,
    report,
    maintain,
)
"""The families in the order of the pages of the documentation."""
_OTHERS = (connector, delta, iceberg, elsewhere)
ACTIONS: Mapping[str, Action] = {action.name: action for family in (*OWN, *_OTHERS) for action in family.ACTIONS}
"""All operations by name."""
