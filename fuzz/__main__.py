"""python -m fuzz SECONDS: search for hostile tables by coverage, with atheris; `make fuzz` runs it with kernels that check their bounds.

An input is the number of a seed (u16) and the bytes that stand in the place of its file. Inputs that reached something new are kept
in fuzz/corpus, a finding in fuzz/found. Coverage is that of Python code: kernels cannot be instrumented.
"""

from __future__ import annotations

import inspect
import random
import sys
from types import FunctionType, ModuleType

import atheris

from fuzz import files
from fuzz.cases import FOUND, Case
from fuzz.read import SECONDS, limit_memory, prepare, read
from fuzz.run import check
from fuzz.seeds import ROOT, Seed, seeds

CORPUS = ROOT / "fuzz" / "corpus"
MAX_BYTES = 1 << 16


def instrument() -> None:
    """Have every function of the package report where it goes. Kernels are not functions any more, and stay as they are."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith("lance_spark.") and "_proto" not in name and isinstance(module, ModuleType):
            for function in _functions(module, name):
                atheris.instrument_func(function)


def _functions(owner: object, module: str) -> list[FunctionType]:
    found: list[FunctionType] = []
    for value in vars(owner).values():
        value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if isinstance(value, FunctionType) and value.__module__ == module and value.__code__.co_filename.endswith(".py"):
            found.append(value)
        elif inspect.isclass(value) and value.__module__ == module and value is not owner:
            found += _functions(value, module)
    return found


def unpack(data: bytes) -> tuple[Seed, bytes]:
    """The seed and the bytes of an input."""
    return seeds()[int.from_bytes(data[:2], "little") % len(seeds())], data[2:]


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Another input of the same table and file, which knows what the file's bytes mean, or else libFuzzer's own mutation."""
    rng = random.Random(seed)
    if len(data) < 2 or rng.random() < 0.05:
        data = rng.randrange(len(seeds())).to_bytes(2, "little") + unpack(data)[1]
    origin, content = unpack(data)
    changed = atheris.Mutate(content, max_size - 2) if rng.random() < 0.2 else files.mutate(origin.path, content, rng)
    return bytes((data[:2] + changed)[:max_size])


def test_one_input(data: bytes) -> None:
    """Stop at the first finding, as libFuzzer does."""
    if len(data) > 2 and check("fuzz", Case(*unpack(data))) == "found":
        raise AssertionError("see fuzz/found")


def main() -> None:
    prepare()
    CORPUS.mkdir(exist_ok=True)
    FOUND.mkdir(exist_ok=True)
    for i, seed in enumerate(seeds()):
        (CORPUS / f"seed{i}").write_bytes(i.to_bytes(2, "little") + seed.data)
        read(seed, seed.data)
    instrument()
    limit_memory()
    options = [
        f"-max_total_time={sys.argv[1]}",
        f"-timeout={3 * SECONDS}",
        f"-max_len={MAX_BYTES}",
        f"-artifact_prefix={FOUND}/",
        "-rss_limit_mb=0",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(CORPUS)], test_one_input, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
