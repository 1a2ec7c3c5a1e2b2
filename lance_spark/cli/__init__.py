"""The command line: `lance-spark COMMAND` or `python -m lance_spark COMMAND`. One file for each command, and one for all operations."""
