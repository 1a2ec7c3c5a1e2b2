"""The metadata of one version (manifest, fragments, transactions, row ids, deletion files) as values and as bytes."""
