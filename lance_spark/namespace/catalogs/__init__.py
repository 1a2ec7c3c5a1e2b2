"""Namespaces in the catalogs of other systems: Glue, Hive metastores, Unity Catalog, Polaris, and Iceberg's REST catalogs.

A catalog keeps a name, a location and a mark for each Lance table; versions are kept in the table's folder, as everywhere. Each catalog
has a file here, which implements `Metastore`; `MetastoreNamespace` is the namespace for all of them; `known` has their names and
properties. A table that is made here is found by the package `lance-namespace-impls` and by the JVM connector, and the other way round.
"""
