"""The command line: `lance-spark COMMAND` or `python -m lance_spark COMMAND`. One file for each command, and one for all operations.

In: the arguments of a command. Out: text or JSON, and an exit code. It is the top of the house, so it may import everything.
Begin with `main.py`, which chooses the command, and `operations.py`, which has those of `actions/`.
"""
