"""SQL's row-level commands on lance tables, in Java: DELETE, UPDATE and MERGE INTO, and the rows with their changes."""
