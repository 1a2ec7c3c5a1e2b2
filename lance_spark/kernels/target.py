"""Whether and for which processor kernels are compiled: ahead of time for the usual one, so that an image serves machines of several kinds.

A process that compiles a kernel compiles it for its own processor, as numba does.
"""

from __future__ import annotations

import functools
import os

from llvmlite import binding

PERMISSION = "LANCE_SPARK_COMPILE"
"""The variable that forbids to compile kernels: "never"."""
USUAL = "x86-64-v3"
"""LLVM's name of the x86 processors since about 2013 (https://gitlab.com/x86-psABIs/x86-64-ABI)."""
_NEEDS = frozenset(
    ["cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"]
)
_NAME, _FEATURES = "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"


@functools.cache
def is_usual() -> bool:
    """True if this processor runs code for the usual one."""
    if not binding.get_process_triple().startswith("x86_64"):
        return False
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know the processor
        return False
    return all(features.get(name, False) for name in _NEEDS)


def compile_for_usual() -> None:
    """Have this process, which must not have imported numba, compile for the usual processor, if its own runs such code.

    A choice in the environment remains.
    """
    if is_usual() and _NAME not in os.environ:
        os.environ[_NAME], os.environ[_FEATURES] = USUAL, ""
