"""The contract of reading a column: steps that ask for bytes, and selections of rows."""
