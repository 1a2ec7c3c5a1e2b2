"""Functions of full-text search in queries: their calls in a plan, in Java, and the columns of scans that take their places."""
