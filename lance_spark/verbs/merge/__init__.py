"""MERGE: its clauses, the pairs of rows, and the two ways to find them: tasks over the table, or a join by Spark."""
