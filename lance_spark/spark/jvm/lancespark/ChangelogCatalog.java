package lancespark;

import lancespark.changelog.ChangesCatalog;

/** The catalog of lance tables with Spark's changelogs, by the name that users set: spark.sql.catalog.lance=lancespark.ChangelogCatalog. */
@SuppressWarnings("unchecked")
public class ChangelogCatalog extends ChangesCatalog {
  public ChangelogCatalog() {}
}
