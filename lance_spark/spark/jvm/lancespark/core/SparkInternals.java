package lancespark.core;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import org.apache.spark.unsafe.Platform;

/**
 * The only code, besides CatalogInstall, that accesses private fields of Spark. features.txt lists them, and the arguments of case classes. Errors of
 * Spark's methods stay as they are, declared or not.
 */
@SuppressWarnings("rawtypes")
public class SparkInternals {
  public static Object get(Object object, String field) {
    try {
      return accessible(object, field).get(object);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The value of a field; null if there is none. */
  public static Object getIfThere(Object object, String field) { return declaring(object, field) == null ? null : get(object, field); }

  public static void set(Object object, String field, Object value) {
    try {
      accessible(object, field).set(object, value);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  private static Field accessible(Object object, String name) throws NoSuchFieldException {
    Class type = declaring(object, name);
    if (type == null) throw new IllegalStateException(object.getClass().getName() + " has no field " + name);
    Field field = type.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  /** The class of an object, or the one that it extends, that declares a field; null if there is none. */
  private static Class declaring(Object object, String name) {
    Class type = object.getClass();
    while (type != null && !Feature.declares(type, name)) type = type.getSuperclass();
    return type;
  }

  /** The constructor arguments of a case class. */
  public static Object[] arguments(scala.Product value) {
    Object[] all = new Object[value.productArity()];
    for (int i = 0; i < all.length; i++) all[i] = value.productElement(i);
    return all;
  }

  /** An argument by name, since versions differ in the number of arguments. */
  public static Object argument(scala.Product value, String name) { return value.productElement(position(value, name)); }

  /** A copy of a case class with one argument replaced; a plan node keeps its tags. */
  public static scala.Product with(scala.Product value, String name, Object argument) {
    Object[] all = arguments(value);
    all[position(value, name)] = argument;
    return copy(value, all);
  }

  public static scala.Product copy(scala.Product value, Object[] arguments) {
    try {
      Method[] methods = value.getClass().getMethods();
      for (int i = 0; i < methods.length; i++) {
        boolean copies = methods[i].getName().equals("makeCopy") && methods[i].getParameterTypes().length == 1;
        if (copies) return (scala.Product) methods[i].invoke(value, new Object[] { arguments });
      }
      return (scala.Product) value.getClass().getConstructors()[0].newInstance(arguments);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The result of a method of a companion object: its first arguments are given, versions differ in the others, which are Spark's defaults. */
  public static Object made(Object companion, String name, Object[] given) {
    Method[] methods = companion.getClass().getMethods();
    for (int i = 0; i < methods.length; i++) {
      if (!methods[i].getName().equals(name)) continue;
      Object[] all = Arrays.copyOf(given, methods[i].getParameterTypes().length);
      for (int k = given.length; k < all.length; k++) all[k] = callIfThere(companion, name + "$default$" + (k + 1), new Object[0]);
      return called(methods[i], companion, all);
    }
    throw new IllegalStateException(companion.getClass().getName() + " has no method " + name);
  }

  /** The result of a method that not all versions have; null if this one lacks it. */
  public static Object callIfThere(Object object, String name, Object[] arguments) {
    Method[] methods = object.getClass().getMethods();
    for (int i = 0; i < methods.length; i++) {
      boolean calls = methods[i].getName().equals(name) && methods[i].getParameterTypes().length == arguments.length;
      if (calls) return called(methods[i], object, arguments);
    }
    return null;
  }

  /** The result of a method. Its errors stay as they are. */
  private static Object called(Method method, Object object, Object[] arguments) {
    try {
      return method.invoke(object, arguments);
    } catch (InvocationTargetException e) {
      Platform.throwException(e.getCause());
      return null;
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    }
  }

  private static int position(scala.Product value, String name) {
    for (int i = 0; i < value.productArity(); i++) if (value.productElementName(i).equals(name)) return i;
    throw new IllegalStateException(value.getClass().getName() + " has no argument " + name);
  }
}
