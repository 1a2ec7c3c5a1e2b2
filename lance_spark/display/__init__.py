"""Values as text and as HTML: numbers with units, tables, lists that print as tables."""
