"""What Spark asks a data source on the driver, answered by one process: Spark itself has one for each kind of request.

Spark's daemon runs only modules whose names begin with pyspark. PlanningProcess.java sends the requests.
"""

import importlib
import struct
from typing import BinaryIO


def main(infile: BinaryIO, outfile: BinaryIO) -> None:
    """Answer a request: the name of Spark's module for its kind, then what this module reads.

    Raises SystemExit, with which a process of Spark's daemon ends silently, when Spark has ended the connection.
    """
    begin = infile.read(4)
    if len(begin) < 4:
        raise SystemExit(1)
    (size,) = struct.unpack("!i", begin)
    importlib.import_module(infile.read(size).decode()).main(infile, outfile)
