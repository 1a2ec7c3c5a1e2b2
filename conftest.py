"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# The first call of a kernel compiles it, which takes longer than hypothesis lets an example take.
settings.register_profile("lance_spark", deadline=None)
settings.load_profile("lance_spark")
