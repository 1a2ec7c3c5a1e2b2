"""Options as fields of dataclasses: how an option is said, and how its text is read."""
