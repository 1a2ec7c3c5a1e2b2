"""The analysis of lance tables, in Java: metadata columns, row-level commands on views, changes and streams of named tables."""
