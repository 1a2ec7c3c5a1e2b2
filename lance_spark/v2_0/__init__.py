"""Storage version 2.0: array encodings (encodings_v2_0.proto), a column for every struct, list and leaf of the schema.

In and out are those of `layouts/`. Begin with `field.py` (reading) and `write.py`; `tree.py` lists the encodings.
"""
