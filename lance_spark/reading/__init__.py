"""The contract of reading a column: which steps ask for which bytes, and which rows are selected."""
