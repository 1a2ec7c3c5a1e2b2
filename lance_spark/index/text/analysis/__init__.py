"""How the texts of a full-text index are split into tokens: tokenizers, and the filters that follow them."""
