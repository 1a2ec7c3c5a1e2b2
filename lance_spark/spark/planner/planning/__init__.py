"""Requests of Spark to Python sources on the driver, in Java: which processes answer them; and the daemon that forks these."""
