"""The Java sources of the SQL catalog. Everything that touches a namespace or a table is done by `lance_spark.spark.catalog`."""
