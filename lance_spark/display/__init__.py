"""Values as text and as HTML: numbers with units, tables, lists that print as tables.

In: plain values. Out: text and HTML. It knows nothing of tables, and imports only errors. Begin with `table.py` and `listing.py`.
"""
