"""How the writer chooses the encoding of a page: options, dictionaries, constants, statistics."""
