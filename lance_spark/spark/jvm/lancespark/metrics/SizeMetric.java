package lancespark.metrics;

/** A number of bytes. */
public final class SizeMetric extends LanceMetric {
  public SizeMetric() { this(null, null); }
  public SizeMetric(String name, String description) { super("size", name, description); }
}
