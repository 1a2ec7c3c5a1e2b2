"""The options of reads and writes in Spark, and where they say that a table is."""
