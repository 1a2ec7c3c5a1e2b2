"""The planner: its Java sources, a folder for each package, and their compilation and installation."""
