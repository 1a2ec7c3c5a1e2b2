"""Reading of Arrow batches as columns, in Java: what executors of Spark run."""
