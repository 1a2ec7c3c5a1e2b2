"""The Python workers of Spark: which Python runs them, what they keep of their imports, and what they report."""
