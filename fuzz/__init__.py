"""Hostile tables: mutations of good ones, and the promises that are checked on them.

Whatever the bytes of a table's files are, and whichever of them are missing, what is done with the table gives a result or a LanceError;
never another exception, a crash, a hang, or more memory than `lance_spark.buffers.limits` allows. Rows that are read are valid
for Arrow. An operation that fails leaves everything as it was; one that takes place leaves a table that can be read if it could be read
before, by us and by pylance (see `fuzz.operate`).

`make fuzz` searches by coverage (atheris), `python -m fuzz.run` by seeded chance, with `--operations` for what changes tables. The tests
do the latter, and run all cases that were ever found (tests/hostile).
"""
