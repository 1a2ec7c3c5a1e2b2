"""Calendar parts of dates and timestamps. A timestamp with a time zone is converted to local time, as in DataFusion's `date_part`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")
_UTC = ("UTC", "Z", "Etc/UTC", "GMT")
_MINUTES = {"s": 60, "ms": 60_000, "us": 60_000_000, "ns": 60_000_000_000}


def has_fixed_offset(t: pa.DataType) -> bool:
    """Whether local time never goes back for values of the type: dates, and timestamps without a zone or with a constant offset."""
    if not pa.types.is_timestamp(t) or t.tz is None:
        return True
    return t.tz in _UTC or _OFFSET.fullmatch(t.tz) is not None


def local(array: pa.Array) -> Any:
    """The values as numpy's datetime64 in local time; nulls are 1970."""
    t = array.type
    if pa.types.is_date32(t):
        return array.view(pa.int32()).fill_null(0).to_numpy().astype("M8[D]")
    if pa.types.is_date64(t):
        return array.view(pa.int64()).fill_null(0).to_numpy().view("M8[ms]")
    shift = 0
    if t.tz is not None and t.tz not in _UTC:
        if match := _OFFSET.fullmatch(t.tz):
            sign, minutes = 1 if match[1] == "+" else -1, int(match[2]) * 60 + int(match[3])
            shift = sign * minutes * _MINUTES[t.unit]
        else:
            array = pc.local_timestamp(array)
    return (array.view(pa.int64()).fill_null(0).to_numpy() + shift).view(f"M8[{t.unit}]")


def part(kind: str, array: pa.Array) -> pa.Array:
    """The year, month (1 to 12), day of the month, or hour (0 to 23) of each value, as int32; null where the value is null."""
    at = local(array)
    numbers: Any
    if kind == "year":
        numbers = at.astype("M8[Y]").astype(np.int64) + 1970
    elif kind == "month":
        numbers = at.astype("M8[M]").astype(np.int64) % 12 + 1
    elif kind == "day":
        numbers = (at.astype("M8[D]") - at.astype("M8[M]").astype("M8[D]")).astype(np.int64) + 1
    else:
        numbers = at.astype("M8[h]").astype(np.int64) % 24
    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(numbers.astype(np.int32), pa.int32(), mask=mask)
