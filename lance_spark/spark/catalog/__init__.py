"""The operations of the SQL catalog on namespaces and tables, which LanceCatalog.java requests from a Python process of the driver."""
