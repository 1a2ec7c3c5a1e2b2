package lancespark.metrics;

/** A time in nanoseconds. */
public final class TimeMetric extends LanceMetric {
  public TimeMetric() { this(null, null); }
  public TimeMetric(String name, String description) { super("nsTiming", name, description); }
}
