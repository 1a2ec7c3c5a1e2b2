"""SQL's row-level commands on lance tables, in Java: DELETE, UPDATE, MERGE INTO and TRUNCATE, and the columns that they need."""
