"""Operations on a table as values: one file for each family, from which CALL, commands and pages of the documentation are made.

In: the values of an operation's fields, as CALL, a command or Python gives them. Out: rows for its user, from functions of `table/`.
It may import `table/` and what is below, never Spark. Begin with `action.py`, what an operation is, and `all.py`, which lists them.
"""
