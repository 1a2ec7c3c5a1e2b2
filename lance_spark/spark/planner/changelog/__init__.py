"""The change feed in Spark's own words, CHANGES FROM VERSION, in Java: Spark 4.2 and newer have it."""
