"""Options as fields of dataclasses: how an option is said, and how its text is read.

In: an option's text, and the fields of a dataclass. Out: a checked value, or an error that names the option. It imports only
errors. Begin with `field.py`.
"""
