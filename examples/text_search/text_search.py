"""Python's own documentation, searched by words, by meaning, and by both at once.

The texts are the docstrings of the standard library. Their meaning is a vector of 100 numbers, made here: words that occur in similar texts
(latent semantic analysis, a truncated singular value decomposition of TF-IDF). Needs scikit-learn; run it with
`python examples/text_search/text_search.py ["words to search for"]`.
"""

import importlib
import inspect
import sys
import tempfile
import types

import numpy as np
import pyarrow as pa
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from lance_spark import Dataset

QUERIES = ["delete an entire directory tree", "split a string at spaces", "wait until a thread ends"]
MODULES = [
    *("argparse", "array", "ast", "asyncio", "base64", "bisect", "builtins", "calendar", "codecs", "collections"),
    *("concurrent.futures", "configparser", "contextlib", "copy", "csv", "ctypes", "datetime", "decimal", "difflib", "email"),
    *("fractions", "functools", "gzip", "hashlib", "heapq", "html", "http.client", "inspect", "io", "itertools", "json"),
    *("logging", "math", "os", "os.path", "pathlib", "pickle", "queue", "random", "re", "shutil", "signal", "socket"),
    *("sqlite3", "statistics", "string", "struct", "subprocess", "tarfile", "tempfile", "textwrap", "threading", "time"),
    *("tokenize", "traceback", "unicodedata", "unittest", "urllib.parse", "uuid", "weakref", "zipfile"),
]
DIMENSIONS = 100
K = 5


def documentation() -> pa.Table:
    """The names and docstrings of functions, classes and methods."""
    found: dict[str, str] = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name, thing in inspect.getmembers(module):
            if name.startswith("_") or isinstance(thing, types.ModuleType):
                continue
            add(found, f"{module_name}.{name}", thing)
            for method, own in vars(thing).items() if inspect.isclass(thing) else ():
                if not method.startswith("_"):
                    add(found, f"{module_name}.{name}.{method}", own)
    return pa.table({"id": range(len(found)), "name": list(found), "text": list(found.values())})


def add(found: dict[str, str], name: str, thing: object) -> None:
    """Add the documentation of a thing, if it has some of its own."""
    text = thing.__doc__ if callable(thing) or isinstance(thing, property) else None
    if isinstance(text, str) and len(text) > 40 and text not in found.values():
        found[name] = inspect.cleandoc(text)


def main() -> None:
    rows = documentation()
    print(f"1. {len(rows)} docstrings; learn what words mean from the texts that they are in")
    model = make_pipeline(
        TfidfVectorizer(sublinear_tf=True, stop_words="english", min_df=2),
        TruncatedSVD(DIMENSIONS, random_state=0),
        Normalizer(),
    )
    meanings = model.fit_transform(rows["text"].to_pylist()).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(meanings.ravel()), DIMENSIONS)

    uri = f"{tempfile.mkdtemp()}/documentation.lance"
    print(f"2. Write texts and vectors to {uri}, and index the texts")
    table = Dataset.write(uri, rows.append_column("meaning", vectors)).create_scalar_index("text", "INVERTED", with_position=True)

    print("3. Search by words, by meaning, and by both")
    for query in sys.argv[1:] or QUERIES:
        near = {"column": "meaning", "q": model.transform([query])[0].astype(np.float32), "k": 4 * K}
        routes = [{"full_text_query": query, "k": 4 * K}, {"nearest": near}]
        answers = {
            "by words": table.scan(["name"], full_text_query=query, limit=K),
            "by meaning": table.scan(["name"], nearest=near, limit=K),
            "by both": table.scan(["name"], hybrid={"routes": routes, "k": K}),
        }
        show(query, {how: search.to_table()["name"].to_pylist() for how, search in answers.items()})


def show(query: str, answers: dict[str, list[str]]) -> None:
    """Print the answers side by side."""
    print(f"\n{query!r}")
    for line in [list(answers), *zip(*answers.values(), strict=False)]:
        print("  " + "".join(f"{cell:<38}" for cell in line).rstrip())


if __name__ == "__main__":
    main()
