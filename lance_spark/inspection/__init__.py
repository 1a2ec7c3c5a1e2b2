"""The storage usage of a version, from its manifest or from the metadata of its files, as values, text and HTML."""
