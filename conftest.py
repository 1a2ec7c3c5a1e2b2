"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# The first call of a kernel compiles it, which takes longer than hypothesis lets an example take.
# The same examples each time; the full profile looks for others.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=50)
# Without compiled kernels an example takes many times as long; coverage is about branches, which few examples reach as well.
settings.register_profile("coverage", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("full", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
