"""The version of this package. It is kept in this module alone; pyproject.toml and the manifests that are written take it from here."""

__version__ = "0.1.0"
