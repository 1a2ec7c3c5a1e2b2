"""Hostile tables: mutations of good ones, and the one promise that is checked on them.

Whatever the bytes of a table's files are, reading it gives rows that Arrow finds valid, or a LanceError; never another exception, a crash,
a hang, or more memory than `lance_spark.buffers.limits` allows. `make fuzz` searches by coverage (atheris), `python -m fuzz.run`
by seeded chance; the tests do the latter and read all cases that were ever found (tests/hostile).
"""
