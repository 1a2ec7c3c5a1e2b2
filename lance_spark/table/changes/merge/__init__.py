"""MERGE of rows in memory into a table: how rows are paired, what the clauses make of the pairs, and pylance's builder of such merges."""
