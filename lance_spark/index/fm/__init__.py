"""FM-indexes of texts: compressed suffix arrays, which find every substring."""
