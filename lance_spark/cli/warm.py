"""`warm`: compiled kernels and planner classes, for images and clusters."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lance_spark.cli.arguments import add_json
from lance_spark.cli.output import print_json
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.kernels.target import PERMISSION, compile_for_usual

if TYPE_CHECKING:
    from lance_spark.kernels.warmed import Compiled


def add_to(commands: Any) -> None:
    """Add the command to the parser's."""
    text = "precompile what reads, writes, changes, indexes and searches need, so that the first query does not wait for it"
    parser = commands.add_parser("warm", help=text, description=f"{text[0].upper()}{text[1:]}. Images call it after the installation.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--check", action="store_true", help="only list what would still be compiled; exit code 1 if there is any")
    which.add_argument("--out", metavar="FILE", help="also write the code into a .tar.gz, for spark.archives and LANCE_SPARK_KERNELS")
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compile what is missing, or list it."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        raise InvalidOptionError("NUMBA_DISABLE_JIT is set, with which nothing is compiled; unset it")
    return _check(arguments) if arguments.check else _warm(arguments)


def _warm(arguments: argparse.Namespace) -> int:
    start = time.perf_counter()
    if "numba" not in sys.modules:
        compile_for_usual()
    os.environ.pop(PERMISSION, None)  # an image may set it for all processes but this one
    from lance_spark.kernels.code_folders import SHIPPED
    from lance_spark.kernels.warmed import pack, shipped

    compiled = shipped()
    if compiled is not None:
        folder_kept: Path | None = SHIPPED
    else:
        compiled, folder_kept = _compile()
    if arguments.out:
        pack(compiled, arguments.out)
    planner = _warm_planner()
    seconds = time.perf_counter() - start
    if arguments.json:
        print_json({"seconds": round(seconds, 3), "kernels": len(compiled), "folder": str(folder_kept or ""), "planner": planner})
        return 0
    print(f"ready after {seconds:.1f} s: {len(compiled)} kernels, {f'kept in {folder_kept}' if folder_kept else 'no folder keeps them'}")
    print(f"planner: {planner}")
    return 0


def _compile() -> tuple[list[Compiled], Path | None]:
    """Do what users do. Returns the kernels that it called, and the folder that keeps the new ones."""
    from lance_spark.cli.warm_work import work
    from lance_spark.kernels.warmed import asked, keep

    with tempfile.TemporaryDirectory() as folder:
        work(folder)
    compiled = asked()
    return compiled, keep(compiled)


def _warm_planner() -> str:
    """Have the planner's classes compiled and kept, if the package has none. Returns what has become of them."""
    try:
        from lance_spark.spark.jvm.install import keep_planner

        return "its classes are in the user's cache folder" if keep_planner() else "its classes are in the package"
    except ModuleNotFoundError:
        return "Spark is not installed"
    except UnsupportedFeatureError as e:
        return str(e)


def _check(arguments: argparse.Namespace) -> int:
    from lance_spark.kernels.warmed import listed

    kernels = listed()
    missing = [] if kernels is None else [one for one in kernels if one.file() is None]
    if arguments.json:
        print_json({"warmed": kernels is not None, "missing": [str(one) for one in missing]})
    elif kernels is None:
        print("all kernels would be compiled: there is no list of `lance-spark warm` of this version")
    else:
        for one in missing:
            print(f"would be compiled: {one}")
        print(f"{len(kernels) - len(missing)} of {len(kernels)} kernels are compiled")
    return 1 if kernels is None or missing else 0
