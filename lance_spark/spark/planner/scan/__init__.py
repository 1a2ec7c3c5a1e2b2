"""A scan of a lance table, in Java: what Spark pushes into it, and the request for Python. Every other part of the planner needs it."""
