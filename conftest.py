"""Settings of all tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from hypothesis import settings

# Tests write hundreds of thousands of small files, durably: in memory that takes half of the time that it takes on a disk.
# PYTEST_DEBUG_TEMPROOT is pytest's own: the folder of the tests' folders.
IN_MEMORY = Path("/dev/shm")
if IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))

# What a user's shell says to the package is no part of a test.
os.environ.pop("LANCE_SPARK_FILTER_LOG", None)

# The first call of a kernel compiles it, which takes longer than hypothesis lets an example take.
# The same examples each time; the full profile looks for others.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=50)
# Without compiled kernels an example takes many times as long; coverage is about branches, which few examples reach as well.
settings.register_profile("coverage", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("full", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
