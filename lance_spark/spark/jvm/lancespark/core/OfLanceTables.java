package lancespark.core;

/** A catalog that has lance tables alone. */
public interface OfLanceTables {}
