"""Changes to existing tables without Spark: delete, alter, restore."""
