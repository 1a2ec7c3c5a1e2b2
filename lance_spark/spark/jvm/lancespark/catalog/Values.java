package lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.protocol.Json;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.types.UTF8String;

/** Values of Spark as JSON, and back. */
@SuppressWarnings({"rawtypes", "unchecked"})
class Values {
  static JsonNode json(InternalRow row, int i, DataType type) {
    ArrayNode one = Json.array();
    if (row.isNullAt(i)) one.addNull();
    else if (type instanceof StringType) one.add(row.getUTF8String(i).toString());
    else if (type instanceof BooleanType) one.add(row.getBoolean(i));
    else if (type instanceof DoubleType) one.add(row.getDouble(i));
    else if (type instanceof ArrayType) one.add(elements(row.getArray(i), ((ArrayType) type).elementType()));
    else if (type instanceof MapType) one.add(entries(row.getMap(i)));
    else one.add(row.getLong(i));  // long, timestamp, interval
    return Json.at(one, 0);
  }

  private static ObjectNode entries(MapData map) {
    ObjectNode all = Json.object();
    for (int i = 0; i < map.numElements(); i++) {
      all.put(map.keyArray().getUTF8String(i).toString(), map.valueArray().isNullAt(i) ? null : map.valueArray().getUTF8String(i).toString());
    }
    return all;
  }

  private static ArrayNode elements(ArrayData array, DataType type) {
    ArrayNode all = Json.array();
    for (int i = 0; i < array.numElements(); i++) {
      if (array.isNullAt(i)) all.addNull();
      else if (type instanceof StringType) all.add(array.getUTF8String(i).toString());
      else if (type instanceof DoubleType) all.add(array.getDouble(i));
      else if (type instanceof ArrayType) all.add(elements(array.getArray(i), ((ArrayType) type).elementType()));
      else all.add(array.getLong(i));
    }
    return all;
  }

  static Object spark(JsonNode value, DataType type) {
    if (value.isNull()) return null;
    if (type instanceof StringType) return UTF8String.fromString(value.asText());
    if (type instanceof BooleanType) return Boolean.valueOf(value.asBoolean());
    if (type instanceof IntegerType) return Integer.valueOf(value.asInt());
    if (type instanceof ArrayType) return array(value.elements(), ((ArrayType) type).elementType(), value.size());
    if (type instanceof MapType) {
      List keys = new ArrayList();
      Iterator it = value.fieldNames();
      while (it.hasNext()) keys.add(UTF8String.fromString((String) it.next()));
      return new ArrayBasedMapData(new GenericArrayData(keys.toArray()), array(value.elements(), ((MapType) type).valueType(), value.size()));
    }
    return Long.valueOf(value.asLong());
  }

  private static GenericArrayData array(Iterator elements, DataType type, int size) {
    Object[] all = new Object[size];
    for (int i = 0; i < size; i++) all[i] = spark((JsonNode) elements.next(), type);
    return new GenericArrayData(all);
  }
}
