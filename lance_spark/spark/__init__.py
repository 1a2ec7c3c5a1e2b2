"""The Spark adapters: the data source, its options, types, reader and writer.

In: options, filters and batches as Spark gives them. Out: tasks, batches and commits. With `verbs/`, the only room that imports
pyspark. Begin with `source.py`; docs/architecture.md shows how Java and Python talk.
"""
