"""The verbs of LanceTable that read or write rows, one a file: each is planned and committed on the driver and runs on the executors.

In: a DataFrame or conditions of a user. Out: a commit, and its metrics. It imports pyspark, `spark/`, `table/` and what is below.
Begin with `target.py`, the table that a verb works on, and `delete.py`, the simplest verb.
"""
