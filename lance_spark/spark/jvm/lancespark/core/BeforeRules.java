package lancespark.core;

/** An addition that a session must have before it builds its rules. */
public interface BeforeRules extends Addition {}
