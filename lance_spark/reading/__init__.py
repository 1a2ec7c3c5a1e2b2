"""The interface of reading a column: steps that request bytes, and selections of rows."""
