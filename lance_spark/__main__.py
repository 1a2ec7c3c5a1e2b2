"""`python -m lance_spark COMMAND`: the command line where its script is not on the path."""

from __future__ import annotations

import sys

from lance_spark.cli.main import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m lance_spark"))
