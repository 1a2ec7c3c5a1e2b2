package lancespark.core;

import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.HashMap;
import java.util.Map;

/** Loads classes that are only in memory, whose names are its arguments, and says what Python reads in them. The Java half of tests/spark/test_java.py. */
public final class ClassFileMain {
  private ClassFileMain() {}

  public static void main(String[] names) throws Exception {
    Map<String, byte[]> classes = new HashMap<>();
    for (String name : names) {
      try (InputStream in = ClassFileMain.class.getResourceAsStream("/" + path(name))) {
        classes.put(path(name), in.readAllBytes());
      }
    }
    try (URLClassLoader loader = new URLClassLoader(new URL[] { new CompiledClasses().of(classes) }, ClassLoader.getPlatformClassLoader())) {
      for (String name : names) System.out.println(name + " " + loader.loadClass(name).getDeclaredConstructors().length);
      System.out.println("other: " + loader.getResource("other.class"));
    }
  }

  private static String path(String name) { return name.replace('.', '/') + ".class"; }
}
