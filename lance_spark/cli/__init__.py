"""The command line: `lance-spark COMMAND` or `python -m lance_spark COMMAND`. One file for each command."""
