package lancespark.text;

import lancespark.core.Addition;
import lancespark.core.Plugin;
import lancespark.core.Walk;

/** Adds the functions of texts, whose calls become columns of scans. */
public class TextPlugin extends Plugin {
  public TextPlugin() {}

  public Addition[] additions() { return new Addition[] { new TextFunction() }; }
  public Walk[] analysis() { return new Walk[] { new TextColumns() }; }
}
