"""The storage usage of a version, from its manifest or from the metadata of its files, as values, text and HTML.

In: a version of a table. Out: values that print. It reads metadata, never rows. Begin with `usage.py`, what is counted, and
`overview.py`, what is shown first.
"""
