"""The command line: `lance-spark COMMAND`, which is `python -m lance_spark COMMAND` too. One file for each command."""
