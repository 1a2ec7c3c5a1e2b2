"""Many tables in namespaces: the protocol, directories of tables, and clients of other namespaces."""
