"""Mini-block pages: small values in chunks that are decoded whole."""
