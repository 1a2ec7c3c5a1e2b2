"""Page layouts of storage versions 2.1 to 2.3: the buffers of a page <-> Arrow arrays.

In: the encoding and the byte ranges of a page, and rows; or a shredded array. Out: steps that request bytes and return Arrow
arrays; or encoded pages. It may import `encodings/` and what is below, never a file. Begin with `read_column.py` and `write_page.py`.
"""
