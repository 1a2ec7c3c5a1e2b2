package lancespark.planning;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.*;
import org.apache.spark.api.python.PythonWorker;

/**
 * Spark's pool of Python workers. Neither Janino nor Features can look at its methods, because some of Spark 4.3 have types that are not there.
 * Without the methods that are called here, Spark's own processes answer.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
class Workers {
  private static final String ENV = "org.apache.spark.SparkEnv";

  static Object env() throws Exception {
    Class type = Class.forName(ENV);
    try {
      return MethodHandles.publicLookup().findStatic(type, "get", MethodType.methodType(type)).invokeWithArguments(new Object[0]);
    } catch (Throwable t) {
      throw exception(t);
    }
  }

  /** The result of a method whose arguments are three texts, the environment of the workers, and a flag or a worker. */
  static Object call(String name, Class result, Object[] arguments) throws Exception {
    Class last = arguments[4] instanceof Boolean ? boolean.class : PythonWorker.class;
    Class[] types = { String.class, String.class, String.class, scala.collection.immutable.Map.class, last };
    List all = new ArrayList(Arrays.asList(arguments));
    all.add(0, env());
    try {
      return MethodHandles.publicLookup().findVirtual(Class.forName(ENV), name, MethodType.methodType(result, types)).invokeWithArguments(all);
    } catch (Throwable t) {
      throw exception(t);
    }
  }

  private static Exception exception(Throwable t) {
    if (t instanceof Exception) return (Exception) t;
    throw (Error) t;
  }
}
