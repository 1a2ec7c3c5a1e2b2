"""Tables as other engines know them: the datasets of pyarrow."""
