"""Storage options that a service hands out for a time, and is asked for again before they expire."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lance_spark.errors import LanceError
from lance_spark.storage.options import is_known

_MARGIN_S = 60.0
_SHORTEST_S = 1.0
"""The service is not asked more often, whatever it says: its clock may differ from ours."""
_MOST = 256
"""Tables whose credentials are kept."""
_lock = threading.Lock()
_latest: dict[tuple[int, Vendor], VendedOptions] = {}


class Vendor(Hashable, Protocol):
    """What asks the service: small, picklable, and equal for the same table."""

    def __call__(self) -> VendedOptions: ...


@dataclass(frozen=True)
class VendedOptions:
    """Storage options of a vendor, when to ask it again, and when they expire, in seconds since 1970.

    Tasks on executors carry them along.
    """

    vendor: Vendor
    options: Mapping[str, str] = field(repr=False, compare=False)
    refresh_at: float = field(default=math.inf, compare=False)
    expires_at: float = field(default=math.inf, compare=False)

    @classmethod
    def until(cls, vendor: Vendor, options: Mapping[str, str], expires_at_millis: int | None) -> VendedOptions:
        """Options that expire at a time in milliseconds since 1970. Names that are no storage options are left out."""
        known = {name: value for name, value in options.items() if is_known(name)}
        if expires_at_millis is None:
            return cls(vendor, known)
        now, end = time.time(), expires_at_millis / 1000
        return cls(vendor, known, max(end - min(_MARGIN_S, (end - now) / 4), now + _SHORTEST_S), end)

    def held(self) -> Mapping[str, str]:
        """The latest options of this process, which may have expired; nobody is asked."""
        return _latest.get((os.getpid(), self.vendor), self).options

    def current(self) -> Mapping[str, str]:
        """The options that are valid now. The vendor is asked if they are about to expire, once a process.

        Raises what the vendor raises, if they have expired.
        """
        if time.time() < self.refresh_at:
            return self.options
        key = (os.getpid(), self.vendor)
        with _lock:
            latest = _latest.get(key, self)
            if time.time() >= latest.refresh_at:
                try:
                    latest = self.vendor()
                except LanceError:
                    if time.time() >= latest.expires_at:
                        raise
                    return latest.options
                if len(_latest) >= _MOST:
                    _latest.clear()
                _latest[key] = latest
            return latest.options
