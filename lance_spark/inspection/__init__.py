"""What a version of a table consists of: from its manifest alone, or from the metadata of its files, as values, text and HTML."""
