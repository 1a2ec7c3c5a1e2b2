"""The values of one version (manifest, fragments, transactions, row ids, deletion files) and their bytes. Nothing is decided here."""
