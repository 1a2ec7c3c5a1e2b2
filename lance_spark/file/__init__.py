"""One data file: footer, metadata, reader and writer."""
