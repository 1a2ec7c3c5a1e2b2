"""Signatures of a version's texts, from indexes of the kind MINHASHLSH."""
