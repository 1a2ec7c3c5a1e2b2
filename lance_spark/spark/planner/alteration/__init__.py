"""ALTER TABLE of columns on tables of the session catalog, in Java: of the table, and of what Spark's catalog has of it."""
