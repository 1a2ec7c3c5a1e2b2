"""Changes to existing tables, without Spark: rows, columns, restore."""
