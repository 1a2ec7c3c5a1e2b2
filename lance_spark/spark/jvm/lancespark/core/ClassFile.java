package lancespark.core;

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.net.URL;
import java.net.URLConnection;

/** One class file. */
class ClassFile extends URLConnection {
  private final byte[] bytes;

  ClassFile(URL url, byte[] bytes) {
    super(url);
    this.bytes = bytes;
  }

  public void connect() {}
  public InputStream getInputStream() { return new ByteArrayInputStream(bytes); }
}
