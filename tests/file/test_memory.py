"""Writing and reading need memory for pages and batches only, at any file size."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, sys
import numpy as np, pyarrow as pa
from lance_spark import Dataset

ROWS, BATCHES = 20_000, 40
random = np.random.default_rng(0)

def batch():
    # As Spark gives it: all columns of a batch in one piece of memory.
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(random.random(ROWS * 64, dtype=np.float32)), 64)
    text = pa.array(random.integers(1 << 60, 1 << 62, ROWS)).cast(pa.string())
    columns = {"vector": vectors, "text": text, "flag": pa.array(random.random(ROWS) < 0.5)}
    data, sink = pa.record_batch(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as out:
        out.write_batch(data)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()

def megabytes(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) >> 10 for line in status if line.startswith(key))

def growth(work):
    before = megabytes("VmRSS")
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # forget the highest mark
    work()
    return megabytes("VmHWM") - before

def read(uri):
    for _ in Dataset.open(uri).scan().to_batches():
        pass

uri = sys.argv[1]
Dataset.write(uri + ".warm", [batch() for _ in range(3)])
read(uri + ".warm")
size = ROWS * BATCHES * (64 * 4 + 19) >> 20
print(json.dumps([size, growth(lambda: Dataset.write(uri, (batch() for _ in range(BATCHES)))), growth(lambda: read(uri))]))
"""


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "t")], capture_output=True, text=True, check=True)
    size, writing, reading = json.loads(done.stdout)
    assert size > 200
    assert writing < size / 2
    assert reading < size / 2
