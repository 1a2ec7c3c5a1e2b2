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
    elsewhere,
    iceberg,
    indexes,
    log,
    migrate,
    references,
    report,
    restore,
    verify,
)
from lance_spark.actions.action import Action

OWN = (compact, cluster, cleanup, indexes, references, branches, restore, about, verify, constraints, clones, bases, migrate, log, report)
"""The families in the order of the pages of the documentation."""
ACTIONS: Mapping[str, Action] = {action.name: action for family in (*OWN, connector, iceberg, elsewhere) for action in family.ACTIONS}
"""All operations by name."""
