package lancespark.core;

/** A catalog that replaces a table in one commit, and does not drop it before. */
public interface ReplacesAtOnce {}
