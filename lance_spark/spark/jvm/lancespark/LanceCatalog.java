package lancespark;

import lancespark.catalog.NamespaceCatalog;

/** The catalog of lance tables, by the name that users set: spark.sql.catalog.lance=lancespark.LanceCatalog. */
@SuppressWarnings("unchecked")
public class LanceCatalog extends NamespaceCatalog {
  public LanceCatalog() {}
}
