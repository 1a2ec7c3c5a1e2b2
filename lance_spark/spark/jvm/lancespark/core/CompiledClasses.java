package lancespark.core;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URL;
import java.net.URLConnection;
import java.net.URLStreamHandler;
import java.util.Map;

/** Classes that were compiled in memory, as a place of which a class loader can be told. */
@SuppressWarnings("rawtypes")
public class CompiledClasses extends URLStreamHandler {
  private Map classes;

  public CompiledClasses() {}

  /** A folder with these class files, which are bytes by path. */
  public URL of(Map classes) throws IOException {
    this.classes = classes;
    return new URL(null, "lancespark:/", this);
  }

  protected URLConnection openConnection(URL url) throws IOException {
    byte[] bytes = (byte[]) classes.get(url.getPath().substring(1));
    if (bytes == null) throw new FileNotFoundException(url.toString());
    return new ClassFile(url, bytes);
  }
}
