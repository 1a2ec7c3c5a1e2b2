package lancespark;

import java.util.*;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceWriteInfo;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource$;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSourceCommitRunner;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSourceReadRunner;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSourceRunner;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSourceWriteRunner;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/** Answers requests by PlanningProcess. */
class PlanningAnswers extends Answers {
  PlanningAnswers() {}

  UserDefinedPythonDataSource in(UserDefinedPythonDataSource source) { return new PlanningSource(source.dataSourceCls()); }
}

/** A Python source whose requests on the driver all go to the same processes, see PlanningProcess. */
class PlanningSource extends UserDefinedPythonDataSource {
  PlanningSource(PythonFunction source) { super(source); }

  public PythonDataSourceCreationResult createDataSourceInPython(String name, CaseInsensitiveStringMap options, scala.Option schema) {
    Object request = new UserDefinedPythonDataSourceRunner(dataSourceCls(), name, schema, CaseInsensitiveMap$.MODULE$.apply(scalaMap(options)));
    return (PythonDataSourceCreationResult) PlanningProcess.answer(request, dataSourceCls());
  }

  public PythonDataSourceReadInfo createReadInfoInPython(PythonDataSourceCreationResult created,
      StructType schema, boolean isStreaming) {
    PythonFunction source = createPythonFunction(created.dataSource());
    StructType partition = UserDefinedPythonDataSource$.MODULE$.readInputSchema();
    Object request = new UserDefinedPythonDataSourceReadRunner(source, partition, schema, isStreaming);
    return (PythonDataSourceReadInfo) PlanningProcess.answer(request, source);
  }

  public PythonDataSourceWriteInfo createWriteInfoInPython(String name, StructType schema,
      CaseInsensitiveStringMap options, boolean overwrite, boolean isStreaming) {
    Object request = new UserDefinedPythonDataSourceWriteRunner(dataSourceCls(), name, schema, scalaMap(options), overwrite, isStreaming);
    return (PythonDataSourceWriteInfo) PlanningProcess.answer(request, dataSourceCls());
  }

  public void commitWriteInPython(byte[] writer, WriterCommitMessage[] messages, boolean abort) {
    PlanningProcess.answer(new UserDefinedPythonDataSourceCommitRunner(dataSourceCls(), writer, messages, abort), dataSourceCls());
  }

  private static scala.collection.immutable.Map scalaMap(CaseInsensitiveStringMap options) {
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options.asCaseSensitiveMap()));
  }

  /** Executors get Spark's own source, so that they need no class of this package. Janino gives private methods other names, which Java does not find. */
  public Object writeReplace() { return new UserDefinedPythonDataSource(dataSourceCls()); }
}
