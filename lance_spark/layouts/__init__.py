"""Page layouts of storage versions 2.1 to 2.3: the buffers of a page <-> Arrow arrays."""
