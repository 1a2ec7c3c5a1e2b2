package lancespark.functions;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import lancespark.core.Session;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The Python functions that users have registered in the session, by spark.udf.register. Python gets
 * the name of a file that only this user can have written: options may be stored in a catalog, where
 * a function would be run for whoever reads them (lance_spark.spark.options.registered).
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
final class RegisteredFunctions {
  /** What Spark says is the source of such functions. */
  private static final String PYTHON = "python_udf";
  /** The start of the name of the folder of the files; only its owner may use it. */
  private static final String FOLDER = "lance-spark-functions-";
  private static final Map FILES = new HashMap();
  private static Path folder;

  private RegisteredFunctions() {}

  /** The file with the pickle of a function and its type; null if the session has none of this name. */
  static String file(String name) {
    byte[] pickle = pickled(name);
    return pickle == null ? null : written(pickle);
  }

  private static byte[] pickled(String name) {
    SessionCatalog catalog = Session.active().sessionState().catalog();
    scala.Option known = catalog.lookupBuiltinOrTempFunction(name);
    if (known.isEmpty() || !PYTHON.equals(((ExpressionInfo) known.get()).getSource())) return null;
    Object call = catalog.resolveBuiltinOrTempFunction(name, CollectionConverters.asScala(new ArrayList()).toSeq()).get();
    if (!(call instanceof PythonUDF)) return null;
    PythonFunction function = (PythonFunction) ((PythonUDF) call).func();
    if (!function.broadcastVars().isEmpty()) {
      throw new IllegalArgumentException("the function " + name + " has more than 1 MB of values:"
          + " let it load them when it is called");
    }
    List bytes = CollectionConverters.asJava((scala.collection.Seq) function.command());
    byte[] pickle = new byte[bytes.size()];
    for (int i = 0; i < pickle.length; i++) pickle[i] = ((Byte) bytes.get(i)).byteValue();
    return pickle;
  }

  private static synchronized String written(byte[] pickle) {
    String key = Base64.getEncoder().encodeToString(pickle);
    if (FILES.containsKey(key)) return (String) FILES.get(key);
    try {
      if (folder == null) {
        folder = Files.createTempDirectory(FOLDER);
        folder.toFile().deleteOnExit();
      }
      Path file = folder.resolve(String.valueOf(FILES.size()));
      Files.write(file, pickle);
      file.toFile().deleteOnExit();
      FILES.put(key, file.toString());
      return file.toString();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
