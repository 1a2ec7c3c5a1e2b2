"""The parameters of a search for the nearest vectors, as users give them; names and meaning are pylance's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
import pyarrow as pa

from lance_spark.display.words import nearest as did_you_mean
from lance_spark.errors import InvalidOptionError, check_type
from lance_spark.index.vector.distances import METRICS, computed_in
from lance_spark.index.vector.probes import AUTO, ProbeRule
from lance_spark.index.vector.vectors import ELEMENTS, vector_type
from lance_spark.schema.schema import Field, quoted
from lance_spark.table.scan.indexed import segments_of
from lance_spark.table.versions.snapshot import Snapshot

DEFAULT_K = 10
_OF_LISTS = "cosine"
"""The metric of every index of lists of vectors."""
_SYNONYMS = {"euclidean": "l2"}
_LEAST = {
    "k": 1,
    "nprobes": 1,
    "minimum_nprobes": 1,
    "maximum_nprobes": 1,
    "refine_factor": 1,
    "ef": 1,
    "query_parallelism": -1,
}
_KEYS = ("column", "q", "metric", "use_index", "distance_range", "approx_mode", "search_effort", "recall_target", *_LEAST)
_CHOSEN = ("nprobes", "minimum_nprobes", "maximum_nprobes", "search_effort", "refine_factor", "ef", "approx_mode")
"""The parameters that a `recall_target` chooses."""
APPROX_MODES = ("fast", "normal", "accurate")
_MOST = 1 << 31
"""Numbers of rows, partitions and so on are below this."""


@dataclass(frozen=True)
class Nearest:
    """Which vectors are searched for: those of the column at `path` that are nearest to each query.

    `queries` have a row for each query, or for each vector of the only query of a column of several vectors a row (`several`). `many`:
    the user gave several queries, so that the result says for which one a row was found. Without a `metric`, that of the index is used, or
    else `default_metric`. `probes` tells how many partitions of each segment are searched. With a `refine_factor`, the distances of so many
    times `k` rows are computed from the vectors. `ef` is the number of rows that a search in a graph keeps. `distance_range` bounds the
    distances, the second bound is exclusive. `approx_mode`, one of `APPROX_MODES`, tells how codes of RQ are compared. `recall_target` is
    the share of the nearest rows that is to be found, for which how the index is searched is chosen.
    """

    path: tuple[str, ...]
    field: Field
    queries: np.ndarray
    many: bool
    several: bool
    k: int
    metric: str | None = None
    minimum_nprobes: int | None = None
    maximum_nprobes: int | None = None
    refine_factor: int | None = None
    ef: int | None = None
    use_index: bool = True
    distance_range: tuple[float | None, float | None] = (None, None)
    search_effort: float = AUTO
    approx_mode: str = "normal"
    recall_target: float | None = None

    @property
    def says_nothing(self) -> bool:
        """Whether the user does not say how an index is searched, nor what it is to find."""
        given = (self.minimum_nprobes, self.maximum_nprobes, self.refine_factor, self.ef, self.recall_target)
        return given == (None,) * len(given) and self.search_effort == AUTO and self.approx_mode == "normal"

    @property
    def searches(self) -> int:
        """How many queries have nearest rows of their own."""
        return 1 if self.several else len(self.queries)

    @property
    def probes(self) -> ProbeRule:
        """How many partitions of each segment are searched."""
        return ProbeRule(self.k, self.minimum_nprobes, self.maximum_nprobes, self.search_effort)

    @property
    def default_metric(self) -> str:
        """The metric of a column without an index: hamming for bytes, l2 for all others."""
        return "hamming" if self.queries.dtype == np.uint8 else "l2"


def nearest_of(snapshot: Snapshot, given: Mapping[str, Any]) -> Nearest:
    """Check the parameters of a search.

    Raises InvalidOptionError for unknown and invalid ones, and SchemaMismatchError for a column that does not exist.
    """
    check_type("nearest", given, Mapping, "a mapping such as {'column': 'vector', 'q': [0.1, 0.2], 'k': 10}")
    if unknown := [key for key in given if key not in _KEYS]:
        hint = f"{did_you_mean(str(unknown[0]), _KEYS)}; its parameters are: {', '.join(_KEYS)}"
        raise InvalidOptionError(f"nearest has no parameter {unknown[0]!r}{hint}")
    for key in ("column", "q"):
        if given.get(key) is None:
            raise InvalidOptionError(f"nearest needs the parameter {key!r}")
    check_type("the parameter 'column' of nearest", given["column"], str, "text")
    steps = snapshot.manifest.schema.resolve(given["column"])
    field = steps[-1]
    vectors, several = vector_type(field.type)
    if vectors is None:
        types = ", ".join(map(str, ELEMENTS))
        raise InvalidOptionError(f"column {given['column']!r} of type {field.type} has no vectors: fixed-size lists of {types}")
    numbers = {key: number_of(key, given.get(key), least) for key, least in _LEAST.items()}
    queries, many = _queries(given["q"], vectors, given["column"], several)
    effort, target = (_share(key, given.get(key)) for key in ("search_effort", "recall_target"))
    if target is not None and (twice := [key for key in _CHOSEN if given.get(key) is not None]):
        raise InvalidOptionError(f"recall_target chooses {', '.join(_CHOSEN)}, but {twice[0]} is given, too; give one of them")
    nprobes = numbers["nprobes"] if effort is None else None  # as in pylance, an effort is in the place of nprobes
    minimum, maximum = (numbers[key] or nprobes for key in ("minimum_nprobes", "maximum_nprobes"))
    if minimum and maximum and minimum > maximum:
        raise InvalidOptionError(f"minimum_nprobes must be at most maximum_nprobes, but {minimum} > {maximum}")
    use_index = given.get("use_index", True)
    check_type("the parameter 'use_index' of nearest", use_index, bool, "True or False")
    metric = _metric(given.get("metric"), queries.dtype)
    if metric is None and several and use_index and _is_indexed(snapshot, field):
        metric = _OF_LISTS
    return Nearest(
        path=tuple(f.name for f in steps),
        field=field,
        queries=queries,
        many=many,
        several=several,
        k=numbers["k"] or DEFAULT_K,
        metric=metric,
        minimum_nprobes=minimum,
        maximum_nprobes=maximum,
        refine_factor=numbers["refine_factor"],
        ef=numbers["ef"],
        use_index=use_index,
        distance_range=_range(given.get("distance_range")),
        search_effort=AUTO if effort is None else effort,
        approx_mode=_approx_mode(given.get("approx_mode")),
        recall_target=target,
    )


def _is_indexed(snapshot: Snapshot, field: Field) -> bool:
    return bool(snapshot.manifest.indexes and segments_of(snapshot).searched("VECTOR", field))


def only_column(snapshot: Snapshot) -> str:
    """The name of the only column with vectors. Raises InvalidOptionError if there are none or several."""
    found = [quoted([f.name for f in path]) for path in snapshot.manifest.schema.paths() if vector_type(path[-1].type)[0] is not None]
    if len(found) != 1:
        raise InvalidOptionError(f"name the column to be searched; those with vectors are: {', '.join(found) or 'none'}")
    return found[0]


def default_k(limit: int, offset: int) -> int:
    """As many rows as a search without `k` finds: those that are returned and left out."""
    return min(limit + offset, _MOST - 1)


def number_of(key: str, value: object, least: int) -> int | None:
    """The parameter `key`. Raises InvalidOptionError for what is not a number of at least `least`."""
    if value is None:
        return None
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= int(value) < _MOST:
        most = f" and at most {_MOST - 1}" if isinstance(value, Integral) and int(value) >= _MOST else ""
        raise InvalidOptionError(f"{key} must be an integer of at least {least}{most}, not {value!r}")
    return int(value)


def _metric(value: object, dtype: np.dtype) -> str | None:
    """The metric; None if none is given. Raises InvalidOptionError for one that the vectors do not have."""
    if value is None:
        return None
    name = _SYNONYMS.get(str(value).lower(), str(value).lower())
    if name not in METRICS:
        raise InvalidOptionError(f"metric must be one of {', '.join(METRICS)}, not {value!r}")
    if (name == "hamming") != (dtype == np.uint8):
        raise InvalidOptionError(f"the metric {name} is not for vectors of {dtype}: bytes have hamming, others do not")
    return name


def _share(key: str, value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) <= 1:
        raise InvalidOptionError(f"{key} must be a number from 0 to 1, not {value!r}")
    return float(value)


def _approx_mode(value: object) -> str:
    if value is None:
        return "normal"
    if not isinstance(value, str) or value not in APPROX_MODES:
        raise InvalidOptionError(f"approx_mode must be one of {', '.join(APPROX_MODES)}, not {value!r}")
    return value


def _range(value: object) -> tuple[float | None, float | None]:
    if value is None:
        return (None, None)
    expected = f"distance_range must be two numbers or None, such as (0.0, 0.5), not {value!r}"
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidOptionError(expected)
    for bound in value:
        if bound is not None and (not isinstance(bound, Real) or isinstance(bound, bool) or np.isnan(float(bound))):
            raise InvalidOptionError(expected)
    low, high = (None if bound is None else float(bound) for bound in value)
    return low, high


def _queries(q: object, vectors: pa.FixedSizeListType, column: str, several: bool) -> tuple[np.ndarray, bool]:
    """The query vectors as rows, in the type in which they are compared, and whether the user gave a list of them."""
    found = _array(q, column)
    many, size = found.ndim == 2, vectors.list_size
    if found.ndim not in (1, 2) or not found.size:
        raise InvalidOptionError(f"q must be a vector of {size} numbers or several of them, not an array of shape {found.shape}")
    if found.shape[-1] != size:
        raise InvalidOptionError(f"q has {found.shape[-1]} dimensions, but the vectors of column {column!r} have {size}")
    dtype = ELEMENTS[vectors.value_type]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if (found != np.trunc(found)).any() or found.min() < limits.min or found.max() > limits.max:
            raise InvalidOptionError(f"q must have integers from {limits.min} to {limits.max}, as the vectors of column {column!r} have")
    with np.errstate(over="ignore"):
        found = found.astype(dtype)  # vectors are compared with what the column could store
    if dtype.kind == "f" and not np.isfinite(found).all():
        raise InvalidOptionError(f"q has NaN, or numbers that {vectors.value_type} cannot have")
    return np.atleast_2d(found).astype(computed_in(dtype)), many and not several


def _array(q: object, column: str) -> np.ndarray:
    """The numbers of a query: an array, a list, or a value or array of Arrow."""
    if isinstance(q, pa.Scalar):
        q = q.as_py()
    if isinstance(q, pa.Array | pa.ChunkedArray):
        q = q.to_pylist() if pa.types.is_nested(q.type) else q.to_numpy(zero_copy_only=False)
    try:
        found = np.asarray(cast(Any, q))
    except (ValueError, TypeError) as e:
        raise InvalidOptionError(f"q must be a vector of numbers, or several of the same length: {e}") from e
    if found.dtype == np.object_ and any(value is None for value in found.flat):
        raise InvalidOptionError(f"q must be a vector of numbers for column {column!r}, but has nulls")
    if found.dtype == np.bool_ or found.dtype.kind not in "fiu":
        raise InvalidOptionError(f"q must be a vector of numbers for column {column!r}, not {type(q).__name__} of {found.dtype}")
    return found
