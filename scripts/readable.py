"""What makes a reader look at a line twice: `python scripts/readable.py [FILE ..]`, or `make readable`.

It reports, and never fails: counts for the whole package, and a list of places for each kind. `CONTRIBUTING.md`, "Rules",
says what to do about them.
"""

from __future__ import annotations

import ast
import io
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDTH = 100
PACKAGE = ROOT / "lance_spark"
LEFT_OUT = ("_proto", "py")
"""Generated code, and what stands for other names only."""

MANY_NODES = 40
"""A statement with more nodes was read twice by most readers of the twelve examples that the rule comes from."""

USUAL_NUMBERS = {-1, 0, 1, 2, 8, 10, 16, 32, 64, 100, 1000}
"""Numbers that need no reason: ends, halves, bits of a byte, sizes of words, bases and percents."""

EMPTY_NAMES = {"a", "b", "d", "e", "f", "fn", "how", "m", "o", "obj", "of", "p", "r", "s", "tmp", "v", "x", "done"}
"""Names of parameters that do not say what is in them. Lambdas and mathematics may have them."""

QUALIFIER = re.compile(r"(Of|So many|Those|Such|These|As|With|Without|From|To) ")
"""What a docstring must not begin with: it opens with its verb or its noun."""

Statement = ast.stmt | ast.excepthandler | ast.match_case


@dataclass(frozen=True, order=True)
class Place:
    """A line of a file, and what a reader finds there."""

    file: str
    line: int
    found: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.found}"


@dataclass(frozen=True)
class Module:
    """The text of a file and its tree."""

    name: str
    text: str
    tree: ast.Module

    @classmethod
    def read(cls, path: Path, folder: Path = ROOT) -> Module:
        """A file in a folder, which its name begins at."""
        text = path.read_text()
        return cls(str(path.resolve().relative_to(folder.resolve())), text, ast.parse(text))

    def place(self, node: ast.AST, found: str) -> Place:
        """Where a node stands."""
        return Place(self.name, getattr(node, "lineno", 1), found)

    def comments(self) -> int:
        """The number of lines that are comments."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return sum(token.type == tokenize.COMMENT for token in tokens)

    def lines_of_code(self) -> int:
        """The number of lines that are neither empty nor a comment nor part of a docstring."""
        in_docstrings = {
            line for docstring in docstrings(self.tree) for line in range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1)
        }
        lines = enumerate(self.text.splitlines(), start=1)
        return sum(number not in in_docstrings and bool(line.strip()) and not line.lstrip().startswith("#") for number, line in lines)


def docstrings(tree: ast.AST) -> Iterator[ast.Expr]:
    """The texts that stand as statements: docstrings of modules, classes, functions and constants."""
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(node, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield node


def statements(tree: ast.AST) -> Iterator[Statement]:
    """All statements but docstrings."""
    texts = set(map(id, docstrings(tree)))
    for node in ast.walk(tree):
        if isinstance(node, Statement) and id(node) not in texts:
            yield node


def nodes(statement: ast.AST) -> int:
    """The number of nodes of a statement, without those of the statements inside it."""
    count = 1
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, Statement):
            continue
        count += nodes(child)
    return count


def long_statements(module: Module) -> Iterator[Place]:
    """Statements with many nodes."""
    for statement in statements(module.tree):
        count = nodes(statement)
        if count > MANY_NODES:
            yield module.place(statement, f"{count} nodes")


def bare_numbers(module: Module) -> Iterator[Place]:
    """Numbers inside functions that are not usual, on lines without a comment."""
    lines = module.text.splitlines()
    for function in ast.walk(module.tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        inside = (node for statement in function.body for node in ast.walk(statement))
        numbers = [node for node in inside if isinstance(node, ast.Constant) and type(node.value) in (int, float)]
        for number in numbers:
            around = lines[max(number.lineno - 2, 0) : number.lineno]
            if number.value not in USUAL_NUMBERS and not any("#" in line for line in around):
                yield module.place(number, str(number.value))


def wide_tuples(module: Module) -> Iterator[Place]:
    """Functions that return tuples of three positions and more."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.returns is None:
            continue
        for part in ast.walk(node.returns):
            if not isinstance(part, ast.Subscript) or ast.unparse(part.value) not in ("tuple", "Tuple"):
                continue
            items = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
            if len(items) >= 3:
                yield module.place(node, f"{node.name} -> {ast.unparse(part)}")


def empty_names(module: Module) -> Iterator[Place]:
    """Parameters of functions whose names say nothing."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        given = node.args
        for parameter in (*given.posonlyargs, *given.args, *given.kwonlyargs):
            if parameter.arg in EMPTY_NAMES:
                yield module.place(node, f"{node.name}({parameter.arg})")


def qualified_docstrings(module: Module) -> Iterator[Place]:
    """Docstrings that open with a qualifier."""
    for docstring in docstrings(module.tree):
        assert isinstance(docstring.value, ast.Constant)
        text = str(docstring.value.value)
        if QUALIFIER.match(text):
            yield module.place(docstring, text.splitlines()[0])


KINDS = {
    f"Statements of over {MANY_NODES} nodes": long_statements,
    "Numbers without a reason": bare_numbers,
    "Tuples of three positions and more that a function returns": wide_tuples,
    "Parameters whose names say nothing": empty_names,
    "Docstrings that open with a qualifier": qualified_docstrings,
}


def modules(names: list[str]) -> list[Module]:
    """The files that were named, or all of the package."""
    if names:
        return [Module.read(Path(name)) for name in names]
    paths = sorted(PACKAGE.rglob("*.py"))
    return [Module.read(path) for path in paths if not {*path.parts} & {*LEFT_OUT}]


def at_width(read: list[Module]) -> int:
    """The lines of code if no line had over `WIDTH` columns: files are narrowed one by one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copies = [folder / module.name for module in read]
        for module, copy in zip(read, copies, strict=True):
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(module.text)
        ruff = shutil.which("ruff", path=Path(sys.executable).parent) or "ruff"
        command = [ruff, "format", "--quiet", "--isolated", f"--line-length={WIDTH}", name]
        subprocess.run(command, check=True)
        return sum(Module.read(copy, folder).lines_of_code() for copy in copies)


def main() -> None:
    """Print the places of each kind, then the counts."""
    read = modules(sys.argv[1:])
    counted = dict.fromkeys(KINDS, 0)
    for kind, places_in in KINDS.items():
        print(f"## {kind}")
        for module in read:
            for place in sorted(places_in(module)):
                print(place)
                counted[kind] += 1
        print()
    every = [statement for module in read for statement in statements(module.tree)]
    long = counted[f"Statements of over {MANY_NODES} nodes"]
    all_nodes = sum(map(nodes, every))
    lines, narrow_lines = sum(module.lines_of_code() for module in read), at_width(read)
    comments = sum(module.comments() for module in read)
    print("## Counts")
    print(f"{lines:,} lines of code in {len(read):,} files")
    print(f"{all_nodes / max(lines, 1):.1f} nodes a line")
    print(f"{all_nodes / max(narrow_lines, 1):.1f} nodes a line at {WIDTH} columns")
    print(f"{100 * long / max(len(every), 1):.1f}% of statements have over {MANY_NODES} nodes")
    print(f"{100 * comments / max(lines, 1):.1f} comments in 100 lines")
    for kind, count in counted.items():
        print(f"{count:,}  {kind}")


if __name__ == "__main__":
    main()
