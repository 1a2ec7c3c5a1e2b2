"""MINHASHLSH: signatures of texts, of which the equal part estimates how many of their shingles two texts share."""
