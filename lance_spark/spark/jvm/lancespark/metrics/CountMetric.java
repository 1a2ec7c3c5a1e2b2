package lancespark.metrics;

/** A number. */
public final class CountMetric extends LanceMetric {
  public CountMetric() { this(null, null); }
  public CountMetric(String name, String description) { super("sum", name, description); }
}
