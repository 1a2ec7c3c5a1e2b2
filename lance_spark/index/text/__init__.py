"""Full-text (INVERTED) indexes: analyzers that split texts into tokens, the files of a segment, BM25 scores, and searching for queries."""
