"""The verbs of LanceTable that read or write rows, one a file: each is planned and committed on the driver and runs on the executors."""
