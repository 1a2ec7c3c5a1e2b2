package lancespark.columnar.driver;

import lancespark.core.HandOver;
import lancespark.core.Plugin;

/** Hands over columns instead of rows, and has metrics. */
@SuppressWarnings("rawtypes")
public class ColumnarPlugin extends Plugin {
  public ColumnarPlugin() {}

  public Object hook(Class type) { return type == HandOver.class ? new ColumnarMode() : null; }
}
