package lancespark.search;

import lancespark.core.Plugin;
import lancespark.scan.SearchPlan;

/** Finds the rows of searches for vectors when a query is planned. */
@SuppressWarnings("rawtypes")
public class SearchPlugin extends Plugin {
  public SearchPlugin() {}

  public Object hook(Class type) { return type == SearchPlan.class ? new VectorSearch() : null; }
}
