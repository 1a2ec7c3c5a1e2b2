"""The verbs of LanceTable, one a file: each is a Spark job that ends in one commit."""
