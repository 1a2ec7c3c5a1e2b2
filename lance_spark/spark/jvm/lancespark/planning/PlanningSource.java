package lancespark.planning;

import com.fasterxml.jackson.databind.node.BooleanNode;
import java.util.*;
import lancespark.protocol.Instructions;
import lancespark.protocol.MessageWriter;
import lancespark.protocol.Protocol;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceWriteInfo;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource$;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSourceCommitRunner;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSourceReadRunner;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSourceRunner;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSourceWriteRunner;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/** A Python source whose requests on the driver all go to the same processes, see PlanningProcess. */
@SuppressWarnings({"rawtypes", "unchecked", "serial"})
class PlanningSource extends UserDefinedPythonDataSource {
  PlanningSource(PythonFunction source) { super(source); }

  public PythonDataSourceCreationResult createDataSourceInPython(final String name, final CaseInsensitiveStringMap options, final scala.Option schema) {
    return (PythonDataSourceCreationResult) PlanningProcess.answer(new Question() {
      Object request(boolean isAgain) {
        Map all = new HashMap(options.asCaseSensitiveMap());
        if (isAgain) Instructions.put(all, Instructions.AGAIN, BooleanNode.TRUE);
        CaseInsensitiveStringMap given = new CaseInsensitiveStringMap(all);
        return new UserDefinedPythonDataSourceRunner(dataSourceCls(), name, schema, CaseInsensitiveMap$.MODULE$.apply(scalaMap(given)));
      }

      String outcome() { return "A change that was asked for may have been made: look at the versions of the table"; }
    }, dataSourceCls());
  }

  public PythonDataSourceReadInfo createReadInfoInPython(PythonDataSourceCreationResult created,
      final StructType schema, final boolean isStreaming) {
    final PythonFunction source = createPythonFunction(created.dataSource());
    return (PythonDataSourceReadInfo) PlanningProcess.answer(new Question() {
      Object request(boolean isAgain) {
        return new UserDefinedPythonDataSourceReadRunner(source, UserDefinedPythonDataSource$.MODULE$.readInputSchema(), schema, isStreaming);
      }
    }, source);
  }

  public PythonDataSourceWriteInfo createWriteInfoInPython(final String name, final StructType schema,
      final CaseInsensitiveStringMap options, final boolean overwrite, final boolean isStreaming) {
    return (PythonDataSourceWriteInfo) PlanningProcess.answer(new Question() {
      Object request(boolean isAgain) {
        return new UserDefinedPythonDataSourceWriteRunner(dataSourceCls(), name, schema, scalaMap(options), overwrite, isStreaming);
      }
    }, dataSourceCls());
  }

  /** A commit is found by its transaction if it is asked again. */
  public void commitWriteInPython(final byte[] writer, final WriterCommitMessage[] messages, final boolean abort) {
    PlanningProcess.answer(new Question() {
      Object request(boolean isAgain) {
        byte[] asked = isAgain ? new MessageWriter(Protocol.AGAIN).pickle(writer) : writer;
        return new UserDefinedPythonDataSourceCommitRunner(dataSourceCls(), asked, messages, abort);
      }

      String outcome() { return "The rows may have been committed: look at the versions of the table"; }
    }, dataSourceCls());
  }

  private static scala.collection.immutable.Map scalaMap(CaseInsensitiveStringMap options) {
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options.asCaseSensitiveMap()));
  }

  /** Executors get Spark's own source, so that they need no class of this package. Janino gives private methods other names, which Java does not find. */
  public Object writeReplace() { return new UserDefinedPythonDataSource(dataSourceCls()); }
}
